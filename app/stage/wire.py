"""Connections between driver and stage processes: a peer that vanishes silently is noticed."""

import os
import socket
from multiprocessing.connection import Connection

from app.db.engine import KEEPALIVES, TCP_USER_TIMEOUT_MS

_OPTIONS = (
    ("keepalives_idle", "TCP_KEEPIDLE"),
    ("keepalives_interval", "TCP_KEEPINTVL"),
    ("keepalives_count", "TCP_KEEPCNT"),
)


def socket_of(connection: Connection) -> socket.socket:
    """A second handle of the connection's socket, to be closed by the caller."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def keep_alive(connection: Connection) -> None:
    """Have a lost peer noticed within half a minute, as in connections to a database."""
    with socket_of(connection) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS)
        for name, option in _OPTIONS:
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), KEEPALIVES[name])
