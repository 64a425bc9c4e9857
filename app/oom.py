"""How often the kernel killed a process of this container, service or machine for want of memory."""

import time
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_MACHINE = Path("/proc/vmstat")

#: between two readings of the counter
_SECONDS = 1.0


class OomWatch:
    """Whether the kernel has killed something just now: what it did long before a death has nothing to do with it."""

    def __init__(self) -> None:
        self._recent = self._before = oom_kills()
        self._at = time.monotonic()

    def look(self) -> None:
        """To be called at least once a second, for as long as the process lives that is watched."""
        if time.monotonic() - self._at >= _SECONDS:
            self._before, self._recent, self._at = self._recent, oom_kills(), time.monotonic()

    @property
    def has_killed(self) -> bool:
        """In the last one or two seconds."""
        return oom_kills() != self._before


def oom_kills(own: Path = _OWN, cgroups: Path = _CGROUPS, machine: Path = _MACHINE) -> int | None:
    """The counter of the control group (version 2) this process is in, else that of the machine (Linux 4.13); None
    where neither can be read."""
    found = _of_the_group(own, cgroups)
    return _counter(machine) if found is None else found


def _of_the_group(own: Path, cgroups: Path) -> int | None:
    try:
        path = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    return _counter(cgroups / path.lstrip("/") / "memory.events")


def _counter(file: Path) -> int | None:
    try:
        return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith("oom_kill "))
    except (OSError, StopIteration):
        return None
