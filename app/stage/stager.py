"""The stage function: a span of messages becomes rows of staging tables, and a receipt.

    read (librdkafka) -> decode -> put in order -> the last change of each key -> COPY, committed at once

What only the driver can deal with is declined, with nothing staged: messages that are malformed, changes without a key,
changes whose effect depends on their order.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from app.apply import staging
from app.apply.arrange import CHANGES, Epoch
from app.apply.last_delete import last_delete
from app.apply.staging import Lines
from app.config.settings import Source
from app.db.engine import KEEPALIVES, make_engine
from app.db.failures import translated
from app.db.sql import run
from app.decode.decoding import Decoding
from app.decode.driver import DriverDecoder
from app.errors import JobFailed, OutOfMemory, SurelaneError
from app.kafka.spans import Batch, SpanReader
from app.model.activity import Activity
from app.model.arrow import single
from app.model.offsets import Offsets, Span, TopicPartition
from app.model.rows import NO_ROWS, Kind, is_of
from app.stage.receipt import Declined, Example, Failed, Last, Place, Receipt, Rows, Staged, Wanted
from app.stage.request import Clearing, Decode, Request, Table, Tables
from app.transform.function import load, over
from app.transform.sql import Rule, Sql

#: kinds that are neither staged nor of no consequence
_IRREGULAR = (Kind.MALFORMED, Kind.FAILED, Kind.UNFIT, Kind.KEYLESS, Kind.TRUNCATE)
#: lanes that one process reads for at the same time, each with a consumer of its own
_READERS = 16
#: messages that are decoded at once: so many are in the processor's cache
_PIECE = 2_000
#: what a crash takes of an UNLOGGED table is gone in any case; and the server notices a client that is gone as soon as
#: it is noticed itself: a COPY waits for its client, and has its table locked
_SETTINGS = {"synchronous_commit": "off", **{f"tcp_{name}": value for name, value in KEEPALIVES.items()}}
_SESSION = "; ".join(f"set {name} = {value}" for name, value in _SETTINGS.items() if name != "tcp_keepalives")


@dataclass(frozen=True)
class Told:
    """What a stage process has to know; it goes with the Spark job, whose channel has to be safe for passwords."""

    source: Source
    #: of the target
    url: URL
    owner_role: str | None
    #: whether rows say which source transaction they are of
    transactions: bool = False
    #: the user's, module:function
    function: str | None = None
    sql: tuple[Rule, ...] = ()
    #: of the environment, with secrets that the JVM is not to have: not shown in a repr
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


class Stager:
    """Of one process. Used by one thread."""

    def __init__(
        self,
        told: Told,
        ask: Callable[[Wanted], Tables | None],
        is_cancelled: Callable[[], bool],
        doing: Callable[[Activity], None] = lambda _: None,
    ) -> None:
        """`ask`: tables for layouts that none were lent for, None: nobody wants the span any more; `is_cancelled`: the
        same, while it is read; `doing` is told what is being done."""
        self._told, self._ask, self._is_cancelled, self._doing = told, ask, is_cancelled, doing
        self._has_function = told.function is not None
        decoder = DriverDecoder(transactions=told.transactions)
        sql = Sql(told.sql, decoder.gone) if told.sql else None
        self._decoding = Decoding(decoder, _function(told.function), sql)
        self._readers: OrderedDict[str, SpanReader[Batch]] = OrderedDict()
        self._engine: Engine = make_engine(told.url, told.owner_role, "surelane stage")
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for reader in self._readers.values():
            reader.close()
        self._disconnect()

    def stage(self, request: Request) -> Receipt | Declined:
        """Stage the span. Whatever goes wrong is in the answer: the driver meets it again, under guard."""
        try:
            return self._staged(request)
        except Exception as error:  # noqa: BLE001  # whatever a message can bring about
            self._disconnect()
            return Declined(request.id, f"{type(error).__name__}: {error}")

    def rows(self, request: Request) -> Rows | Failed:
        """The rows of the span. Whatever goes wrong is in the answer."""
        return self._answered(request.id, lambda: (self._rows(request), self._lasts(request)))

    def decoded(self, request: Decode) -> Rows | Failed:
        """The rows of messages that were kept."""
        kept = [
            Batch(TopicPartition(one.topic, one.partition), [one.offset], [one.key], [one.value])
            for one in request.messages
        ]
        return self._answered(request.id, lambda: (self._transformed(self._decoded(kept)), ()))

    def _answered(self, number: int, work: Callable[[], tuple[pa.Table, tuple[Last, ...]]]) -> Rows | Failed:
        try:
            rows, lasts = work()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            return Rows(number, sink.getvalue().to_pybytes(), lasts)
        except SurelaneError as error:
            return Failed(number, type(error).__name__, error.message, error.hint)
        except MemoryError as error:
            return Failed(number, OutOfMemory.__name__, str(error), None)
        except Exception as error:  # noqa: BLE001  # one of the messages may be the cause of whatever goes wrong
            return Failed(number, JobFailed.__name__, f"could not be decoded: {type(error).__name__}: {error}", None)

    def _rows(self, request: Request) -> pa.Table:
        reader, tables = self._reader(request), [NO_ROWS]
        for piece in _pieces(request.span):
            self._doing(Activity.FETCH)
            tables.append(self._decoded(reader.read(piece)))
        return self._transformed(pa.concat_tables(tables))

    def _decoded(self, batches: list[Batch]) -> pa.Table:
        self._doing(Activity.DECODE)
        return self._decoding.decoded(batches)

    def _transformed(self, rows: pa.Table) -> pa.Table:
        if self._has_function:
            self._doing(Activity.FUNCTION)
        return self._decoding.transformed(rows)

    def _staged(self, request: Request) -> Receipt | Declined:
        rows = self._rows(request)
        self._doing(Activity.ARRANGE)
        epoch = Epoch.arrange(rows)
        whole = None if _is_irregular(epoch) else epoch.completed()
        if whole is None:
            return Declined(request.id, "not every change of it can be compacted")
        whole.look_ahead()
        self._doing(Activity.SERVER)
        firsts = {**whole.firsts, **epoch.firsts}
        changed = {index: first for index, first in firsts.items() if epoch.layouts[index].kind in CHANGES}
        tables = self._tables(request, epoch, changed)
        if tables is None:
            return Declined(request.id, "cancelled")
        return self._receipt(request, epoch, changed, self._copy(request, whole, tables))

    def _reader(self, request: Request) -> SpanReader[Batch]:
        reader = self._readers.get(request.lane)
        if reader is None:
            reader = self._readers[request.lane] = SpanReader(self._told.source, Batch, self._is_cancelled)
            reader.go_to(request.span.start, request.terms)
            if len(self._readers) > _READERS:
                self._readers.popitem(last=False)[1].close()
        self._readers.move_to_end(request.lane)
        return reader

    def _tables(self, request: Request, epoch: Epoch, changed: Mapping[int, int]) -> Tables | None:
        """`changed`: layouts of changes, with the ordinal of the first of each."""
        examples = [
            Example(text, Place(*epoch.position(first)))
            for index, first in changed.items()
            if (text := epoch.layouts[index].text) not in request.tables
        ]
        if not examples:
            return request.tables
        found = self._ask(Wanted(request.id, tuple(examples)))
        return None if found is None else {**request.tables, **found}

    def _copy(self, request: Request, whole: Epoch, tables: Tables) -> dict[int, tuple[int, int]]:
        """Rows and bytes by layout."""
        copied: dict[int, tuple[int, int]] = {}
        with translated(f"lane {request.lane}: staging", discreet=True):
            for index, lines in enumerate(whole.last_lines):
                table = tables.get(whole.layouts[index].text)
                if table is not None and len(lines):
                    copied[index] = self._copy_lines(table, Lines(lines))
        return copied

    def _copy_lines(self, table: Table, lines: Lines) -> tuple[int, int]:
        connection = self._connected()
        if table.clearing is Clearing.DELETE:
            staging.clear(connection, [table.name])
        elif table.clearing is Clearing.TRUNCATE:
            staging.empty(connection, [table.name])
        return staging.copy_lines(connection, table.name, table.columns, lines), lines.size

    def _receipt(
        self, request: Request, epoch: Epoch, changed: Mapping[int, int], copied: Mapping[int, tuple[int, int]]
    ) -> Receipt:
        messages = np.bincount(epoch.codes, minlength=len(epoch.layouts))
        staged = tuple(
            Staged(
                epoch.layouts[index].text,
                Place(*epoch.position(first)),
                tuple(sorted(epoch.key_columns(first))),
                int(messages[index]),
                *copied.get(index, (0, 0)),
            )
            for index, first in changed.items()
        )
        times = single(epoch.rows["ts_ms"]).take(pa.array(epoch.of_kind(*CHANGES))).drop_null()
        distinct, counts = np.unique(times.to_numpy(zero_copy_only=False).astype(np.int64), return_counts=True)
        return Receipt(
            id=request.id,
            messages=len(epoch),
            staged=staged,
            times=distinct.tobytes(),
            counts=counts.astype(np.int64).tobytes(),
            last_deletes=tuple(_last_deletes(epoch.rows, request.span.end)),
            lasts=self._lasts(request),
            size=epoch.rows.nbytes,
        )

    def _lasts(self, request: Request) -> tuple[Last, ...]:
        reader = self._reader(request)
        found = {tp: reader.last(tp, end) for tp, end in request.span.end.items()}
        return tuple(
            Last(*tp, one.offset, one.leader_epoch, one.timestamp_ms, one.digest)
            for tp, one in found.items()
            if one is not None
        )

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            run(self._connection, _SESSION)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
                connection.close()


def _function(name: str | None) -> Callable[[pa.Table], pa.Table] | None:
    return None if name is None else partial(over, load(name))


def _pieces(span: Span) -> Iterator[Span]:
    """One after the other; of several partitions there is one."""
    moved = {tp: end for tp, end in span.end.items() if end > span.start[tp]}
    if len(moved) != 1:
        yield span
        return
    ((tp, end),) = moved.items()
    for start in range(span.start[tp], end, _PIECE):
        yield Span.of(tp, start, min(start + _PIECE, end))


def _is_irregular(epoch: Epoch) -> bool:
    if any(epoch.layouts[index].kind in _IRREGULAR for index in epoch.firsts):
        return True
    return bool((epoch.identities[epoch.of_kind(*CHANGES)] < 0).any())


def _last_deletes(rows: pa.Table, ends: Offsets) -> Iterator[Place]:
    for tp in ends:
        offset = last_delete(rows if len(ends) == 1 else rows.filter(is_of(rows, TopicPartition(*tp))))
        if offset is not None:
            yield Place(*tp, offset)
