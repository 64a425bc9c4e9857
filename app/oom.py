"""How often the kernel killed a process of this container, service or machine for want of memory."""

from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_MACHINE = Path("/proc/vmstat")


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
