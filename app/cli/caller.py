"""Who calls a command, as the machine knows it."""

import os
import pwd
import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """A user of a machine."""

    user: str
    host: str

    def __str__(self) -> str:
        return f"{self.user}@{self.host}"


def who() -> Caller:
    """The user of this process; its number where it has no name."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())  # a container's user need not be in its passwd
    return Caller(name, socket.gethostname())
