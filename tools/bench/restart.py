"""Measures the downtime of a lane whose processes are all killed under load, and which is restarted at once.

load ........ SIGKILL, started again ...... first epoch of the new generation ... lag under a second ... as before
                        |--------- first_epoch_seconds -------|                        |                    |
                        |------------------------- caught_up_seconds ------------------|                    |
                        |------------------------- as_before_seconds -----------------------------------------|
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tools.bench.latency import LOOK_SECONDS, Sightings, quantiles
from tools.bench.page import Goal, Section, Table, number
from tools.bench.report import Measure, in_rounds
from tools.bench.results import Result, Task, rehearse, state
from tools.bench.summary import Group, cell, of_field
from tools.bench.trial import trial
from tools.peers import lane
from tools.peers.lane import PARTS, RUNNING
from tools.peers.systems import SURELANE, of_lane
from tools.testbed.pacer import Paced, paced
from tools.testbed.servers import LEDGER_SCHEMA, Servers
from tools.testbed.workload import Shape

TOPIC = "bench.restart"
SHAPE = Shape(called="restart", most_rows=100_000)
#: seconds, medians
FIRST_LIMIT_SECONDS, CAUGHT_UP_LIMIT_SECONDS = 5.0, 15.0
#: caught up: no message older than this is invisible, seconds
LAG_SECONDS = 1.0
#: share of the load before the kill that is not counted
WARM_UP_SHARE = 0.5
FIGURES = ("first_epoch_seconds", "caught_up_seconds", "as_before_seconds")
_GENERATION = f"select coalesce(max(generation), 0) from {LEDGER_SCHEMA}.ledger"
_BACK = (
    ("first new epoch, s", cell("first_epoch_seconds", digits=1)),
    ("lag under 1 s, s", cell("caught_up_seconds", digits=1)),
)
_END = (("in doubt at the kill", cell("in_doubt_at_kill")), ("state", state))
_P50, _P99 = (cell(f"before_{name}_milliseconds") for name in ("p50", "p99"))
_RESTARTS = (
    ("run", cell("run")),
    *_BACK,
    ("as before, s", cell("as_before_seconds", digits=1)),
    *(("before the kill: p50 ms", _P50), ("p99 ms", _P99)),
    *_END,
)
_CURVE = (
    *(("messages/s", cell("asked_rate")), ("trigger", cell("trigger"))),
    ("messages an epoch", lambda one: number(_an_epoch(one))),
    *(("p50 ms", _P50), ("p99 ms", _P99)),
    ("CPU ms for 1,000", lambda one: number(_cpu(one))),
    *_BACK,
    *_END,
)


@dataclass(frozen=True, kw_only=True)
class Load:
    """The steady load before and after the kill."""

    #: messages a second
    rate: int
    #: seconds before the kill, and after it
    before: int
    after: int
    #: `epoch.trigger`: how long an epoch's messages are gathered
    trigger: str = "0 seconds"

    @property
    def messages(self) -> int:
        return self.rate * (self.before + self.after)

    @property
    def warm_up(self) -> int:
        """Messages that are not counted."""
        return round(self.rate * self.before * WARM_UP_SHARE)


def of_restarts(load: Load) -> Measure:
    """Of bench-restart."""
    tasks = in_rounds(partial(_cases, "restart", [load]))
    return Measure("restart", tasks, lambda done: [section(done)])


def of_recovery(loads: Sequence[Load]) -> Measure:
    """Of bench-recovery: what larger epochs cost and save."""

    def sections(done: Sequence[Result]) -> Sequence[Section]:
        table = Table.of("Recovery", _CURVE, done)
        return [Section("recovery", "Epoch size and recovery", [table])]

    return Measure("recovery", in_rounds(partial(_cases, "recovery", loads)), sections)


def _cases(name: str, loads: Sequence[Load], up: Servers) -> Sequence[Task]:
    rehearse("a kill", partial(measure, up, loads[0]))
    what = [{"messages": load.messages, "asked_rate": load.rate, "trigger": load.trigger} for load in loads]
    return [Task(name, known, partial(measure, up, load)) for known, load in zip(what, loads, strict=True)]


def measure(servers: Servers, load: Load) -> dict[str, Any]:
    """Measure one kill; returns the fields of a result."""
    servers.empty_topic(TOPIC)
    sightings, seen = Sightings.of_offsets(TOPIC), load.rate * load.before
    system = of_lane(SURELANE, settings={"epoch": {"trigger": load.trigger}})
    with trial(servers, system, TOPIC, SHAPE.ddl, LOOK_SECONDS) as one:
        one.until(RUNNING, "the lane")
        with paced(servers.bootstrap, TOPIC, load.rate, load.messages, shape=SHAPE) as pacing:
            one.until(lambda: sightings.look(one) >= load.warm_up, "the warm-up")
            start, warmed = one.snapshot(), time.time()
            one.until(lambda: sightings.look(one) >= seen, "the load before the kill")
            used = one.snapshot().since(start)
            epochs = [epoch for epoch in one.lane.epochs() if epoch.at >= warmed]
            before = one.answer(_GENERATION) or 0
            one.lane.kill()
            in_doubt = servers.prepared()
            with lane.running(servers, TOPIC, again=True) as second:
                again = replace(one, held=second)
                is_new = lambda: (again.answer(_GENERATION) or 0) > before  # noqa: E731
                again.until(is_new, "the first new epoch")
                first_epoch = time.time()
                while not pacing.done():
                    sightings.look(again)
                    second.must_live()
                    time.sleep(LOOK_SECONDS)
                found = pacing.result()
                again.until(lambda: sightings.look(again) >= load.messages, "the last message")
                ended = again.end(again.reaches(SHAPE.made, found.expected) and sightings.look(again) == load.messages)
    return {
        **back(sightings, found, load, second.started_at, first_epoch),
        **used,
        "epochs_before_kill": len(epochs),
        "messages_before_kill": seen - load.warm_up,
        "in_doubt_at_kill": in_doubt,
        **ended,
    }


def back(sightings: Sightings, paced: Paced, load: Load, restarted: float, first_epoch: float) -> Result:
    """When the lane was back, seconds since its restart, None: not during the load; and the latency before the kill.
    `restarted` and `first_epoch` are seconds since 1970."""
    at, end = np.array(sightings.at), np.array(sightings.newest)
    # at each poll: age of the oldest message that became visible, and of the oldest that is still invisible
    brought = at - paced.sent_at[np.concatenate(([0], end[:-1]))]
    missing = at - np.append(paced.sent_at, np.inf)[end]
    counted = slice(load.warm_up, load.rate * load.before)
    latencies = sightings.seconds(np.arange(1, len(paced.sent_at) + 1), paced.sent_at)[counted]
    usual = float(np.quantile(latencies, 0.99))

    def since(condition: "np.ndarray[Any, np.dtype[np.bool_]]") -> float | None:
        found = np.flatnonzero((at >= first_epoch - LOOK_SECONDS) & condition)
        return round(float(at[found[0]] - restarted), 2) if len(found) else None

    return {
        "first_epoch_seconds": round(first_epoch - restarted, 2),
        "caught_up_seconds": since(missing < LAG_SECONDS),
        "as_before_seconds": since(brought <= usual),
        **{f"before_{name}": value for name, value in quantiles(latencies * 1000).items()},
    }


def section(done: Sequence[Result]) -> Section:
    """The kills, and their medians; one that a run did not reach is none."""
    runs = Group(done)
    right = Group([one for one in done if one["correct"]])
    medians = {figure: right.judged(of_field(figure)) for figure in FIGURES}
    first, caught_up = (runs.judged(of_field(figure)) for figure in FIGURES[:2])
    goals = [
        Goal("killed under load: start to first new epoch visible, median", FIRST_LIMIT_SECONDS, first, "s"),
        Goal("killed under load: start to lag under a second, median", CAUGHT_UP_LIMIT_SECONDS, caught_up, "s"),
    ]
    rows = [*done, {"run": "median", **medians}] if len(done) > 1 else done
    return Section("restart", "Killed under load", [Table.of("Restarts", _RESTARTS, rows)], goals)


def _an_epoch(one: Result) -> float | None:
    return one["messages_before_kill"] / max(1, one["epochs_before_kill"]) if one["correct"] else None


def _cpu(one: Result) -> float | None:
    """Milliseconds of lane and Postgres for 1,000 messages."""
    if not one["correct"]:
        return None
    seconds = sum(used for name, used in one["cpu_seconds"].items() if name in (*PARTS, "tasks", "postgres"))
    return seconds * 1e6 / one["messages_before_kill"]
