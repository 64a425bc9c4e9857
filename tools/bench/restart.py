"""Measures the downtime of a lane whose processes are all killed under load, and which is restarted at once.

load ........ SIGKILL, started again ...... first epoch of the new generation ... lag under a second ... as before
                        |--------- first_epoch_seconds -------|                        |                    |
                        |------------------------- caught_up_seconds ------------------|                    |
                        |------------------------- as_before_seconds -----------------------------------------|
"""

import multiprocessing
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.bench import lane
from tools.bench.drain import LIMIT_SECONDS, RUNNING
from tools.bench.goals import Goal
from tools.bench.lane import LaneFailed
from tools.bench.latency import LOOK_SECONDS, MODE, Sightings, is_true, quantiles, until, visible
from tools.bench.machine import Snapshot
from tools.bench.pacer import Paced, pace
from tools.bench.servers import LEDGER_SCHEMA, Cursor, Servers
from tools.bench.shape import Shape

TOPIC = "bench.restart"
SHAPE = Shape(called="restart", most_rows=100_000)
#: seconds, medians
FIRST_LIMIT_SECONDS, CAUGHT_UP_LIMIT_SECONDS = 10.0, 15.0
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


def measure(servers: Servers, load: Load) -> dict[str, object]:
    """Measure one kill; returns the fields of a result."""
    servers.empty_database(SHAPE.made, with_ledger=True)
    servers.empty_topic(TOPIC)
    sightings = Sightings(TOPIC)
    with (
        servers.connect() as probe,
        probe.cursor() as cursor,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as source,
    ):
        settings = {"epoch": {"trigger": load.trigger}}
        with lane.running(servers, MODE, TOPIC, until_caught_up=False, settings=settings) as first:
            until(lambda: is_true(cursor, RUNNING), first, "the lane to run", LIMIT_SECONDS)
            pacing = source.submit(pace, servers.bootstrap, TOPIC, load.rate, load.messages, SHAPE)
            warm = round(load.rate * load.before * WARM_UP_SHARE)
            until(lambda: sightings.look(cursor) >= warm, first, "the warm-up", LIMIT_SECONDS)
            start, warmed = Snapshot.of({**servers.cpu(), **first.cpu()}), time.time()
            seen = load.rate * load.before
            until(lambda: sightings.look(cursor) >= seen, first, "the load before the kill", LIMIT_SECONDS)
            used = Snapshot.of({**servers.cpu(), **first.cpu()}).since(start)
            epochs = [epoch for epoch in first.epochs() if epoch.at >= warmed]
            generation = _generation(cursor)
            first.kill()
        in_doubt = servers.prepared()
        with lane.running(servers, MODE, TOPIC, until_caught_up=False, again=True) as second:
            until(lambda: _generation(cursor) > generation, second, "the first new epoch", LIMIT_SECONDS)
            first_epoch = time.time()
            while not pacing.done():
                sightings.look(cursor)
                second.must_live()
                time.sleep(LOOK_SECONDS)
            paced = pacing.result()
            until(lambda: sightings.look(cursor) >= load.messages, second, "the last message", LIMIT_SECONDS)
            status = second.stop()
        end = visible(cursor, TOPIC)
    back = Back.of(sightings, paced, load, second.started_at, first_epoch)
    prepared = servers.prepared()
    right = servers.found(SHAPE.made) == paced.expected
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
        at, end = np.array(sightings.at), np.array(sightings.end)
        # at each poll: age of the oldest message that became visible, and of the oldest that is still invisible
        brought = at - paced.sent_at[np.concatenate(([0], end[:-1]))]
        missing = at - np.append(paced.sent_at, np.inf)[end]
        counted = slice(round(load.rate * load.before * WARM_UP_SHARE), load.rate * load.before)
        latencies = sightings.seconds(paced)[counted]
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
    return [
        Goal(
            what="killed under load: start to first new epoch visible, median",
            unit="s",
            limit=FIRST_LIMIT_SECONDS,
            found=found["first_epoch_seconds"],
        ),
        Goal(
            what="killed under load: start to lag under a second, median",
            unit="s",
            limit=CAUGHT_UP_LIMIT_SECONDS,
            found=found["caught_up_seconds"],
        ),
    ]


def _generation(cursor: Cursor) -> int:
    cursor.execute(_GENERATION)
    row = cursor.fetchone()
    if row is None:
        raise LaneFailed("the ledger does not answer")
    return row[0]
