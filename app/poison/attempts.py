"""The guard's tables of one lane, written on a connection of their own that commits each statement at once.

Nothing that happens to the epoch's transaction, to the worker or to the target (when `guard.url` is another database)
takes back what was written here before a span was begun.
"""

import enum
import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, select, update
from sqlalchemy import delete as delete_from
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from app.db.direct import check_direct
from app.db.sqlstate import translated
from app.errors import Fenced
from app.model.offsets import Offsets, Span
from app.poison.guard_tables import SUSPECT_COUNTS, AttemptTables
from app.poison.storable_text import storable


class AttemptStage(enum.StrEnum):
    """What is being done with a span."""

    EPOCH = "epoch"  #: all of it: nothing is suspected yet
    DECODE = "decode"  #: reading and decoding
    MESSAGE = "message"  #: one message was found to be malformed: nothing else failed with it
    TRANSFORM = "transform"  #: the user's transform raised for one message
    APPLY = "apply"  #: writing to the target
    MEMORY = "memory"  #: of a suspect: there was not enough memory for it
    ASSEMBLE = "assemble"  #: the epoch as a whole, after each part of it was read by itself
    CONTROL = "control"  #: other work than the suspect's, to see whether it passes


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A span that was begun."""

    generation: int
    epoch: int
    stage: AttemptStage
    span: Span
    finished: bool


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A span that was in progress at a failure."""

    stage: AttemptStage
    span: Span
    #: failures that count against it
    attempts: int = 0
    #: connections to the target lost while it was in progress
    losses: int = 0
    #: of `attempts`: failures that ended the process
    deaths: int = 0
    #: deaths whose cause is not known
    unexplained: int = 0
    #: failures of this one message by itself, whatever they count for
    alone: int = 0
    #: whether a control has passed, and failures since then count for condemning
    controlled: bool = False
    #: controls that did not pass
    control_failures: int = 0
    #: of the last failure
    cause: str = ""
    error_class: str = ""
    sqlstate: str | None = None


class Attempts:
    """Attempts and suspects of `lane`. Raises Unreachable when the guard's database is away."""

    def __init__(
        self,
        engine: Engine,
        schema: str,
        lane: str,
        *,
        discreet: bool = False,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`discreet`: keep no words of an error, which may repeat what the message says; `waiting`: entered for as long
        as the database is waited for."""
        self._waiting = waiting
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self.lane, self.discreet = lane, discreet
        tables = AttemptTables.in_schema(schema)
        self._attempt, self._suspect = tables.attempt, tables.suspect
        self._connection: Connection | None = None

    def close(self) -> None:
        """Give the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def begin(self, attempt: Attempt) -> None:
        """Record that the span is in progress; raises Fenced when a newer writer has recorded one."""
        start, end = attempt.span.start.nested(), attempt.span.end.nested()
        values: dict[str, Any] = {
            "generation": attempt.generation,
            "epoch": attempt.epoch,
            "stage": attempt.stage,
            "span_start": start,
            "span_end": end,
            "finished": attempt.finished,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "begun_at": func.clock_timestamp(),
        }
        table = self._attempt
        statement = insert(table).values(lane=self.lane, **values)
        statement = statement.on_conflict_do_update(
            index_elements=["lane"], set_=values, where=table.c.generation <= attempt.generation
        )
        if not self._execute(statement).rowcount:
            raise Fenced.out(f"lane {self.lane}: a writer newer than generation {attempt.generation} is at work")

    def finish(self, generation: int) -> None:
        """Nothing is in progress any more."""
        table = self._attempt
        where = (table.c.lane == self.lane, table.c.generation == generation)
        self._execute(update(table).where(*where).values(finished=True))

    def last(self) -> Attempt | None:
        """The span begun last."""
        row = self._execute(select(self._attempt).where(self._attempt.c.lane == self.lane)).first()
        if row is None:
            return None
        return Attempt(
            generation=row.generation,
            epoch=row.epoch,
            stage=AttemptStage(row.stage),
            span=span_of(row),
            finished=row.finished,
        )

    def suspects(self) -> list[Suspect]:
        """Everything that is suspected."""
        rows = self._execute(select(self._suspect).where(self._suspect.c.lane == self.lane)).all()
        return [
            Suspect(
                stage=AttemptStage(row.stage),
                span=span_of(row),
                **{name: getattr(row, name) for name in SUSPECT_COUNTS},
                controlled=row.controlled,
                cause=row.cause,
                error_class=row.error_class,
                sqlstate=row.sqlstate,
            )
            for row in rows
        ]

    def trouble_seconds(self, *, in_progress: bool) -> float:
        """How long ago the first of the attempts was begun that led to what is suspected; `in_progress`: and to what is
        not finished. By the clock of the database, since they may be several processes' attempts."""
        suspect, attempt = self._suspect, self._attempt
        first = select(func.min(suspect.c.trouble_at)).where(suspect.c.lane == self.lane).scalar_subquery()
        last = select(attempt.c.begun_at).where(attempt.c.lane == self.lane, ~attempt.c.finished).scalar_subquery()
        since = func.least(first, last) if in_progress else first
        found = self._execute(select(func.extract("epoch", func.clock_timestamp() - since))).scalar_one()
        return max(0.0, float(found or 0))

    def suspect(self, suspect: Suspect, trouble_seconds: float = 0.0) -> None:
        """Write a suspect, or what is new of it. The trouble that led to it began so long ago."""
        key: dict[str, Any] = {
            "lane": self.lane,
            "stage": suspect.stage,
            "span_start": suspect.span.start.nested(),
            "span_end": suspect.span.end.nested(),
        }
        news: dict[str, Any] = {
            **{name: getattr(suspect, name) for name in SUSPECT_COUNTS},
            "controlled": suspect.controlled,
            "cause": suspect.error_class if self.discreet else storable(suspect.cause),
            "error_class": suspect.error_class,
            "sqlstate": suspect.sqlstate,
            "last_at": func.clock_timestamp(),
        }
        since = func.clock_timestamp() - timedelta(seconds=trouble_seconds)
        statement = insert(self._suspect).values(**key, **news, trouble_at=since)
        self._execute(statement.on_conflict_do_update(index_elements=list(key), set_=news))

    def clear_suspect(self, suspect: Suspect) -> None:
        """Forget a suspect."""
        table = self._suspect
        self._execute(
            delete_from(table).where(
                table.c.lane == self.lane,
                table.c.stage == suspect.stage,
                table.c.span_start == suspect.span.start.nested(),
                table.c.span_end == suspect.span.end.nested(),
            )
        )

    def forget(self) -> None:
        """Everything: its offsets are of a topic that is no more."""
        for table in (self._suspect, self._attempt):
            self._execute(delete_from(table).where(table.c.lane == self.lane))

    def _execute(self, statement: Any) -> Any:
        """Execute on the guard's connection, on a new one when it has died meanwhile."""
        with self._waiting(), translated(f"lane {self.lane}: the guard's tables"):
            if self._connection is not None:
                try:
                    return self._connection.execute(statement)
                except DBAPIError as error:
                    if not error.connection_invalidated:
                        raise
                    self.close()
            self._connection = self._engine.connect()
            check_direct(self._engine, self._connection, "guard.url (or target.url)")
            return self._connection.execute(statement)


def span_of(row: Row[Any]) -> Span:
    """The span of a row of either table."""
    return Span(start=Offsets.from_nested(row.span_start), end=Offsets.from_nested(row.span_end))
