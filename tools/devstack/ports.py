"""Loopback ports: a free one is chosen once, then kept in a file."""

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
#: Below the ephemeral range, so that no outgoing connection takes a server's port between its stop and its next
#: start.
FIRST_PORT, LAST_PORT = 20_000, 31_999
ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether something listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def remembered_port(file: Path) -> int:
    """The port kept in `file`; if there is none, or it is in use, a new one is chosen and written to `file`."""
    kept = int(file.read_text()) if file.exists() else None
    port = kept if kept is not None and is_free(kept) else _choose()
    file.write_text(f"{port}\n")
    return port


def known_port(file: Path) -> int | None:
    """The port kept in `file`, whether or not it is in use; None without the file."""
    return int(file.read_text()) if file.exists() else None


def _choose() -> int:
    return next(port for port in random.choices(range(FIRST_PORT, LAST_PORT), k=ATTEMPTS) if is_free(port))
