"""Measures the downtime of a lane whose processes are all killed under load, and which is restarted at once.

load ........ SIGKILL, started again ...... first epoch of the new generation ... lag under a second ... as before
                        |--------- first_epoch_seconds -------|                        |                    |
                        |------------------------- caught_up_seconds ------------------|                    |
                        |------------------------- as_before_seconds -----------------------------------------|
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tools.bench import lane, report
from tools.bench.child import answer, until
from tools.bench.drain import LIMIT_SECONDS
from tools.bench.goals import Goal
from tools.bench.lane import PARTS, RUNNING
from tools.bench.latency import LOOK_SECONDS, Sightings, paced, quantiles
from tools.bench.machine import Snapshot
from tools.bench.pacer import Paced
from tools.bench.page import Table
from tools.bench.report import Case, Measure, number
from tools.bench.results import rehearse, state
from tools.bench.servers import LEDGER_SCHEMA, Servers
from tools.bench.shape import Shape

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


def run(wanted: report.Wanted, load: Load) -> bool:
    """Run bench-restart."""
    cases = partial(_cases, [load])
    title = "Killed under load"
    return report.run(
        wanted, Measure(key="restart", title=title, cases=cases, parts=lambda done: [_restarts(done)], goals=goals)
    )


def run_recovery(wanted: report.Wanted, loads: Sequence[Load]) -> bool:
    """Run bench-recovery: what larger epochs cost and save."""
    cases = partial(_cases, loads)
    title = "Epoch size and recovery"
    return report.run(wanted, Measure(key="recovery", title=title, cases=cases, parts=lambda done: [_curve(done)]))


def _cases(loads: Sequence[Load], up: Servers) -> Sequence[Case]:
    rehearse("a kill", partial(measure, up, loads[0]))
    what = [{"messages": load.messages, "asked_rate": load.rate, "trigger": load.trigger} for load in loads]
    return [(known, partial(measure, up, load)) for known, load in zip(what, loads, strict=True)]


def measure(servers: Servers, load: Load) -> dict[str, Any]:
    """Measure one kill; returns the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC)
    sightings = Sightings.of_offsets(TOPIC)
    with servers.connect() as probe, probe.cursor() as cursor:

        def wait(look: Any, held: lane.Lane, what: str) -> None:
            until(look, held, what, every=LOOK_SECONDS, seconds=LIMIT_SECONDS)

        def generation() -> int:
            return int(answer(cursor, _GENERATION) or 0)

        settings = {"epoch": {"trigger": load.trigger}}
        with lane.running(servers, TOPIC, settings=settings) as first:
            wait(lambda: answer(cursor, RUNNING), first, "the lane")
            with paced(servers.bootstrap, TOPIC, load.rate, load.messages, shape=SHAPE) as pacing:
                warm = round(load.rate * load.before * WARM_UP_SHARE)
                wait(lambda: sightings.look(cursor) >= warm, first, "the warm-up")
                start, warmed = Snapshot.of({**servers.cpu(), **first.cpu()}), time.time()
                seen = load.rate * load.before
                wait(lambda: sightings.look(cursor) >= seen, first, "the load before the kill")
                used = Snapshot.of({**servers.cpu(), **first.cpu()}).since(start)
                epochs = [epoch for epoch in first.epochs() if epoch.at >= warmed]
                before = generation()
                first.kill()
                in_doubt = servers.prepared()
                with lane.running(servers, TOPIC, again=True) as second:
                    wait(lambda: generation() > before, second, "the first new epoch")
                    first_epoch = time.time()
                    while not pacing.done():
                        sightings.look(cursor)
                        second.must_live()
                        time.sleep(LOOK_SECONDS)
                    found = pacing.result()
                    wait(lambda: sightings.look(cursor) >= load.messages, second, "the last message")
                    status = second.stop()
        end = sightings.look(cursor)
    back = Back.of(sightings, found, load, second.started_at, first_epoch)
    prepared = servers.prepared()
    right = servers.found(SHAPE.made) == found.expected
    return {
        "first_epoch_seconds": round(first_epoch - second.started_at, 2),
        "caught_up_seconds": back.caught_up,
        "as_before_seconds": back.as_before,
        **{f"before_{name}": value for name, value in back.before.items()},
        **used,
        "epochs_before_kill": len(epochs),
        "messages_before_kill": seen - warm,
        "in_doubt_at_kill": in_doubt,
        "prepared_left": prepared,
        "exit_status": status,
        "correct": right and not prepared and end == load.messages and not status,
    }


@dataclass(frozen=True, kw_only=True)
class Back:
    """When the lane was back; seconds since its restart."""

    caught_up: float | None
    #: None: not during the load
    as_before: float | None
    #: quantiles of the latency before the kill, without the warm-up
    before: Mapping[str, float]

    @classmethod
    def of(cls, sightings: Sightings, paced: Paced, load: Load, restarted: float, first_epoch: float) -> "Back":
        """Compute from the sightings; `restarted` and `first_epoch` are seconds since 1970."""
        at, end = np.array(sightings.at), np.array(sightings.newest)
        # at each poll: age of the oldest message that became visible, and of the oldest that is still invisible
        brought = at - paced.sent_at[np.concatenate(([0], end[:-1]))]
        missing = at - np.append(paced.sent_at, np.inf)[end]
        counted = slice(round(load.rate * load.before * WARM_UP_SHARE), load.rate * load.before)
        latencies = sightings.seconds(np.arange(1, len(paced.sent_at) + 1), paced.sent_at)[counted]
        usual = float(np.quantile(latencies, 0.99))
        held = at >= first_epoch - LOOK_SECONDS

        def since(condition: "np.ndarray[Any, np.dtype[np.bool_]]") -> float | None:
            found = np.flatnonzero(held & condition)
            return round(float(at[found[0]] - restarted), 2) if len(found) else None

        return cls(
            caught_up=since(missing < LAG_SECONDS),
            as_before=since(brought <= usual),
            before=quantiles(latencies * 1000),
        )


def medians(done: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Medians over the correct runs; None for a figure that one of them did not reach."""
    found: dict[str, float | None] = {}
    for figure in FIGURES:
        values = [one[figure] for one in done if one["correct"]]
        found[figure] = round(statistics.median(values), 2) if values and None not in values else None
    return found


def goals(done: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """The goals for the medians of all runs; not judged unless every run is correct."""
    found = medians(done) if all(one["correct"] for one in done) else dict.fromkeys(FIGURES)
    limits = {
        "start to first new epoch visible": (FIRST_LIMIT_SECONDS, found["first_epoch_seconds"]),
        "start to lag under a second": (CAUGHT_UP_LIMIT_SECONDS, found["caught_up_seconds"]),
    }
    return [
        Goal(what=f"killed under load: {what}, median", unit="s", limit=limit, found=seconds)
        for what, (limit, seconds) in limits.items()
    ]


def _restarts(done: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        *("run", "first new epoch, s", "lag under 1 s, s", "as before, s"),
        *("before the kill: p50 ms", "p99 ms", "in doubt at the kill", "state"),
    )
    rows = [
        (
            *(str(one["run"]), *(number(one.get(figure), 1) for figure in FIGURES)),
            *(number(one.get(f"before_{name}_milliseconds")) for name in ("p50", "p99")),
            *(str(one.get("in_doubt_at_kill", "")), state(one)),
        )
        for one in done
    ]
    median = ("median", *(number(value, 1) for value in medians(done).values()), "", "", "", "")
    return Table(title="Restarts", columns=columns, rows=[*rows, median] if len(done) > 1 else rows)


def _curve(done: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        *("messages/s", "trigger", "messages an epoch", "p50 ms", "p99 ms", "CPU ms for 1,000"),
        *("first new epoch, s", "lag under 1 s, s", "in doubt at the kill", "state"),
    )
    rows = [
        (
            *(f"{one['asked_rate']:,}", str(one["trigger"])),
            f"{one['messages_before_kill'] / max(1, one['epochs_before_kill']):,.0f}" if one["correct"] else "",
            *(number(one.get(f"before_{name}_milliseconds")) for name in ("p50", "p99")),
            _cpu(one) if one["correct"] else "",
            *(number(one.get(figure), 1) for figure in FIGURES[:2]),
            *(str(one.get("in_doubt_at_kill", "")), state(one)),
        )
        for one in done
    ]
    return Table(title="Recovery", columns=columns, rows=rows)


def _cpu(one: Mapping[str, Any]) -> str:
    seconds = sum(used for name, used in one["cpu_seconds"].items() if name in (*PARTS, "tasks", "postgres"))
    return f"{seconds * 1e6 / one['messages_before_kill']:,.0f}"
