"""Lends the staging tables of one lane to attempts, one attempt at a time.

A table is lent before its span is staged. It comes back when the epoch that merged its rows is committed, or when the
attempt ends without an epoch; the next attempt deletes the old rows. A table whose process is gone does not come back:
a process that is only believed to be gone may still write to it. It is dropped when the next table is made or, while a
session has it locked, when a later one is. Dropping it is safe at any time: a name is never used again, and a COPY into
a dropped table fails. The lane's next start drops what is left.
"""

import threading
import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app.apply import staging
from app.apply.table_plans import TablePlan
from app.db.kept_connection import KeptConnection
from app.db.sql import quoted
from app.db.sqlstate import translated
from app.stage.request import Clearing, Instant, Table

#: bytes of rows from which on a table is truncated: a new file takes less CPU than DELETE and VACUUM
TRUNCATE_BYTES = 4 << 20


@dataclass(eq=False)
class Lent:
    """A table for changes of one layout, lent or free."""

    layout: str
    #: the layout's plan for which this table was made
    made_for: TablePlan
    #: the same plan, with this table in place of its staging table
    shape: TablePlan
    #: bytes copied since it was emptied, at least
    written: int = 0

    @property
    def table(self) -> Table:
        """As it is sent to the stage process."""
        of = self.shape.staging
        names = (*of.stamps, *(quoted(field.column.name) for field in of.fields))
        instants = tuple(
            Instant(index, micros.column, micros.unit)
            for index, one in enumerate(of.fields)
            if (micros := of.instants.get(one.column.name)) is not None
        )
        return Table(of.name, names, self.clearing, bool(of.stamps), instants)

    @property
    def clearing(self) -> Clearing:
        """TRUNCATE for a table that got many rows, or a few many times."""
        if not self.written:
            return Clearing.NONE
        return Clearing.DELETE if self.written < TRUNCATE_BYTES else Clearing.TRUNCATE


class Lending:
    """Used by several threads."""

    def __init__(self, engine: Engine, schema: str, lane: str) -> None:
        self._schema, self._lane = schema, lane
        self._lock = threading.Lock()
        self._free: dict[str, list[Lent]] = defaultdict(list)
        #: names of tables that are not lent any more
        self._lost: list[str] = []
        self._connection = KeptConnection(engine)

    def close(self) -> None:
        """Drop the free tables; the lane's next start drops the others."""
        with self._lock:
            if not self._connection.is_open:
                return
            # the connection may be gone; the next start drops them, too
            with suppress(SQLAlchemyError), self._connection.used() as connection:
                staging.drop(connection, [one.shape.staging.name for free in self._free.values() for one in free])
                staging.drop_unlocked(connection, self._lost)
            self._free.clear()
            self._lost.clear()
            self._connection.close()

    def lend(self, layout: str, shape: TablePlan) -> Lent:
        """A free table for changes of this layout, or a new one."""
        with self._lock:
            free = self._free[layout]
            while free:
                lent = free.pop()
                if lent.made_for is shape:
                    return lent
                self._lost.append(lent.shape.staging.name)
            with translated(f"lane {self._lane}: making a staging table"), self._connection.used() as connection:
                return self._make(connection, layout, shape)

    def take_back(self, lent: Lent, size: int = TRUNCATE_BYTES) -> None:
        """The table is free again. `size`: bytes that were copied; unknown, so many that it is truncated next."""
        with self._lock:
            before = 0 if lent.clearing is Clearing.TRUNCATE else lent.written
            lent.written = before + max(size, 1)
            self._free[lent.layout].append(lent)

    def unused(self, lent: Lent) -> None:
        """The table is free again, and is as it was lent."""
        with self._lock:
            self._free[lent.layout].append(lent)

    def lose(self, lent: Lent) -> None:
        """Drop the table later, because the process that it was lent to is gone."""
        with self._lock:
            self._lost.append(lent.shape.staging.name)

    def _make(self, connection: Connection, layout: str, shape: TablePlan) -> Lent:
        if self._lost:
            self._lost = staging.drop_unlocked(connection, self._lost)
        own = uuid.uuid4().hex
        table = staging.create(
            connection,
            self._schema,
            self._lane,
            shape.target,
            shape.staging.fields,
            own,
            stamped=bool(shape.staging.stamps),
        )
        return Lent(layout, shape, shape.over(self._schema, table))
