"""The recovery: what the restarted lane found in doubt, decided and replayed."""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.demo.crash import Crash
from tools.demo.lane import LANE
from tools.demo.watch import SeenEpoch


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A transaction that was in doubt, and the decision on it."""

    gid: str
    decision: str
    because: str


@dataclass(frozen=True, kw_only=True)
class DemoRecovery:
    """Facts of the recovery; seconds are since the SIGKILL."""

    generation: int
    settled: tuple[Settled, ...]
    #: how the start continued, from the lane's log
    decision: str
    start_seconds: float  #: until the new process had settled the in-doubt transactions and decided where to resume
    first_epoch_seconds: float  #: until its first epoch was visible on another connection
    caught_up_seconds: float  #: until the lag was back to its level before the crash
    #: epochs that the killed lane had planned and not finished
    replayed_epochs: int
    replayed_messages: int
    #: messages that were read again and were already applied
    duplicates: int


def first_epoch(crash: Crash, epochs: Iterable[SeenEpoch]) -> SeenEpoch | None:
    """The first epoch of a generation newer than the killed lane's."""
    return next((epoch for epoch in epochs if epoch.generation > crash.generation), None)


def recovery(
    crash: Crash, epochs: Iterable[SeenEpoch], caught_up_at: float, log: Iterable[Mapping[str, Any]]
) -> DemoRecovery:
    """`log` has the events since the crash; `epochs` must include an epoch of a newer generation."""
    newer = [epoch for epoch in epochs if epoch.generation > crash.generation]
    again = [epoch for epoch in newer if epoch.start < crash.planned_end]
    events = list(log)
    start = next(event for event in events if event.get("event") == "start")
    return DemoRecovery(
        generation=newer[0].generation,
        settled=tuple(
            Settled(gid=event["gid"], decision=event["decision"], because=event["because"])
            for event in events
            if event.get("event") == "settling"
        ),
        decision=str(start[LANE]),
        start_seconds=_wall(start) - crash.wall,
        first_epoch_seconds=newer[0].at - crash.at,
        caught_up_seconds=caught_up_at - crash.at,
        replayed_epochs=len(again),
        replayed_messages=sum(epoch.counts.consumed for epoch in again),
        duplicates=sum(epoch.counts.duplicate for epoch in newer),
    )


def _wall(event: Mapping[str, Any]) -> float:
    return datetime.datetime.fromisoformat(event["timestamp"]).timestamp()
