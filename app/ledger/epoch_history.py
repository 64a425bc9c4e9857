"""Reads the ledger as a history: pages of epochs, and the generations that wrote them. In the caller's transaction."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, desc, func, literal, select, tuple_

from app.ledger.ledger_tables import LedgerTables
from app.model.epoch import GENESIS

#: newest epochs among which one with a change of the source is looked for
FRESH_EPOCHS = 120


class EpochKey(NamedTuple):
    """The place of an epoch in its lane's history."""

    generation: int
    epoch: int


class EpochSummary(NamedTuple):
    """What a row of the ledger says in short."""

    generation: int
    epoch: int
    #: messages
    consumed: int
    applied_at: datetime.datetime
    #: the newest change's commit in the source; None: the epoch has no change
    source_to: datetime.datetime | None

    @classmethod
    def of(cls, row: Row[Any]) -> "EpochSummary":
        return cls(row.generation, row.epoch, row.consumed, row.applied_at, row.source_to)

    @property
    def freshness_seconds(self) -> float | None:
        """From the newest change's commit in the source to the target."""
        if self.source_to is None:
            return None
        return round(max(0.0, (self.applied_at - self.source_to).total_seconds()), 3)


@dataclass(frozen=True, kw_only=True)
class EpochFilter:
    """Conditions on epochs; None or False: no condition."""

    plan: str | None = None
    generation: int | None = None
    #: applied at or after
    since: datetime.datetime | None = None
    #: only with messages that went into quarantine
    quarantined: bool = False
    #: only with messages that the target had already
    duplicate: bool = False


class EpochHistory:
    """The ledger's rows of `lane` in the schema `schema`, the newest first. A lane's genesis row is left out."""

    def __init__(self, schema: str, lane: str) -> None:
        self._tables = LedgerTables.in_schema(schema)
        self._lane = lane
        self._ledger = self._tables.ledger

    def page(
        self, connection: Connection, filters: EpochFilter, limit: int, before: EpochKey | None = None
    ) -> Sequence[Row[Any]]:
        """At most `limit` rows; `before`: older than this one."""
        where = self._where(filters)
        if before is not None:
            where.append(self._key() < tuple_(*map(literal, before)))
        statement = select(self._ledger).where(*where).order_by(desc("generation"), desc("epoch")).limit(limit)
        return connection.execute(statement).all()

    def recent(self, connection: Connection, limit: int) -> list[EpochSummary]:
        """Of the newest epochs."""
        return [EpochSummary(*row) for row in connection.execute(self._recent(limit))]

    def freshness(self, connection: Connection) -> float | None:
        """Of the newest epoch with a change, among the FRESH_EPOCHS newest ones."""
        newest = self._recent(FRESH_EPOCHS).subquery()
        changed = select(newest).where(newest.c.source_to.is_not(None))
        row = connection.execute(changed.order_by(desc("generation"), desc("epoch")).limit(1)).first()
        return None if row is None else EpochSummary(*row).freshness_seconds

    def _recent(self, limit: int) -> Select[Any, Any, Any, Any, Any]:
        of = self._ledger.c
        found = select(of.generation, of.epoch, of.consumed, of.applied_at, of.source_to)
        return found.where(*self._where(EpochFilter())).order_by(desc("generation"), desc("epoch")).limit(limit)

    def count(self, connection: Connection, filters: EpochFilter) -> int:
        return connection.execute(
            select(func.count()).select_from(self._ledger).where(*self._where(filters))
        ).scalar_one()

    def find(self, connection: Connection, key: EpochKey) -> Row[Any] | None:
        statement = select(self._ledger).where(*self._where(EpochFilter()), self._key() == tuple_(*map(literal, key)))
        return connection.execute(statement).first()

    def after(self, connection: Connection, key: EpochKey) -> EpochKey | None:
        """The next newer epoch."""
        ledger = self._ledger.c
        where = [*self._where(EpochFilter()), self._key() > tuple_(*map(literal, key))]
        statement = select(ledger.generation, ledger.epoch).where(*where).order_by("generation", "epoch").limit(1)
        row = connection.execute(statement).first()
        return None if row is None else EpochKey(row.generation, row.epoch)

    def plans(self, connection: Connection) -> list[str]:
        """The plans that the lane's epochs have taken, of the newest 10,000."""
        newest = select(self._ledger.c.plan).where(*self._where(EpochFilter()))
        taken = newest.order_by(desc("generation"), desc("epoch")).limit(10_000).subquery()
        return sorted(connection.execute(select(taken.c.plan).distinct()).scalars())

    def generations(
        self, connection: Connection, first: int, last: int | None, limit: int | None = None
    ) -> Sequence[Row[Any]]:
        """Generations of the lane from `first` to `last`, the newest first; None: no bound."""
        table = self._tables.generation
        where = [table.c.lane == self._lane, table.c.generation >= first]
        if last is not None:
            where.append(table.c.generation <= last)
        return connection.execute(select(table).where(*where).order_by(desc("generation")).limit(limit)).all()

    def _key(self) -> ColumnElement[Any]:
        return tuple_(self._ledger.c.generation, self._ledger.c.epoch)

    def _where(self, filters: EpochFilter) -> list[ColumnElement[bool]]:
        ledger = self._ledger.c
        where: list[ColumnElement[bool]] = [ledger.lane == self._lane, ledger.epoch > GENESIS]
        if filters.plan is not None:
            where.append(ledger.plan == filters.plan)
        if filters.generation is not None:
            where.append(ledger.generation == filters.generation)
        if filters.since is not None:
            where.append(ledger.applied_at >= filters.since)
        if filters.quarantined:
            where.append(ledger.quarantined > 0)
        if filters.duplicate:
            where.append(ledger.duplicate > 0)
        return where
