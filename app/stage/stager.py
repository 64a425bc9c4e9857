"""The stage function: turns a span of messages into rows of staging tables, and a receipt.

    read (librdkafka) -> decode -> find where the epoch may end -> put in order -> the last change of each key
        -> COPY, committed at once; of a few changes INSERTs for the driver, in the receipt

It declines, with nothing staged, what only the driver can process: malformed messages, changes without a key, changes
whose effect depends on their order, changes of keys that wait in quarantine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import structlog
from sqlalchemy.engine import URL

from app.align.commit_order import CommitOrder
from app.align.cutter import Cut, Cutter
from app.config.settings import SourceSettings
from app.db.engine import KEEPALIVES, make_engine
from app.db.joined import flush
from app.db.kept_connection import KeptConnection
from app.db.sql import run
from app.db.sqlstate import translated
from app.decode.decoding import Decoding
from app.decode.formats import decoder_of
from app.epoch.epoch_batch import CHANGES, EpochBatch
from app.kafka.unread import UnreadMessages
from app.model.activity import Activity
from app.model.arrow import compute, single
from app.model.for_driver import ForDriver
from app.model.row_layout import RowKind
from app.stage.activity_times import ActivityTimes
from app.stage.failure import or_failed
from app.stage.instants import Instants, loaded
from app.stage.load import INSERT_BYTES, Load
from app.stage.receipt import (
    Declined,
    Example,
    Failed,
    Last,
    MessagePlace,
    Receipt,
    Rows,
    Staged,
    Wanted,
    counted,
    places_of,
)
from app.stage.request import Decode, Request, Tables
from app.stage.span_reading import WORTH_BLOCKS, SpanReading
from app.transform.function import load, over
from app.transform.sql import Rule, Sql

log = structlog.get_logger()

A = TypeVar("A")

#: kinds that have an effect and cannot be staged
_IRREGULAR = (RowKind.MALFORMED, RowKind.FAILED, RowKind.UNFIT, RowKind.KEYLESS, RowKind.TRUNCATE)
#: a crash empties UNLOGGED tables in any case; and the server notices a lost client as soon as the client a lost
#: server: a COPY waits for its client while it has its table locked
_SETTINGS = {"synchronous_commit": "off", **{f"tcp_{name}": value for name, value in KEEPALIVES.items()}}
_SESSION = "; ".join(f"set {name} = {value}" for name, value in _SETTINGS.items() if name != "tcp_keepalives")


@dataclass(frozen=True)
class StageConfig:
    """Configuration of a stage process, sent with the Spark job, whose channel has to be safe for passwords."""

    source: SourceSettings
    #: of the target
    url: URL
    owner_role: str | None
    #: messages that may wait for the rest of their source transaction; None: epochs may end inside one
    transaction_limit: int | None = None
    #: messages that may wait for unread ones of another topic; 0: epochs keep the order within each topic only
    max_held: int = 0
    #: the user's function, as module:function
    function: str | None = None
    sql: tuple[Rule, ...] = ()
    #: environment variables with secrets that the JVM must not have: not shown in a repr
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ArrangedSpan:
    """A span whose changes are ready to be copied."""

    request: Request
    epoch: EpochBatch
    #: the same, of changes that have all columns
    whole: EpochBatch
    #: indices of layouts of changes, with their first ordinals
    changed: Mapping[int, int]
    #: without its contents
    receipt: Receipt

    def wanted(self) -> Wanted | None:
        """The tables that are missing: of layouts for which none was lent."""
        examples = [
            Example(text, MessagePlace(*self.epoch.position(first)))
            for index, first in self.changed.items()
            if (text := self.epoch.layouts[index].text) not in self.request.tables
        ]
        return Wanted(self.request.id, tuple(examples)) if examples else None


class _Placed(NamedTuple):
    """How the changes of a layout reach their table: the last fields of `Staged`."""

    rows: int = 0
    size: int = 0
    statements: tuple[str, ...] = ()


class Stager:
    """One for each stage process. Used by one thread."""

    def __init__(
        self,
        config: StageConfig,
        is_cancelled: Callable[[], bool],
        doing: Callable[[Activity], None] = lambda _: None,
        *,
        is_successor: bool = False,
    ) -> None:
        """`is_cancelled`: whether the span is, while it is read; `doing` gets each activity before it begins;
        `is_successor`: of a process that has died, perhaps in compiled code, which is not loaded before it is due."""
        self._config, self._doing = config, ActivityTimes(doing)
        decoder = decoder_of(config.source, transactions=config.transaction_limit is not None)
        sql = Sql(config.sql, decoder.gone) if config.sql else None
        decoding, has_function = Decoding(decoder, _function(config.function), sql), config.function is not None
        self._expect = (lambda _: None) if is_successor else decoder.expect
        self._reads_instants = config.source.compiled and not is_successor
        self._reading = SpanReading(config.source, decoding, is_cancelled, self._doing, has_function=has_function)
        engine = make_engine(config.url, config.owner_role, "surelane stage")
        self._connection = KeptConnection(engine, partial(run, sql=_SESSION))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._reading.close()
        self._connection.close()

    def arrange(self, request: Request) -> ArrangedSpan | Receipt | Declined:
        """Read the span and put its changes in order; a receipt where there are none. Any error declines the span: the
        driver meets the error again, under guard."""
        return self._or_declined(request.id, lambda: self._arranged(request))

    def copy(self, arranged: ArrangedSpan, granted: Tables) -> Receipt | Declined:
        """Copy the changes into the tables lent and granted, or make the INSERTs for them. Any error declines the
        span."""
        tables = {**arranged.request.tables, **granted}
        return self._or_declined(arranged.request.id, lambda: self._staged(arranged, tables))

    def rows(self, request: Request) -> Rows | Failed:
        """The rows of the span. Errors are returned as `Failed`."""
        return or_failed(
            request.id,
            lambda: _rows(request.id, self._reading.rows(request), self._reading.lasts(request, request.span.end)),
        )

    def decoded(self, request: Decode) -> Rows | Failed:
        """The rows of stored messages. Errors are returned as `Failed`."""
        kept = [one.raw for one in request.messages]
        return or_failed(request.id, lambda: _rows(request.id, self._reading.stored(kept)))

    def _or_declined(self, number: int, work: Callable[[], A]) -> A | Declined:
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # a message may cause any exception
            self._connection.close()
            return Declined(number, f"{type(error).__name__}: {error}")

    def _arranged(self, request: Request) -> ArrangedSpan | Receipt | Declined:
        self._doing.begin()
        self._expect(request.span.size)
        rows = self._reading.rows(request)
        self._doing(Activity.ARRANGE)
        order = self._order(request)
        cut = Cutter(request.lane, self._config.transaction_limit, order).cut(
            rows, request.span, self._reading.message(request)
        )
        if cut.held.num_rows:
            self._reading.hold(request, cut.end, cut.held)
        if request.held_keys and _has_key(cut.rows, request.held_keys):
            return Declined(request.id, "it has changes of keys that wait in quarantine", ForDriver.HELD)
        if not cut.rows.num_rows:  # all rows are held
            return self._receipt(request, cut, order, cut.rows.nbytes)
        epoch = EpochBatch.arrange(cut.rows)
        whole = None if _is_irregular(epoch) else epoch.completed()
        if whole is None:
            return Declined(request.id, "not every change of it can be compacted", ForDriver.IRREGULAR)
        _ = whole.written
        self._doing(Activity.SERVER)
        firsts = {**whole.firsts, **epoch.firsts}
        changed = {index: first for index, first in firsts.items() if epoch.layouts[index].kind in CHANGES}
        receipt = self._receipt(request, cut, order, epoch.rows.nbytes)
        return ArrangedSpan(request, epoch, whole, changed, receipt)

    def _staged(self, arranged: ArrangedSpan, tables: Tables) -> Receipt:
        self._doing.begin()
        epoch, changed = arranged.epoch, arranged.changed
        placed = self._place(arranged.request, arranged.whole, tables)
        contents = _contents(epoch, changed, placed)
        spent = {**arranged.receipt.milliseconds, **self._doing.milliseconds()}
        return msgspec.structs.replace(arranged.receipt, messages=len(epoch), milliseconds=spent, **contents)

    def _order(self, request: Request) -> CommitOrder | None:
        """The order between topics. The driver handles spans in which too many messages wait, or in which the target
        may refuse one for now."""
        if not self._config.max_held or request.given or len(request.span.end) < 2:  # only several topics need it
            return None
        return CommitOrder(request.lane, self._config.max_held, UnreadMessages(self._reading.broker), lambda: True)

    def _place(self, request: Request, whole: EpochBatch, tables: Tables) -> dict[int, _Placed]:
        """Put the changes into the tables, or, where they are few, make the statements that do so in the driver's
        transaction: a round trip less. By layout index."""
        self._doing(Activity.ARRANGE)
        lent = ((index, tables.get(layout.text)) for index, layout in enumerate(whole.layouts))
        mine = [(index, table) for index, table in lent if table and len(whole.written[index])]
        is_long = len(whole) >= WORTH_BLOCKS  # else compiled code may not be loaded yet
        instants = self._instants() if is_long and any(table.instants for _, table in mine) else None
        loads = [Load.of(whole, index, table, instants) for index, table in mine]
        self._doing(Activity.SERVER)
        if sum(load.size for load in loads) <= INSERT_BYTES and all(load.may_join for load in loads):
            return {load.index: _Placed(len(load.lines), load.size, load.statements()) for load in loads}
        with self._connection.used() as connection, translated(f"lane {request.lane}: staging", discreet=True):
            placed = {load.index: _Placed(load.put(connection), load.size) for load in loads}
            flush(connection)
        return placed

    def _instants(self) -> Instants | None:
        """None where compiled code is not used, or there is none."""
        if self._reads_instants:
            try:
                return loaded()
            except Exception as error:  # noqa: BLE001  # of the compiled code
                self._reads_instants = False
                log.warning("Postgres reads the times, slower", because=f"{type(error).__name__}: {error}")
        return None

    def _receipt(self, request: Request, cut: Cut, order: CommitOrder | None, size: int) -> Receipt:
        """A receipt of a span of which nothing is staged."""
        return Receipt(
            id=request.id,
            messages=0,
            ends=places_of(cut.end),
            held=cut.held.num_rows,
            waiting=places_of(order.waiting if order is not None else {}),
            staged=(),
            times=b"",
            counts=b"",
            lasts=self._reading.lasts(request, cut.end),
            size=size,
            milliseconds=self._doing.milliseconds(),
        )


def _rows(number: int, rows: pa.Table, lasts: tuple[Last, ...] = ()) -> Rows:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return Rows(number, sink.getvalue().to_pybytes(), lasts)


def _function(name: str | None) -> Callable[[pa.Table], pa.Table] | None:
    return None if name is None else partial(over, load(name))


def _contents(epoch: EpochBatch, changed: Mapping[int, int], placed: Mapping[int, _Placed]) -> dict[str, Any]:
    """Fields of the receipt: what is staged, and source times."""
    messages = np.bincount(epoch.codes, minlength=len(epoch.layouts))
    staged = tuple(
        Staged(
            epoch.layouts[index].text,
            MessagePlace(*epoch.position(first)),
            tuple(sorted(epoch.key_columns(first))),
            int(messages[index]),
            *placed.get(index, _Placed()),
        )
        for index, first in changed.items()
    )
    times = single(epoch.rows["ts_ms"]).take(pa.array(epoch.changes)).drop_null()
    distinct, counts = counted(times.to_numpy(zero_copy_only=False).astype(np.int64))
    return {"staged": staged, "times": distinct.tobytes(), "counts": counts.astype(np.int64).tobytes()}


def _has_key(rows: pa.Table, keys: Sequence[str]) -> bool:
    return bool(compute.any(compute.is_in(rows["key"], value_set=pa.array(keys, pa.string()))).as_py())


def _is_irregular(epoch: EpochBatch) -> bool:
    if any(epoch.layouts[index].kind in _IRREGULAR for index in epoch.firsts):
        return True
    return bool((epoch.identities[epoch.changes] < 0).any())
