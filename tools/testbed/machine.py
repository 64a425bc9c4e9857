"""CPU seconds and peak memory by process, and the CPU load of other programs meanwhile."""

import multiprocessing
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

#: CPU seconds
Cpu = float
#: psutil's fields of busy CPU time
_BUSY = ("user", "nice", "system", "irq", "softirq")
#: what the processes have used may be so much more than what the machine has: Linux counts that by ticks, and work that
#: a timer's tick begins is over before the next one. A latency at 100/s had 6.3 and 4.7 seconds
_MOST_SHARE, _MOST_SECONDS = 1.5, 2.0


def tree(pid: int | None) -> Cpu:
    """CPU seconds of a process and its children, ended ones included; 0 if the process is gone."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return sum(process.cpu_times()[:4]) + sum(single(child.pid) for child in process.children())
    return 0.0


def single(pid: int) -> Cpu:
    """CPU seconds of one process; 0 if it is gone."""
    with suppress(psutil.NoSuchProcess):
        return sum(psutil.Process(pid).cpu_times()[:2])
    return 0.0


def below(pid: int) -> Cpu:
    """CPU seconds of all living descendants of a process; 0 if it is gone."""
    with suppress(psutil.NoSuchProcess):
        return sum(single(child.pid) for child in psutil.Process(pid).children(recursive=True))
    return 0.0


def peak_megabytes(pid: int) -> float:
    """Peak resident memory of a process (VmHWM); 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """CPU seconds used until one moment."""

    #: monotonic time, seconds
    at: float
    #: by process
    cpu: Mapping[str, Cpu]
    #: by all processes of this machine
    busy: Cpu
    #: by other machines on the same hardware
    stolen: Cpu

    @classmethod
    def of(cls, cpu: Mapping[str, Cpu]) -> "Snapshot":
        """A snapshot of now; `bench`, this process and its multiprocessing workers, is added to `cpu`."""
        times = psutil.cpu_times()._asdict()
        busy = sum(times[name] for name in _BUSY)
        workers = [child.pid for child in multiprocessing.active_children() if child.pid is not None]
        own = {"bench": single(os.getpid()) + sum(map(single, workers))}
        return cls(at=time.monotonic(), cpu={**cpu, **own}, busy=busy, stolen=times["steal"])

    def since(self, start: "Snapshot") -> dict[str, object]:
        """CPU used since `start`, as fields of a result; `other_load` is the mean number of processors that other
        programs kept busy. Raises ValueError where a process has used more than there was: it was there before."""
        used = {name: seconds - start.cpu.get(name, 0.0) for name, seconds in self.cpu.items()}
        busy, known = self.busy - start.busy, sum(used.values())
        if known > busy * _MOST_SHARE + _MOST_SECONDS:
            raise ValueError(f"{used} are more CPU seconds than this machine has used: {busy:.1f}")
        other = busy - known
        return {
            "cpu_seconds": {name: round(seconds, 2) for name, seconds in used.items()},
            "other_load": round(max(0.0, other) / (self.at - start.at), 2),
            "stolen_load": round((self.stolen - start.stolen) / (self.at - start.at), 2),
        }
