"""The outcome: figures, checks and verdict, computed from the observations alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.model.counts import Counts
from tools.demo.checks import DemoCheck, all_counts, checks
from tools.demo.compare import Comparison
from tools.demo.crash import Crash
from tools.demo.lane import LANE
from tools.demo.play import DemoView
from tools.demo.queries import QueryResult
from tools.demo.recovery import DemoRecovery
from tools.demo.timeline import Series, Tick, Timeline, growth, latencies, percentile


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Seconds from the source's commit until the change is visible on another connection to the target."""

    p50: float | None
    p99: float | None
    worst: float | None
    beats: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Latency":
        return cls(
            p50=percentile(values, 0.5), p99=percentile(values, 0.99), worst=percentile(values, 1.0), beats=len(values)
        )


@dataclass(frozen=True, kw_only=True)
class Figures:
    seconds_of_load: float
    #: transactions at the source: pgbench's, the shop's by kind
    pgbench: int
    shop: Mapping[str, int]
    epochs: int
    #: number of epochs by plan
    plans: Mapping[str, int]
    #: over all epochs, Debezium's snapshot included
    counts: Counts
    #: messages a second: produced by the load; applied while the lane caught up after the crash
    rate: float
    rate_behind: float
    #: without the beats that the crash delayed; all beats
    latency: Latency
    latency_with_crash: Latency
    snapshots: int


@dataclass(frozen=True, kw_only=True)
class DemoOutcome:
    lane: str
    figures: Figures
    crash: Crash
    recovery: DemoRecovery
    comparisons: tuple[Comparison, ...]
    checks: tuple[DemoCheck, ...]
    timeline: Timeline
    #: server version
    postgres: str
    #: load average of the machine before the demo
    load_before: float
    #: snapshots of the concurrent reader that showed part of an epoch
    partial: int
    #: None: without queries
    queries: QueryResult | None = None

    @property
    def passed(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """For `--json`; without the timeline."""
        plain = asdict(self)
        del plain["timeline"]
        tables = [asdict(one) | {"equal": one.equal} for one in self.comparisons]
        return {"passed": self.passed} | plain | {"comparisons": tables}


def outcome(seen: DemoView) -> DemoOutcome:
    return DemoOutcome(
        lane=LANE,
        figures=_figures(seen),
        crash=seen.crash,
        recovery=seen.recovery,
        comparisons=seen.comparisons,
        checks=checks(seen),
        timeline=_timeline(seen),
        postgres=seen.ending.postgres,
        load_before=seen.load_before,
        partial=seen.onlookers.snapshots.partial.total(),
        queries=seen.queries,
    )


def _figures(seen: DemoView) -> Figures:
    watch, topic, load = seen.onlookers.watch, seen.onlookers.topic, seen.load
    seconds = seen.load_ended - seen.began
    made = [length.end for length in topic.lengths if seen.began <= length.at <= seen.load_ended]
    timed = latencies(load.probe.committed, watch.beats)
    calm = [waited for at, waited in timed if at + waited < seen.crash.at or at > seen.caught_up]
    return Figures(
        seconds_of_load=seconds,
        pgbench=seen.ending.pgbench_transactions,
        shop=dict(load.shop.done.most_common()),
        epochs=len(watch.epochs),
        plans=dict(Counter(epoch.plan for epoch in watch.epochs)),
        counts=all_counts(watch.epochs),
        rate=(made[-1] - made[0]) / seconds,
        rate_behind=_rate_behind(seen),
        latency=Latency.of(calm),
        latency_with_crash=Latency.of([waited for _, waited in timed]),
        snapshots=seen.onlookers.snapshots.taken,
    )


def _rate_behind(seen: DemoView) -> float:
    """Messages a second from the new process's start of work until it has caught up."""
    behind = [epoch for epoch in seen.onlookers.watch.epochs if seen.crash.at < epoch.at <= seen.caught_up]
    worked = seen.recovery.caught_up_seconds - seen.recovery.start_seconds
    return (behind[-1].end - seen.crash.position) / worked if behind else 0.0


def _timeline(seen: DemoView) -> Timeline:
    watch, topic, began = seen.onlookers.watch, seen.onlookers.topic, seen.began
    seconds = seen.ended - began
    return Timeline(
        seconds=seconds,
        load_ended=seen.load_ended - began,
        killed=seen.crash.at - began,
        first_epoch=seen.crash.at + seen.recovery.first_epoch_seconds - began,
        caught_up=seen.caught_up - began,
        produced=growth([(length.at, length.end) for length in topic.lengths], began, seconds),
        applied=growth([(epoch.at, epoch.end) for epoch in watch.epochs], began, seconds),
        lag=_within(seen.onlookers.lags(), began, seconds),
        latency=_within(latencies(seen.load.probe.committed, watch.beats), began, seconds),
        epochs=tuple(
            Tick(
                at=epoch.at - began,
                generation=epoch.generation,
                epoch=epoch.epoch,
                messages=epoch.counts.consumed,
                plan=epoch.plan,
            )
            for epoch in watch.epochs
            if 0 <= epoch.at - began <= seconds
        ),
    )


def _within(points: Sequence[tuple[float, float]], began: float, seconds: float) -> Series:
    return tuple((at - began, value) for at, value in points if 0 <= at - began <= seconds)
