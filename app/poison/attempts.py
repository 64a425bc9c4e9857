"""The guard's tables of one lane, written on a connection of their own that commits each statement at once.

What is written here before a span begins survives a rollback of the epoch's transaction, the death of the worker, and
the loss of the target (when `guard.url` names another database).
"""

import enum
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

from sqlalchemy import BindParameter, Engine, Row, Table, Update, bindparam, func, select, update
from sqlalchemy import delete as delete_from
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import DBAPIError

from app.background import BackgroundThread
from app.db.direct import check_direct
from app.db.joined import later
from app.db.kept_connection import KeptConnection
from app.db.sqlstate import translated
from app.errors import Fenced, SurelaneError
from app.model.offsets import Offsets, Span
from app.poison.guard_tables import SUSPECT_COUNTS, AttemptTables
from app.poison.storable_text import storable


class AttemptStage(enum.StrEnum):
    """What is being done with a span."""

    EPOCH = "epoch"  #: the whole epoch: nothing is suspected yet
    DECODE = "decode"  #: reading and decoding
    MESSAGE = "message"  #: one message is malformed; nothing else failed with it
    TRANSFORM = "transform"  #: the user's transform raised for one message
    APPLY = "apply"  #: writing to the target
    MEMORY = "memory"  #: of a suspect: it did not fit into memory
    ASSEMBLE = "assemble"  #: the whole epoch, after each of its parts was read by itself
    CONTROL = "control"  #: work without the suspect, to see whether it passes


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
    #: connections to the target that were lost while it was in progress
    losses: int = 0
    #: of `attempts`: failures that ended the process
    deaths: int = 0
    #: deaths whose cause is not known
    unexplained: int = 0
    #: failures while this one message was in progress by itself, whatever they count for
    alone: int = 0
    #: whether a control has passed: only then can deaths, losses and failed reads condemn it
    controlled: bool = False
    #: controls that failed
    control_failures: int = 0
    #: messages of the span that was suspected first, at most: this one is a part of it; 0: not known
    first_messages: int = 0
    #: of the last failure
    cause: str = ""
    error_class: str = ""
    sqlstate: str | None = None


class Attempts:
    """Attempts and suspects of `lane`. Methods raise Unreachable when the guard's database is away."""

    def __init__(
        self,
        engine: Engine,
        schema: str,
        lane: str,
        *,
        discreet: bool = False,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`discreet`: do not store error texts, which may repeat values of the message; `waiting`: a context that is
        entered while a statement runs."""
        self._waiting = waiting
        self.lane, self.discreet = lane, discreet
        tables = AttemptTables.in_schema(schema)
        self._attempt, self._suspect = tables.attempt, tables.suspect
        # those of each epoch are made once: that takes longer than to execute them
        self._beginning = _beginning(tables.attempt)
        self._ending = self._finished(bindparam("newest")).where(
            func.set_config("synchronous_commit", "off", True) == "off"  # of this statement's transaction only
        )
        self._connection = KeptConnection(
            engine, lambda connection: check_direct(engine, connection, "guard.url (or target.url)")
        )
        self._thread = BackgroundThread(f"guard of {lane}")
        self._finishing: _Finishing | None = None
        #: whether an attempt that this process began may be on record as in progress
        self._may_be_open = False

    def close(self) -> None:
        """Close the connection, if one is open."""
        with suppress(SurelaneError):
            self._settle()
        self._thread.close()
        self._connection.close()

    def begin(self, attempt: Attempt) -> None:
        """Record that the span is in progress; raises Fenced when a newer writer has recorded one."""
        values = {
            "lane": self.lane,
            "generation": attempt.generation,
            "epoch": attempt.epoch,
            "stage": attempt.stage,
            "span_start": attempt.span.start.nested(),
            "span_end": attempt.span.end.nested(),
            "finished": attempt.finished,
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        self._settle(replaced=True)
        self._may_be_open = True
        if not self._send(self._beginning, values).rowcount:
            raise Fenced.out(f"lane {self.lane}: a writer newer than generation {attempt.generation} is at work")

    def finish(self, generation: int) -> None:
        """Mark the span in progress as finished, unless a generation newer than this one began it."""
        with suppress(SurelaneError):  # what `finish_soon` could not write is written now
            self._settle()
        self._send(self._finished(generation))
        self._may_be_open = False

    def finish_unknown(self, generation: int) -> None:
        """As `finish`, if an attempt of this process may be on record as in progress: an answer was lost, say."""
        with suppress(SurelaneError):
            self._settle()
        if self._may_be_open:
            self.finish(generation)

    def finish_soon(self, generation: int, within: float = 0.0) -> None:
        """As `finish`, in a thread: the next call waits for it, and raises its error. The server may forget it in a
        crash of its own, within a second. `within`: seconds that it may wait for the next `begin`, which replaces it:
        where the target's position is behind the span, an unfinished one is no suspect."""
        self._settle()
        finishing = _Finishing(within, partial(self._send, self._ending, {"newest": generation}))
        finishing.done = self._thread.begun(finishing.run)
        self._finishing = finishing

    def _settle(self, *, replaced: bool = False) -> None:
        """Wait for `finish_soon`; `replaced`: it need not be written any more."""
        finishing, self._finishing = self._finishing, None
        if finishing is not None:
            finishing.end(replaced=replaced)
            self._may_be_open = False

    def _finished(self, generation: int | BindParameter[int]) -> Update:
        table = self._attempt
        mine = (table.c.lane == self.lane, table.c.generation <= generation)
        return update(table).where(*mine).values(finished=True)

    def last(self) -> Attempt | None:
        """The span that was begun last, finished or not; None if there is none."""
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
        """Seconds since the first attempt that led to a suspect began; `in_progress`: or the unfinished attempt. By the
        database's clock, since the attempts may be of several processes."""
        suspect, attempt = self._suspect, self._attempt
        first = select(func.min(suspect.c.trouble_at)).where(suspect.c.lane == self.lane).scalar_subquery()
        last = select(attempt.c.begun_at).where(attempt.c.lane == self.lane, ~attempt.c.finished).scalar_subquery()
        since = func.least(first, last) if in_progress else first
        found = self._execute(select(func.extract("epoch", func.clock_timestamp() - since))).scalar_one()
        return max(0.0, float(found or 0))

    def suspect(self, suspect: Suspect, trouble_seconds: float = 0.0, *, finish: int | None = None) -> None:
        """Insert or update a suspect. A new row records that its trouble began `trouble_seconds` ago. `finish`: as
        `finish` with this generation, in one transaction: the failure of an attempt counts once."""
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
        first = None if finish is None else self._finished(finish)
        self._execute(statement.on_conflict_do_update(index_elements=list(key), set_=news), first=first)

    def clear_suspect(self, suspect: Suspect) -> None:
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
        """Delete all rows of the lane: their offsets belong to a topic that does not exist any more."""
        for table in (self._suspect, self._attempt):
            self._execute(delete_from(table).where(table.c.lane == self.lane))

    def _execute(self, statement: Any, *, first: Any = None) -> Any:
        self._settle()
        return self._send(statement, first=first)

    def _send(self, statement: Any, values: Mapping[str, Any] | None = None, *, first: Any = None) -> Any:
        """Execute on the guard's connection; on a new one if it died. `first`: a statement before it, in one
        transaction with it."""
        with self._waiting(), translated(f"lane {self.lane}: the guard's tables"):
            is_new = not self._connection.is_open
            try:
                return self._sent(statement, values, first)
            except DBAPIError as error:
                if is_new or not error.connection_invalidated:
                    raise
            return self._sent(statement, values, first)

    def _sent(self, statement: Any, values: Mapping[str, Any] | None, first: Any) -> Any:
        with self._connection.used() as connection:
            if first is not None:
                later(connection, first)
            return connection.execute(statement, values)


class _Finishing:
    """The record that a span is finished, on its way."""

    done: Future[None]

    def __init__(self, within: float, write: Callable[[], object]) -> None:
        self._within, self._write = within, write
        self._is_wanted, self._is_replaced = Event(), False

    def run(self) -> None:
        self._is_wanted.wait(self._within)
        if not self._is_replaced:
            self._write()

    def end(self, *, replaced: bool) -> None:
        """Have it written now, or not at all, and wait for that."""
        self._is_replaced = replaced
        self._is_wanted.set()
        with suppress(SurelaneError) if replaced else nullcontext():
            self.done.result()


def _beginning(table: Table) -> Insert:
    """The insert or update of a lane's row; its parameters are the columns, except for the time. Changes nothing where
    the row has a newer generation."""
    statement = insert(table).values(begun_at=func.clock_timestamp())
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=["lane"],
        set_={one.name: new[one.name] for one in table.c if one.name != "lane"},
        where=table.c.generation <= new.generation,
    )


def span_of(row: Row[Any]) -> Span:
    return Span(start=Offsets.from_nested(row.span_start), end=Offsets.from_nested(row.span_end))
