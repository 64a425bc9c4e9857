"""Medians over the runs of each system and workload."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import results
from bench.peers.system import System
from bench.workload import Kind

DRAIN, LATENCY = "peer-drain", "peer-latency"
#: of a system's processes: servers are shown by themselves, the rest is the client
SERVERS = ("postgres", "kafka")
_Result = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Drained:
    """What one system did with one backlog."""

    system: System
    workload: Kind
    runs: int
    #: messages a second from the first look that found rows to the last message's row: median, slowest and fastest run;
    #: None: all was there at the first look, or no run was right
    rate: float | None
    slowest: float | None
    fastest: float | None
    #: messages a second from process start; None for the ceiling, which is no process
    rate_from_start: float | None
    #: CPU seconds for a million messages: client, postgres, kafka
    cpu: Mapping[str, float]
    #: CPU seconds for a million messages of those that were not seen at the first look, all processes: what one more
    #: message costs, the start left out
    cpu_after_start: float | None
    #: processors that others kept busy, in the run where they kept most
    other_load: float
    #: whether every run left the right table; only right runs are counted above
    right: bool

    @property
    def cpu_total(self) -> float | None:
        """CPU seconds for a million messages, all processes; None when no run was right."""
        return sum(self.cpu.values()) if self.cpu else None


@dataclass(frozen=True, kw_only=True)
class Held:
    """How late one system was at one rate; milliseconds, medians of the runs."""

    system: System
    asked_rate: int
    runs: int
    p50: float | None
    p99: float | None
    #: in the worst run
    worst: float | None
    other_load: float
    right: bool


Drains = Mapping[tuple[System, Kind], Drained]


def drains(done: Sequence[_Result]) -> dict[tuple[System, Kind], Drained]:
    """By system and workload, in the order in which they were measured first."""
    found: dict[tuple[System, Kind], list[_Result]] = {}
    for result in done:
        if result["measure"] == DRAIN:
            found.setdefault((System(result["system"]), Kind(result["workload"])), []).append(result)
    return {what: _drained(*what, runs) for what, runs in found.items()}


def latencies(done: Sequence[_Result]) -> list[Held]:
    """By system and rate, in the order in which they were measured first."""
    found: dict[tuple[System, int], list[_Result]] = {}
    for result in done:
        if result["measure"] == LATENCY:
            found.setdefault((System(result["system"]), result["asked_rate"]), []).append(result)
    return [_held(*what, runs) for what, runs in found.items()]


def ratio(one: float | None, other: float | None) -> float | None:
    """How many times `other` one is; None where either is not known."""
    return one / other if one is not None and other else None


def _drained(system: System, workload: Kind, runs: Sequence[_Result]) -> Drained:
    right = [run for run in runs if run["correct"]]
    rates = _known(right, "rate")
    parts = dict.fromkeys(part for run in right for part in _cpu(run))
    return Drained(
        system=system,
        workload=workload,
        runs=len(right),
        rate=_reduced(statistics.median, rates),
        slowest=_reduced(min, rates),
        fastest=_reduced(max, rates),
        rate_from_start=_reduced(statistics.median, _known(right, "rate_from_start")),
        cpu={part: statistics.median(_cpu(run).get(part, 0.0) for run in right) for part in parts},
        cpu_after_start=_reduced(statistics.median, [cost for run in right if (cost := _cpu_after_start(run))]),
        other_load=max(_known(runs, "other_load"), default=0.0),
        right=len(right) == len(runs),
    )


def _held(system: System, asked_rate: int, runs: Sequence[_Result]) -> Held:
    right = [run for run in runs if run["correct"]]
    return Held(
        system=system,
        asked_rate=asked_rate,
        runs=len(right),
        p50=_reduced(statistics.median, _known(right, "p50_milliseconds")),
        p99=_reduced(statistics.median, _known(right, "p99_milliseconds")),
        worst=_reduced(max, _known(right, "max_milliseconds")),
        other_load=max(_known(runs, "other_load"), default=0.0),
        right=len(right) == len(runs),
    )


def _cpu(run: _Result) -> dict[str, float]:
    """CPU seconds for a million messages, by part."""
    used = results.cpu_used(dict(run))
    client = sum(seconds for name, seconds in used.items() if name not in SERVERS)
    parts = {"client": client, **{name: used.get(name, 0.0) for name in SERVERS}}
    return {name: seconds / run["messages"] * 1_000_000 for name, seconds in parts.items()}


def _cpu_after_start(run: _Result) -> float | None:
    messages = run["messages"] - run.get("messages_at_first_look", 0)
    used = sum(results.cpu_used(dict(run), "cpu_seconds_after_first_look").values())
    return used / messages * 1_000_000 if messages and used else None


def _known(runs: Sequence[_Result], name: str) -> list[float]:
    return [run[name] for run in runs if run.get(name) is not None]


def _reduced(how: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return how(values) if values else None
