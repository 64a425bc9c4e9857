"""How often the kernel's OOM killer killed a process of this container, service or machine."""

import time
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_MACHINE = Path("/proc/vmstat")

#: seconds between two readings of the counter
_SECONDS = 1.0


class OomWatch:
    """Whether the OOM killer killed a process within the last two seconds; an older kill does not explain a death."""

    def __init__(self) -> None:
        self._recent = self._before = oom_kills()
        self._at = time.monotonic()

    def look(self) -> None:
        """Read the counter. Call it at least once a second while the watched process lives."""
        if time.monotonic() - self._at >= _SECONDS:
            self._before, self._recent, self._at = self._recent, oom_kills(), time.monotonic()

    @property
    def has_killed(self) -> bool:
        """Whether there was a kill in the last one or two seconds."""
        return oom_kills() != self._before


def oom_kills(own: Path = _OWN, cgroups: Path = _CGROUPS, machine: Path = _MACHINE) -> int | None:
    """The kill counter of this process' control group (version 2), else that of the machine (Linux 4.13); None where
    neither is readable."""
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
