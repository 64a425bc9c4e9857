"""Measures the downtime of a lane whose processes are all killed under load, and which is restarted at once.

load ........ SIGKILL, started again ...... first epoch of the new generation ... lag under a second ... as before
                        |--------- first_epoch_seconds -------|                        |                    |
                        |------------------------- caught_up_seconds ------------------|                    |
                        |------------------------- as_before_seconds -----------------------------------------|
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tools.bench.groups import LOAD, STATE, SYSTEM, cell, cpu_of, grouped, median_of, of_field, spread_of
from tools.bench.latency import LOOK_SECONDS, Sightings, quantiles
from tools.bench.page import Goal, Section, Table
from tools.bench.plan import Plan
from tools.bench.results import Result, Task, rehearse
from tools.bench.trial import trial
from tools.peers import lane
from tools.peers.lane import RUNNING
from tools.peers.systems import System, of_lane
from tools.testbed.pacer import Paced, paced
from tools.testbed.servers import LEDGER_SCHEMA, Servers
from tools.testbed.workload import Shape

TOPIC = "bench.kill"
SHAPE = Shape(called="kill", most_rows=100_000)
#: seconds, medians
FIRST_LIMIT_SECONDS, CAUGHT_UP_LIMIT_SECONDS = 5.0, 15.0
#: the trigger for which they are goals: epochs that gather for longer are as late
AT_ONCE = "0 seconds"
#: caught up: no message older than this is invisible, seconds
LAG_SECONDS = 1.0
#: share of the load before the kill that is not counted
WARM_UP_SHARE = 0.5
first_epoch, caught_up, as_before = (of_field(f"{name}_seconds") for name in ("first_epoch", "caught_up", "as_before"))
_GENERATION = f"select coalesce(max(generation), 0) from {LEDGER_SCHEMA}.ledger"


@dataclass(frozen=True, kw_only=True)
class Load:
    """The steady load before and after the kill."""

    #: messages a second
    rate: int
    #: seconds before the kill, and as many after it
    seconds: int
    #: `epoch.trigger`: how long an epoch's messages are gathered
    trigger: str = AT_ONCE

    @property
    def seen(self) -> int:
        """Messages before the kill."""
        return self.rate * self.seconds

    @property
    def messages(self) -> int:
        return 2 * self.seen

    @property
    def warm_up(self) -> int:
        """Messages that are not counted."""
        return round(self.seen * WARM_UP_SHARE)


def tasks(plan: Plan, up: Servers) -> Iterator[Task]:
    loads = [Load(rate=rate, seconds=plan.seconds, trigger=trigger) for rate in plan.rates for trigger in plan.triggers]
    if plan.rehearsal:
        rehearse("a kill", partial(measure, up, plan.systems[0], loads[0]))
    for run, _, load, system in plan.passes(loads):
        what = {"messages": load.messages, "asked_rate": load.rate, "trigger": load.trigger, "run": run}
        yield Task({"system": system.name, **what}, partial(measure, up, system, load))


def measure(servers: Servers, system: System, load: Load) -> dict[str, Any]:
    """Measure one kill; returns the fields of a result."""
    servers.empty_topic(TOPIC)
    sightings = Sightings.of_offsets(TOPIC)
    gathering = of_lane(system.name, mode=system.mode, settings={"epoch": {"trigger": load.trigger}})
    with trial(servers, gathering, TOPIC, SHAPE.ddl, LOOK_SECONDS) as one:
        one.until(RUNNING, "the lane")
        with paced(servers.bootstrap, TOPIC, load.rate, load.messages, shape=SHAPE) as pacing:
            one.until(lambda: sightings.look(one) >= load.warm_up, "the warm-up")
            start, warmed = one.snapshot(), time.time()
            one.until(lambda: sightings.look(one) >= load.seen, "the load before the kill")
            used = one.snapshot().since(start)
            epochs = [epoch for epoch in one.lane.epochs() if epoch.at >= warmed]
            before = one.answer(_GENERATION) or 0
            one.lane.kill()
            in_doubt = servers.prepared()
            with lane.running(servers, TOPIC, again=True) as second:
                again = replace(one, held=second)
                is_new = lambda: (again.answer(_GENERATION) or 0) > before  # noqa: E731
                again.until(is_new, "the first new epoch")
                back_at = time.time()
                while not pacing.done():
                    sightings.look(again)
                    second.must_live()
                    time.sleep(LOOK_SECONDS)
                found = pacing.result()
                again.until(lambda: sightings.look(again) >= load.messages, "the last message")
                ended = again.end(again.reaches(SHAPE.made, found.expected) and sightings.look(again) == load.messages)
    counted = load.seen - load.warm_up
    return {
        **back(sightings, found, load, second.started_at, back_at),
        **used,
        "counted_messages": counted,
        "messages_an_epoch": round(counted / max(1, len(epochs)), 1),
        "in_doubt_at_kill": in_doubt,
        **ended,
    }


def back(sightings: Sightings, paced: Paced, load: Load, restarted: float, back_at: float) -> Result:
    """When the lane was back, seconds since its restart, None: not during the load; and the latency before the kill.
    `restarted` and `back_at`, the first new epoch, are seconds since 1970."""
    at, end = np.array(sightings.at), np.array(sightings.newest)
    # at each poll: age of the oldest message that became visible, and of the oldest that is still invisible
    brought = at - paced.sent_at[np.concatenate(([0], end[:-1]))]
    missing = at - np.append(paced.sent_at, np.inf)[end]
    counted = slice(load.warm_up, load.seen)
    latencies = sightings.seconds(np.arange(1, len(paced.sent_at) + 1), paced.sent_at)[counted]
    usual = float(np.quantile(latencies, 0.99))

    def since(condition: "np.ndarray[Any, np.dtype[np.bool_]]") -> float | None:
        found = np.flatnonzero((at >= back_at - LOOK_SECONDS) & condition)
        return round(float(at[found[0]] - restarted), 2) if len(found) else None

    return {
        "first_epoch_seconds": round(back_at - restarted, 2),
        "caught_up_seconds": since(missing < LAG_SECONDS),
        "as_before_seconds": since(brought <= usual),
        **{f"before_{name}": value for name, value in quantiles(latencies * 1000).items()},
    }


def _cpu(run: Result) -> float | None:
    """Milliseconds of lane and Postgres for 1,000 messages before the kill."""
    parts = [cpu_of(part)({**run, "messages": run["counted_messages"]}) for part in ("client", "postgres")]
    return sum(part for part in parts if part is not None)


_COLUMNS = (
    *(("messages/s", cell("asked_rate")), ("trigger", lambda one: one.get("trigger")), SYSTEM),
    ("messages an epoch", median_of(of_field("messages_an_epoch"))),
    *((f"before: {name} ms", median_of(of_field(f"before_{name}_milliseconds"))) for name in ("p50", "p99")),
    ("CPU ms for 1,000", median_of(_cpu)),
    *(("first new epoch, s", median_of(first_epoch, 1)), ("from - to", spread_of(first_epoch, 1))),
    *(("lag under 1 s, s", median_of(caught_up, 1)), ("as before, s", median_of(as_before, 1))),
    *(("in doubt at the kill", median_of(of_field("in_doubt_at_kill"), 1)), STATE, LOAD),
)


def sections(_: Plan, done: Sequence[Result]) -> Iterator[Section]:
    """Medians of the kills; goals of lanes that gather nothing."""
    kills = grouped(done, "system", "asked_rate", "trigger")
    goals = [
        Goal(
            f"{one.get('system')} killed at {one.get('asked_rate'):,}/s: start to {what}",
            limit,
            one.judged(figure),
            "s",
        )
        for one in kills
        if one.get("trigger") == AT_ONCE
        for what, limit, figure in (
            ("first new epoch visible", FIRST_LIMIT_SECONDS, first_epoch),
            ("lag under a second", CAUGHT_UP_LIMIT_SECONDS, caught_up),
        )
    ]
    yield Section("kill", "Killed under load", [Table.of("Kills, medians", _COLUMNS, kills)], goals)
