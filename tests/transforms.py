"""Transforms for tests: what users' code may do to the process that runs it, asked for by the message itself."""

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from app.transform import Change

#: megabytes that a process may have that eats memory, and one whose rows become large
LIMIT_MB, INFLATED_MB = 600, 900
_CHUNK = 16 << 20


def obey(change: Change) -> Change | None:
    """Do what column `v` says."""
    match change.row.get("v"):
        case "raise":
            raise ValueError("the transform does not like this row")
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "eat":
            _eat()
        case "hang":
            while True:
                time.sleep(3600)  # the very thing
        case "leave out":
            return None
        case "inflate":
            _bound(INFLATED_MB)
            change.row["v"] = "x" * (1 << 20)
        case "shout":
            change.row["v"] = "SHOUT\t\\N\n"
        case _:
            pass
    return change


def complain(change: Change) -> Change | None:
    """Raise what column `v` says."""
    raise RuntimeError(change.row["v"])


def give_up(change: Change) -> Change | None:
    """The same, past every handler of errors: the worker's job ends."""
    raise SystemExit(change.row["v"])


def can_eat() -> bool:
    """Whether this machine lets a test bound a process' memory, so that the kernel kills that one and no other."""
    folder = memory_folder()
    return folder is not None and os.access(folder, os.W_OK)


def memory_folder() -> Path | None:
    """Where groups of bounded memory are made."""
    places = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
    names = ("memory.limit_in_bytes", "cgroup.subtree_control")
    return next((place for place, name in zip(places, names, strict=True) if (place / name).exists()), None)


def _bound(megabytes: int) -> None:
    """Move this process into a group of bounded memory, once."""
    folder = memory_folder()
    assert folder is not None
    group = folder / f"surelane-{os.getpid()}"
    if group.exists():
        return
    for other in folder.glob("surelane-*"):  # of processes that are gone: hundreds of them make the kernel slow
        if not Path(f"/proc/{other.name.rpartition('-')[2]}").exists():
            with suppress(OSError):
                other.rmdir()
    group.mkdir()
    limit = group / ("memory.limit_in_bytes" if (group / "memory.limit_in_bytes").exists() else "memory.max")
    limit.write_text(str(megabytes << 20))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _eat() -> None:
    """Take more than there is: the kernel kills this process."""
    _bound(LIMIT_MB)
    eaten = []
    while True:
        eaten.append(bytearray(os.urandom(1024) * (_CHUNK // 1024)))
