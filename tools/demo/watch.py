"""Observes the target: records on its own connection when each epoch and each beat becomes visible."""

import time
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, select, text, tuple_

from app.ledger.ledger_tables import COUNTS, LedgerTables
from app.model.counts import Counts
from app.model.epoch import GENESIS
from app.model.offsets import Offsets

#: seconds between two observations: the resolution of all moments
EVERY_SECONDS = 0.025
_BEAT = text("select beat from probe where id = 1")


@dataclass(frozen=True, kw_only=True)
class SeenEpoch:
    """A ledger row, and when it was first visible on another connection (monotonic seconds)."""

    at: float
    generation: int
    epoch: int
    start: int  #: offset; the demo's topic has one partition
    end: int
    plan: str
    counts: Counts


@dataclass(frozen=True, kw_only=True)
class SeenBeat:
    """The probe's newest number, and when it was first visible on another connection (monotonic seconds)."""

    at: float
    beat: int


class TargetWatch:
    """Each `step` reads the probe and the new ledger rows."""

    def __init__(self, engine: Engine, schema: str, lane: str) -> None:
        self._connection: Connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._ledger, self._lane = LedgerTables.in_schema(schema).ledger, lane
        self._last = (0, GENESIS)
        self.epochs: list[SeenEpoch] = []
        self.beats: list[SeenBeat] = []

    @property
    def position(self) -> int:
        return self.epochs[-1].end if self.epochs else 0

    @property
    def beat(self) -> int:
        """The newest visible beat."""
        return self.beats[-1].beat if self.beats else 0

    def step(self) -> None:
        """Read the newest beat, then the new epochs."""
        beat = self._connection.execute(_BEAT).scalar_one_or_none() or 0
        if beat > self.beat:
            self.beats.append(SeenBeat(at=time.monotonic(), beat=beat))
        self.epochs += self._new_epochs()

    def close(self) -> None:
        self._connection.close()

    def _new_epochs(self) -> list[SeenEpoch]:
        ledger = self._ledger
        number = tuple_(ledger.c.generation, ledger.c.epoch)
        newer = select(ledger).where(ledger.c.lane == self._lane, number > self._last).order_by(number)
        rows = self._connection.execute(newer).all()
        at = time.monotonic()
        if rows:
            self._last = (rows[-1].generation, rows[-1].epoch)
        return [
            SeenEpoch(
                at=at,
                generation=row.generation,
                epoch=row.epoch,
                start=offset(Offsets.from_nested(row.start_position)),
                end=offset(Offsets.from_nested(row.end_position)),
                plan=row.plan,
                counts=Counts(**{count: getattr(row, count) for count in COUNTS}),
            )
            for row in rows
            if row.epoch != GENESIS
        ]


def offset(position: Offsets) -> int:
    """The offset of the topic's only partition."""
    return sum(position.values())
