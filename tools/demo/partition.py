"""A container that reaches nobody, and is reached by nobody: what `python -m tools.demo.compose chaos partition` does.

Networks that the container is in get two routes that lead nowhere, one for each half: the longer prefix wins, in both
directions, so packets that come are dropped, too. Taken out again, everything is as it was. Needs CAP_NET_ADMIN in the
container's network namespace, and no program.
"""

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

ROUTES = Path("/proc/net/route")
LOOPBACK = "lo"
_SIOCADDRT, _SIOCDELRT = 0x890B, 0x890C
_RTF_UP, _RTF_REJECT = 0x1, 0x200
#: struct rtentry: destination, gateway, mask, flags, and what stays 0
_ROUTE = "@L16s16s16sHhLPhPLLH6x"


@contextmanager
def cut_off() -> Iterator[list[IPv4Network]]:
    """Nobody is reached inside of it; gives the networks that are away."""
    networks = attached(ROUTES.read_text())
    done: list[IPv4Network] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            for half in (half for network in networks for half in network.subnets()):
                _tell(control, _SIOCADDRT, half)
                done.append(half)
            yield networks
        finally:
            for half in done:
                _tell(control, _SIOCDELRT, half)


def attached(routes: str) -> list[IPv4Network]:
    """Networks of the container's own interfaces, in the words of /proc/net/route."""
    found: list[IPv4Network] = []
    for line in routes.splitlines()[1:]:
        interface, destination, gateway, flags, *_, mask = line.split()[:8]
        if interface != LOOPBACK and int(gateway, 16) == 0 and int(mask, 16) and not int(flags, 16) & _RTF_REJECT:
            found.append(IPv4Network((_native(destination), str(_native(mask)))))
    return found


def _tell(control: socket.socket, request: int, network: IPv4Network) -> None:
    """A route that refuses what goes there: one more, or one less."""
    destination, mask = _address(network.network_address), _address(network.netmask)
    words = (0, destination, bytes(16), mask, _RTF_UP | _RTF_REJECT, *[0] * 8)
    fcntl.ioctl(control, request, struct.pack(_ROUTE, *words))


def _native(word: str) -> IPv4Address:
    """The kernel writes the four bytes as one number of this machine's."""
    return IPv4Address(struct.pack("=L", int(word, 16)))


def _address(address: IPv4Address) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, address.packed)
