"""The user and host that call a command."""

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
    """The user of this process and the host; the user id where it has no name."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())  # a container's user may be missing in passwd
    return Caller(name, socket.gethostname())
