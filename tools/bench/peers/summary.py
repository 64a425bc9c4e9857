"""Medians over the runs for each system and workload."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from tools.bench import results
from tools.bench.peers.system import System
from tools.bench.workload import Kind

DRAIN, LATENCY = "peer-drain", "peer-latency"
#: processes that are shown separately; all others are the client
SERVERS = ("postgres", "kafka")
_Result = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Drained:
    """Drains of one backlog by one system."""

    system: System
    workload: Kind
    messages: int
    runs: int
    #: messages a second from the first poll that found rows to the last message's row: median, slowest and fastest run;
    #: None: all rows were visible at the first poll, or no run was right
    rate: float | None
    slowest: float | None
    fastest: float | None
    #: messages a second from process start; None for the ceiling, which is no process
    rate_from_start: float | None
    #: CPU seconds for a million messages: client, postgres, kafka
    cpu: Mapping[str, float]
    #: CPU seconds of all processes for a million messages, of those not visible at the first poll: the cost of one more
    #: message, without the start
    cpu_after_start: float | None
    #: processors that other programs kept busy or the host stole, in the worst run
    disturbance: float
    #: whether every run left the right table; only right runs count above
    right: bool
    #: the right runs by number
    by_run: Mapping[int, _Result]

    @property
    def cpu_total(self) -> float | None:
        """CPU seconds for a million messages, all processes; None if no run was right."""
        return sum(self.cpu.values()) if self.cpu else None


@dataclass(frozen=True, kw_only=True)
class Held:
    """Latency of one system at one rate; milliseconds, medians of the runs."""

    system: System
    asked_rate: int
    runs: int
    p50: float | None
    p99: float | None
    #: maximum over the runs
    worst: float | None
    disturbance: float
    right: bool


#: by system, workload and number of messages
Drains = Mapping[tuple[System, Kind, int], Drained]
Figure = Callable[[_Result], float | None]


class Ratio(NamedTuple):
    """Ratio of a figure of two systems, or workloads, within each run: median, lowest and highest."""

    middle: float
    lowest: float
    highest: float


def drains(done: Sequence[_Result]) -> dict[tuple[System, Kind, int], Drained]:
    """By system, workload and number of messages, in the order of the first measurement."""
    found: dict[tuple[System, Kind, int], list[_Result]] = {}
    for result in done:
        if result["measure"] == DRAIN:
            what = System(result["system"]), Kind(result["workload"]), int(result["messages"])
            found.setdefault(what, []).append(result)
    return {what: _drained(*what, runs) for what, runs in found.items()}


def latencies(done: Sequence[_Result]) -> list[Held]:
    """By system and rate, in the order of the first measurement."""
    found: dict[tuple[System, int], list[_Result]] = {}
    for result in done:
        if result["measure"] == LATENCY:
            found.setdefault((System(result["system"]), result["asked_rate"]), []).append(result)
    return [_held(*what, runs) for what, runs in found.items()]


def ratio(one: Drained, other: Drained, figure: Figure) -> Ratio | None:
    """Ratio of the figure of `one` to that of `other`, within each run; None if no run has both.

    Ratios within a run exclude drift of the machine over the runs, but not what disturbs only one side.
    """
    both = [(figure(one.by_run[run]), figure(other.by_run[run])) for run in one.by_run if run in other.by_run]
    found = [above / below for above, below in both if above is not None and below]
    return Ratio(statistics.median(found), min(found), max(found)) if found else None


def rate(run: _Result) -> float | None:
    """Messages a second, see Drained."""
    return run.get("rate")


def rate_from_start(run: _Result) -> float | None:
    """Messages a second, see Drained."""
    return run.get("rate_from_start")


def cpu(run: _Result) -> float | None:
    """CPU seconds for a million messages, all processes."""
    return sum(_cpu(run).values())


def cpu_after_start(run: _Result) -> float | None:
    """CPU seconds for a million messages, see Drained."""
    messages = run["messages"] - run.get("messages_at_first_look", 0)
    used = sum(results.cpu_used(dict(run), "cpu_seconds_after_first_look").values())
    return used / messages * 1_000_000 if messages and used else None


def _drained(system: System, workload: Kind, messages: int, runs: Sequence[_Result]) -> Drained:
    right = [run for run in runs if run["correct"]]
    rates = _known(right, rate)
    parts = dict.fromkeys(part for run in right for part in _cpu(run))
    return Drained(
        system=system,
        workload=workload,
        messages=messages,
        runs=len(right),
        rate=_reduced(statistics.median, rates),
        slowest=_reduced(min, rates),
        fastest=_reduced(max, rates),
        rate_from_start=_reduced(statistics.median, _known(right, rate_from_start)),
        cpu={part: statistics.median(_cpu(run).get(part, 0.0) for run in right) for part in parts},
        cpu_after_start=_reduced(statistics.median, _known(right, cpu_after_start)),
        disturbance=max(map(results.disturbance, runs), default=0.0),
        right=len(right) == len(runs),
        by_run={run["run"]: run for run in right},
    )


def _held(system: System, asked_rate: int, runs: Sequence[_Result]) -> Held:
    right = [run for run in runs if run["correct"]]
    return Held(
        system=system,
        asked_rate=asked_rate,
        runs=len(right),
        p50=_reduced(statistics.median, _known(right, itemgetter("p50_milliseconds"))),
        p99=_reduced(statistics.median, _known(right, itemgetter("p99_milliseconds"))),
        worst=_reduced(max, _known(right, itemgetter("max_milliseconds"))),
        disturbance=max(map(results.disturbance, runs), default=0.0),
        right=len(right) == len(runs),
    )


def _cpu(run: _Result) -> dict[str, float]:
    """CPU seconds for a million messages, by part."""
    used = results.cpu_used(dict(run))
    client = sum(seconds for name, seconds in used.items() if name not in SERVERS)
    parts = {"client": client, **{name: used.get(name, 0.0) for name in SERVERS}}
    return {name: seconds / run["messages"] * 1_000_000 for name, seconds in parts.items()}


def _known(runs: Sequence[_Result], figure: Figure) -> list[float]:
    return [found for run in runs if (found := figure(run)) is not None]


def _reduced(how: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return how(values) if values else None
