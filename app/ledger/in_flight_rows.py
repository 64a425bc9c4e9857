"""The target's rows of one lane's spans in flight. Every method works in the caller's transaction."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from app.db.sql import run
from app.ledger.ledger_tables import LedgerTables
from app.model.in_flight import InFlight, InFlightView, SpanState, StageProcess
from app.model.offsets import Offsets, Span

#: state of a process without a span
IDLE = "idle"
#: states of spans whose process may have ended
_ANSWERED = (SpanState.STAGED, SpanState.ANSWERED)


class InFlightRows:
    """The rows of `lane`, in the schema that `target.schema` names."""

    def __init__(self, schema: str, lane: str) -> None:
        self._lane = lane
        self._table = LedgerTables.in_schema(schema).in_flight

    def replace(self, connection: Connection, generation: int, seen: InFlightView) -> None:
        """Replace the rows of this generation and of older ones."""
        run(connection, "set local synchronous_commit = off")  # rows that a crash loses are obsolete after it
        self.clear(connection, generation)
        if values := [{"lane": self._lane, "generation": generation, **one} for one in _values(seen)]:
            ages = [one.pop("age") for one in values]
            connection.execute(
                insert(self._table).values(
                    [one | {"since": _before(age)} for one, age in zip(values, ages, strict=True)]
                )
            )

    def clear(self, connection: Connection, generation: int) -> None:
        """Delete the rows of this generation and of older ones."""
        mine = (self._table.c.lane == self._lane, self._table.c.generation <= generation)
        connection.execute(delete(self._table).where(*mine))

    def read(self, connection: Connection, generation: int) -> InFlightView:
        """The rows of this generation as a view."""
        age = func.extract("epoch", func.clock_timestamp() - self._table.c.since).label("age")
        mine = (self._table.c.lane == self._lane, self._table.c.generation == generation)
        rows = connection.execute(select(self._table, age).where(*mine).order_by(self._table.c.number)).all()
        found = {process for row in rows if (process := _process(row)) is not None and row.state not in _ANSWERED}
        return InFlightView(
            processes=tuple(sorted(found)),
            spans=tuple(_span(row) for row in rows if row.state != IDLE),
        )


def _values(seen: InFlightView) -> Iterator[dict[str, Any]]:
    empty = Offsets().nested()
    for number, process in enumerate(seen.idle, start=1):
        yield {
            "number": -number,
            **_place(process),
            "state": IDLE,
            "start_position": empty,
            "end_position": empty,
            "age": 0.0,
            "bytes": 0,
        }
    for one in seen.spans:
        yield {
            "number": one.number,
            **_place(one.process),
            "state": one.state.value,
            "start_position": one.span.start.nested(),
            "end_position": one.span.end.nested(),
            "age": one.age_seconds,
            "bytes": one.size,
        }


def _before(seconds: float) -> Any:
    return func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _place(process: StageProcess | None) -> dict[str, Any]:
    if process is None:
        return {"host": None, "slot": None, "pid": None}
    return {"host": process.host, "slot": process.slot, "pid": process.pid}


def _process(row: Row[Any]) -> StageProcess | None:
    return None if row.host is None else StageProcess(host=row.host, slot=row.slot, pid=row.pid)


def _span(row: Row[Any]) -> InFlight:
    return InFlight(
        number=row.number,
        lane=row.lane,
        process=_process(row),
        span=Span(start=Offsets.from_nested(row.start_position), end=Offsets.from_nested(row.end_position)),
        state=SpanState(row.state),
        age_seconds=float(row.age),
        size=row.bytes,
    )
