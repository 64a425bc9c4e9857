"""Isolates a container from its networks, for `python -m tools.demo.compose chaos partition`.

Each network of the container gets two reject routes, one for each half. The longer prefix wins, in both directions,
so incoming packets are dropped, too. Removing the routes restores the network. Needs CAP_NET_ADMIN in the container's
network namespace, and no external program.
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
#: struct rtentry: destination, gateway, mask, flags; the other fields are 0
_ROUTE = "@L16s16s16sHhLPhPLLH6x"


@contextmanager
def cut_off() -> Iterator[list[IPv4Network]]:
    """No network is reachable inside the block; gives the networks that are cut off."""
    networks = attached(ROUTES.read_text())
    done: list[IPv4Network] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            for half in (half for network in networks for half in network.subnets()):
                _change_route(control, _SIOCADDRT, half)
                done.append(half)
            yield networks
        finally:
            for half in done:
                _change_route(control, _SIOCDELRT, half)


def attached(routes: str) -> list[IPv4Network]:
    """Networks of the container's interfaces, parsed from the text of /proc/net/route."""
    found: list[IPv4Network] = []
    for line in routes.splitlines()[1:]:
        interface, destination, gateway, flags, *_, mask = line.split()[:8]
        if interface != LOOPBACK and int(gateway, 16) == 0 and int(mask, 16) and not int(flags, 16) & _RTF_REJECT:
            found.append(IPv4Network((_native(destination), str(_native(mask)))))
    return found


def _change_route(control: socket.socket, request: int, network: IPv4Network) -> None:
    """Add or delete a reject route; `request` is SIOCADDRT or SIOCDELRT."""
    destination, mask = _address(network.network_address), _address(network.netmask)
    words = (0, destination, bytes(16), mask, _RTF_UP | _RTF_REJECT, *[0] * 8)
    fcntl.ioctl(control, request, struct.pack(_ROUTE, *words))


def _native(word: str) -> IPv4Address:
    """Parse an address of /proc/net/route: hexadecimal, in the machine's byte order."""
    return IPv4Address(struct.pack("=L", int(word, 16)))


def _address(address: IPv4Address) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, address.packed)
