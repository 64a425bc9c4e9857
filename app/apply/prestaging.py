"""COPY of an epoch's rows before its turn, while the target is busy with the epoch before it.

The rows go to one of two tables, in turns: those in the other one belong to the epoch in progress, which deletes them
at its end as it does those that it has staged itself. Nothing but these tables is touched, and no other writer knows
their names: one that was fenced cannot add to what the next one has staged. Whatever goes wrong is left at that: an
epoch of which nothing is here is staged in its own transaction, under guard.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import ReferenceType, ref

import pyarrow as pa
import structlog
from sqlalchemy import Connection, Engine

from app.apply import staging
from app.apply.arrange import Epoch
from app.apply.merge import Merge
from app.apply.shapes import Shape
from app.apply.staging import Staging
from app.db.failures import translated
from app.db.sql import run
from app.errors import SurelaneError
from app.model.rows import Kind

log = structlog.get_logger()

#: bytes of one layout's lines that are worth it: less is copied in a millisecond or two
WORTH_BYTES = 1 << 20
#: epochs to be left alone after one that was sent in another way, as the next ones probably are
PAUSE_EPOCHS = 10
#: what a crash takes of an UNLOGGED table is gone in any case
_NOT_DURABLE = "set synchronous_commit = off"


@dataclass(frozen=True)
class Prestaged:
    """What is staged of one layout."""

    shape: Shape
    table: Staging
    merge: Merge
    rows: int


@dataclass(eq=False)
class _Turn:
    """One of the two."""

    #: what tells its tables from everybody else's
    own: str
    #: table and statements by the staging table that they stand in for
    made: dict[str, tuple[Staging, Merge]] = field(default_factory=dict)
    #: whose rows are there, and what by layout
    ready: tuple[ReferenceType[Epoch], Mapping[int, Prestaged]] | None = None
    taken: bool = False


class Prestaging:
    """Of one lane, from its opening on. `run` is for one thread at a time, `take` for any."""

    def __init__(self, engine: Engine, schema: str, lane: str) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._schema, self._lane = schema, lane
        self._connection: Connection | None = None
        self._turns, self._next, self._pause = (_Turn(uuid.uuid4().hex), _Turn(uuid.uuid4().hex)), 0, 0

    def run(self, epoch: Epoch, shapes: Mapping[int, Shape]) -> None:
        """Stage what is to be upserted, the last change of each row, where that is much.

        The epoch that was staged before the last one is committed by now, or will never be applied.
        """
        wanted: dict[str, int] = {}
        for index, shape in shapes.items():
            if shape.kind is Kind.UPSERT and shape.has_values and epoch.last_lines[index].nbytes >= WORTH_BYTES:
                wanted.setdefault(shape.staging.name, index)
        if not wanted:
            return
        turn, self._next = self._turns[self._next], 1 - self._next
        if turn.ready is not None and not turn.taken:
            self._pause = PAUSE_EPOCHS
        turn.ready, turn.taken = None, False
        if self._pause:
            self._pause -= 1
            return
        try:
            with translated(f"lane {self._lane}: staging ahead", discreet=True):
                staged = {index: self._stage(turn, shapes[index], epoch.last_lines[index]) for index in wanted.values()}
            turn.ready = (ref(epoch), staged)
        except SurelaneError as error:
            self.close()
            log.debug("not staged ahead", lane=self._lane, because=error.message)

    def take(self, epoch: Epoch, index: int, shape: Shape) -> Prestaged | None:
        """What is staged of a layout of this very epoch, if its shape is what it was."""
        for turn in self._turns:
            ready = turn.ready
            if ready is not None and ready[0]() is epoch:
                found = ready[1].get(index)
                if found is None or found.shape is not shape:
                    return None
                turn.taken = True
                return found
        return None

    def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _stage(self, turn: _Turn, shape: Shape, lines: pa.Array) -> Prestaged:
        connection = self._connected()
        table, merge = self._table(connection, turn, shape)
        if table.dirty:
            staging.clear(connection, [table.name])  # they may have been sent in another way
            if large := staging.reclaim(connection, [table.name]):
                staging.empty(connection, large)
            table.dirty = 0
        return Prestaged(shape, table, merge, staging.copy(connection, table, lines))

    def _table(self, connection: Connection, turn: _Turn, shape: Shape) -> tuple[Staging, Merge]:
        instead = shape.staging
        if instead.name not in turn.made:
            table = staging.create(connection, self._schema, self._lane, shape.target, instead.fields, turn.own)
            turn.made[instead.name] = (table, Merge(self._schema, shape.target, table))
        return turn.made[instead.name]

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
            run(self._connection, _NOT_DURABLE)
        return self._connection
