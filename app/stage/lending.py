"""Staging tables of one lane that are lent to attempts, one attempt at a time.

A table goes to an attempt before its span is staged, and comes back when the epoch that has merged its rows is
committed, or when the attempt has ended without an epoch. What is left in it is deleted by who stages into it next. A
table whose process is gone does not come back: it may still be written by one that is only believed to be. It is
dropped with the next one that is made, unless a session has it locked, and then with the one after. That is safe at any
time: its name is never given again, and whoever copies into it is refused. What is left is dropped by the lane's next
start.
"""

import threading
import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app.apply import staging
from app.apply.merge import Merge
from app.apply.table_plans import TablePlan
from app.db.sql import quoted
from app.db.sqlstate import translated
from app.stage.request import Clearing, Table

#: bytes of rows from which on a table gets a new file: less CPU than DELETE and VACUUM
TRUNCATE_BYTES = 4 << 20


@dataclass(eq=False)
class Lent:
    """A table that is lent, for changes of one layout."""

    layout: str
    #: what the target has made of the layout
    made_for: TablePlan
    #: the same, with this table in the place of its own
    shape: TablePlan
    #: bytes copied since it was emptied, at least
    written: int = 0

    @property
    def table(self) -> Table:
        """For the stage process."""
        of = self.shape.staging
        return Table(of.name, tuple(quoted(field.column.name) for field in of.fields), self.clearing)

    @property
    def clearing(self) -> Clearing:
        """A table with many rows, or with few again and again, gets a new file."""
        if not self.written:
            return Clearing.NONE
        return Clearing.DELETE if self.written < TRUNCATE_BYTES else Clearing.TRUNCATE


class Lending:
    """Used by several threads."""

    def __init__(self, engine: Engine, schema: str, lane: str) -> None:
        self._engine, self._schema, self._lane = engine, schema, lane
        self._lock = threading.Lock()
        self._free: dict[str, list[Lent]] = defaultdict(list)
        #: names of tables that nobody is lent any more
        self._lost: list[str] = []
        self._connection: Connection | None = None

    def close(self) -> None:
        """Drop the tables that are free; the others are for the lane's next start."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            with suppress(SQLAlchemyError):  # it may be gone: so does the next start
                staging.drop(connection, [one.shape.staging.name for free in self._free.values() for one in free])
                staging.drop_unlocked(connection, self._lost)
            self._free.clear()
            self._lost.clear()
            connection.invalidate()
            connection.close()

    def lend(self, layout: str, shape: TablePlan) -> Lent:
        """A table for changes of this layout: one that is free, or a new one."""
        with self._lock:
            free = self._free[layout]
            while free:
                lent = free.pop()
                if lent.made_for is shape:
                    return lent
                self._lost.append(lent.shape.staging.name)
            with translated(f"lane {self._lane}: making a staging table"):
                return self._make(layout, shape)

    def take_back(self, lent: Lent, size: int = TRUNCATE_BYTES) -> None:
        """Nobody uses it any more; `size`: bytes that were copied, as many as may be where that is not known."""
        with self._lock:
            before = 0 if lent.clearing is Clearing.TRUNCATE else lent.written
            lent.written = before + max(size, 1)
            self._free[lent.layout].append(lent)

    def lose(self, lent: Lent) -> None:
        """The process that it was lent to is gone."""
        with self._lock:
            self._lost.append(lent.shape.staging.name)

    def _make(self, layout: str, shape: TablePlan) -> Lent:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if self._lost:
            self._lost = staging.drop_unlocked(self._connection, self._lost)
        own = uuid.uuid4().hex
        table = staging.create(self._connection, self._schema, self._lane, shape.target, shape.staging.fields, own)
        return Lent(layout, shape, replace(shape, staging=table, merge=Merge(self._schema, shape.target, table)))
