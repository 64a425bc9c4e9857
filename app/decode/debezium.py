"""Decodes Debezium's JSON: one pass over the bytes, into the fields that are needed.

Compiled code (`app.decode.scan_loader`) takes most messages, once there were enough; Python decodes the others here.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import structlog

from app.config.settings import SourceSettings
from app.decode import scan_loader as scanner
from app.decode.scan_loader import Scanned, Scanner
from app.kafka.batch import Batch
from app.kafka.packed_bytes import PackedBytes
from app.model.arrow import Indices, compute
from app.model.row_layout import SEPARATOR, RowKind
from app.model.rows import MOST_TS_MS, NO_ROWS, SCHEMA, TRANSACTION

log = structlog.get_logger()

#: messages until compiled code is loaded
WORTH_COMPILING = 20_000
#: longest wait for compiled code to be loaded, before messages that are worth it
LOAD_SECONDS = 0.5

#: kind of each `op`
OPERATIONS = {
    "c": RowKind.UPSERT,
    "u": RowKind.UPSERT,
    "r": RowKind.UPSERT,
    "d": RowKind.DELETE,
    "t": RowKind.TRUNCATE,
    "m": RowKind.FILTERED,
}
_UPSERTS = frozenset(op for op, kind in OPERATIONS.items() if kind is RowKind.UPSERT)
#: `op` of a new row
_FIRST = ("c", "r")
#: how Connect's converter begins a message with schema, and what separates schema and payload
_ENVELOPE, _PAYLOAD = b'{"schema":', b',"payload":'
#: maximum number of layouts in memory; only a source that changes its tables all the time has more
_MOST_LAYOUTS = 100_000
_POSTGRES_ID = re.compile(r"(\d+):\d+")
#: text fields of `source`
_TEXTS = ("schema", "table", "sequence")
_NULL = "\\N"
_ESCAPE = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
#: errors of a malformed message: not JSON, not UTF-8, of another type, too deep
_FAULTS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

#: the largest integer of 64 bits, plus one
_LONG = 1 << 63

_Row = Mapping[str, Any]


class _Number(str):
    """A number with fraction or exponent, as the message has it."""

    __slots__ = ()


class _Source(msgspec.Struct, gc=False):
    schema: str | None = None
    table: str | None = None
    sequence: str | None = None
    #: outside of 64 bits the message goes to `_other`
    ts_ms: Annotated[int, msgspec.Meta(ge=-(_LONG >> 1), lt=_LONG >> 1)] | None = None


class _InTransaction(msgspec.Struct, gc=False):
    id: str | None = None
    total_order: int | None = None


class _Change(msgspec.Struct, gc=False):
    """What most messages are decoded into; their other fields are skipped."""

    op: str | None = None
    source: _Source | None = None
    after: dict[str, Any] | None = None


class _ChangeInTransaction(_Change, gc=False):
    transaction: _InTransaction | None = None


@dataclass
class _Columns:
    """Columns of the result."""

    layouts: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    sequences: list[str | None] = field(default_factory=list)
    are_read: list[bool | None] = field(default_factory=list)
    transactions: list[dict[str, Any] | None] = field(default_factory=list)

    def add(
        self,
        layout: int,
        line: str,
        source: "_Source | None" = None,
        is_read: bool | None = None,
        transaction: dict[str, Any] | None = None,
    ) -> None:
        self.layouts.append(layout)
        self.lines.append(line)
        self.times.append(source.ts_ms if source else None)
        self.sequences.append(source.sequence if source else None)
        self.are_read.append(is_read)
        self.transactions.append(transaction)

    def together(self, scanned: Scanned | None, left: Indices) -> dict[str, pa.Array]:
        """The columns as arrays, with what the compiled code took; then these are the rows that it `left`."""
        if scanned is None:
            return self._arrays()
        count = len(scanned.layouts)
        taken = {
            "line": scanned.lines,
            "ts_ms": pa.array(scanned.times),
            "sequence": scanned.sequences,
            "is_read": pa.array(scanned.are_read),
            "transaction": pa.nulls(count, TRANSACTION),
        }
        if not len(left):
            return taken
        places = np.arange(count)
        places[left] = count + np.arange(len(left))
        own = self._arrays()
        return {name: pa.concat_arrays([taken[name], own[name]]).take(pa.array(places)) for name in own}

    def _arrays(self) -> dict[str, pa.Array]:
        return {
            "line": pa.array(self.lines, pa.string()),
            "ts_ms": pa.array(self.times, pa.int64()),
            "sequence": pa.array(self.sequences, pa.string()),
            "is_read": pa.array(self.are_read, pa.bool_()),
            "transaction": pa.array(self.transactions, TRANSACTION),
        }


class DebeziumJson:
    """`source.format: debezium-json`. Not safe for several threads at once."""

    def __init__(
        self,
        *,
        transactions: bool = False,
        scanner: Scanner | None = None,
        worth_compiling: int | None = WORTH_COMPILING,
    ) -> None:
        """`transactions`: whether rows name their source transaction, which compiled code does not do.

        `scanner`: used at once; without it, it is loaded after `worth_compiling` messages, None: never.
        """
        self._transactions = transactions
        self._scanner, self._count, self._has_waited = scanner, 0, False
        self._worth = None if transactions or scanner else worth_compiling
        shape = _ChangeInTransaction if transactions else _Change
        self._change = msgspec.json.Decoder(shape, float_hook=_Number).decode
        self._anything = msgspec.json.Decoder(float_hook=_Number).decode
        self._forget()

    @classmethod
    def of(cls, source: SourceSettings, *, transactions: bool) -> Self:
        """`source.compiled: false`: compiled code is never loaded."""
        return cls(transactions=transactions, worth_compiling=WORTH_COMPILING if source.compiled else None)

    def expect(self, messages: int) -> None:
        """Wait for compiled code where it is worth it for so many messages, once, and not until it is compiled."""
        if self._scanner is None and self._worth is not None and messages >= self._worth and not self._has_waited:
            self._has_waited = True
            wait([scanner.loading()], LOAD_SECONDS)
            self._ask()

    def decode(self, batches: Sequence[Batch]) -> pa.Table:
        """One row for each message, as in `app.model.rows`; never raises for what a message contains."""
        if max(len(self._texts), len(self._scanned_codes)) > _MOST_LAYOUTS:
            self._forget()
        return pa.concat_tables([NO_ROWS, *map(self._batch, batches)])

    def gone(self, key: bytes | None, value: bytes | None, *, enveloped: bool) -> tuple[RowKind, tuple[str, ...], str]:
        """The delete of the row that a change wrote: kind, columns, line. FILTERED: the row was new."""
        kind, row = (RowKind.KEYLESS, None) if key is None else self._key(key, enveloped=enveloped)
        if kind is RowKind.KEYLESS and value is not None:
            whole = self._anything(value)
            body = whole["payload"] if isinstance(whole.get("payload"), dict) else whole
            kind, row = _before(body.get("before")) if key is None else (kind, None)
            if kind is RowKind.KEYLESS and body.get("op") in _FIRST:
                kind = RowKind.FILTERED
        return kind, tuple(row or ()), line_of(row) if row else ""

    def _forget(self) -> None:
        self._texts: list[str] = []
        self._codes: dict[tuple[str, ...], int] = {}
        #: schema of an envelope, text of a layout from compiled code -> the layout's number
        self._scanned_codes: dict[tuple[str, str], int] = {}
        #: schema of an envelope, source schema and table -> columns of the last row written there, and their layout
        self._latest: dict[tuple[str, str | None, str | None], tuple[tuple[str, ...], int]] = {}
        #: schema of an envelope -> its name in layouts
        self._schemas: dict[bytes, str] = {}

    def _batch(self, batch: Batch) -> pa.Table:
        count, scanned = len(batch.offsets), self._scanned(batch)
        codes = np.full(count, -1, np.int64) if scanned is None else scanned.layouts
        left = np.flatnonzero(codes < 0)
        columns = _Columns()
        for index in left.tolist():
            self._message(columns, batch.keys[index], batch.values[index])
        codes[left] = columns.layouts
        layouts = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(self._texts, pa.string()))
        content = {
            "topic": pa.repeat(pa.scalar(batch.tp.topic), count),
            "partition": pa.repeat(pa.scalar(batch.tp.partition, pa.int32()), count),
            "offset": pa.array(batch.offsets, pa.int64()),
            "layout": layouts.dictionary_decode(),
            "key": _binary(batch.keys).view(pa.string()),  # its bytes, unchecked
            **columns.together(scanned, left),
        }
        content["ts_ms"] = _times(content["ts_ms"])
        return pa.table([content[name] for name in SCHEMA.names], schema=SCHEMA)

    def _scanned(self, batch: Batch) -> Scanned | None:
        """What the compiled code takes of a batch, with the layout numbers of this decoder; None: nothing."""
        scanner = self._compiled(len(batch.offsets))
        if scanner is None or not len(batch.offsets):
            return None
        schemas, bodies, keys = [""], batch.values, batch.keys
        # all of a topic's messages have an envelope, or none; others are left
        if (bodies[0] or b"").startswith(_ENVELOPE):
            opened = [self._opened(body) if body and body.startswith(_ENVELOPE) else ("", body) for body in bodies]
            schemas, bodies = [schema for schema, _ in opened], [body for _, body in opened]
            keys = [b""] * len(bodies)  # they have an envelope, too: deletes are left
        scanned = scanner.scan(bodies, keys)
        if scanned is None:
            return None
        ranks = {schema: rank for rank, schema in enumerate(dict.fromkeys(schemas))}
        known = np.array([[*(self._numbered(name, text) for text in scanned.texts), -1] for name in ranks], np.int64)
        rows = np.array([ranks[schema] for schema in schemas]) if len(ranks) > 1 else 0
        return replace(scanned, layouts=known[rows, scanned.layouts])

    def _compiled(self, messages: int) -> Scanner | None:
        """The compiled code, once there were enough messages to load it and it is loaded."""
        if self._scanner is None and self._worth is not None:
            self._count += messages
            if self._count >= self._worth:
                self._ask()
        return self._scanner

    def _ask(self) -> None:
        future = scanner.loading()
        if not future.done():
            return
        self._worth = None
        if error := future.exception():
            log.warning("decoding goes on without compiled code, slower", because=f"{type(error).__name__}: {error}")
        else:
            self._scanner = future.result()

    def _numbered(self, schema: str, text: str) -> int:
        """Number of a layout that the compiled code returned; -1 where a name occurs twice, which JSON leaves
        undefined."""
        number = self._scanned_codes.get((schema, text))
        if number is None:
            _, *columns, source, table, op = text.split(SEPARATOR)
            kind, is_clear = RowKind.DELETE if op == "d" else RowKind.UPSERT, len(set(columns)) == len(columns)
            number = self._layout(kind, schema, source, table, *columns) if is_clear else -1
            self._scanned_codes[schema, text] = number
        return number

    def _message(self, columns: _Columns, key: bytes | None, value: bytes | None) -> None:
        if value is None:  # tombstone
            columns.add(self._layout(RowKind.FILTERED), "")
            return
        schema, body = self._opened(value) if value.startswith(_ENVELOPE) else ("", value)
        try:
            change = self._change(body)
        except _FAULTS:
            self._other(columns, key, value)
            return
        op, source, after = change.op, change.source, change.after
        place = self._place(change) if self._transactions else None
        if source is None or not source.ts_ms:
            self._other(columns, key, value)
        elif op in _UPSERTS and after:
            layout = self._written(schema, source, tuple(after))
            columns.add(layout, line_of(after), source, op == "r", place)
        elif op == "d" and key is not None:
            kind, row = self._key(key, enveloped=bool(schema))
            self._delete(columns, kind, row, schema, source, place)
        else:
            self._other(columns, key, value)

    def _opened(self, value: bytes) -> tuple[str, bytes | memoryview]:
        """Name of an envelope's schema, and the payload; "" and the value where it is no envelope after all."""
        at = value.find(_PAYLOAD)
        if at < 0 or value[-1:] != b"}":
            return "", value
        return self._schema(value[:at]), memoryview(value)[at + len(_PAYLOAD) : -1]

    def _schema(self, text: bytes) -> str:
        return self._schemas.get(text) or self._schemas.setdefault(text, str(hash(text)))

    def _layout(self, kind: RowKind, schema: str = "", *names: str) -> int:
        """Number of a layout; `names`: source schema, table and columns."""
        which = (kind, schema, *names)
        code = self._codes.get(which)
        if code is None:
            code = self._codes[which] = len(self._texts)
            self._texts.append(SEPARATOR.join([kind, schema, *(names or ("", ""))]))
        return code

    def _written(self, schema: str, source: _Source, names: tuple[str, ...]) -> int:
        """Layout of an upsert: nearly always that of the one before it in the same table."""
        table = (schema, source.schema, source.table)
        latest = self._latest.get(table)
        if latest is None or latest[0] != names:
            code = self._layout(RowKind.UPSERT, schema, source.schema or "", source.table or "", *names)
            latest = self._latest[table] = (names, code)
        return latest[1]

    def _key(self, key: bytes, *, enveloped: bool) -> tuple[RowKind, _Row | None]:
        """The row that a delete's key identifies."""
        try:
            key.decode()
        except UnicodeDecodeError:  # with replaced bytes it would identify another row
            return RowKind.MALFORMED, None
        try:
            row = self._anything(key)
        except _FAULTS:
            return RowKind.KEYLESS, None
        if enveloped and isinstance(row, dict):
            row = row.get("payload")
        return (RowKind.DELETE, row) if isinstance(row, dict) and row else (RowKind.KEYLESS, None)

    def _delete(
        self,
        columns: _Columns,
        kind: RowKind,
        row: _Row | None,
        schema: str,
        source: _Source,
        transaction: dict[str, Any] | None,
    ) -> None:
        named = () if kind is RowKind.MALFORMED else (schema, source.schema or "", source.table or "", *(row or ()))
        columns.add(self._layout(kind, *named), line_of(row) if row else "", source, False, transaction)

    def _other(self, columns: _Columns, key: bytes | None, value: bytes) -> None:
        """Decode as a whole a message that is no ordinary change."""
        try:
            whole = self._anything(value)
        except _FAULTS:
            columns.add(self._layout(RowKind.MALFORMED), "")
            return
        if not isinstance(whole, dict):
            columns.add(self._layout(RowKind.MALFORMED), "")
            return
        enveloped = isinstance(whole.get("payload"), dict)
        body = whole["payload"] if enveloped else whole
        schema = self._schema(value[: max(value.find(_PAYLOAD), 0)]) if enveloped else ""
        op, after, source = body.get("op"), body.get("after"), _source(body.get("source"))
        kind = _kind(body)
        is_read = op == "r" if isinstance(op, str) else None
        transaction = self._transaction(body)
        if kind is RowKind.DELETE:
            kind, row = self._key(key, enveloped=enveloped) if key is not None else _before(body.get("before"))
            self._delete(columns, kind, row, schema, source, transaction)
        elif kind is RowKind.UPSERT and isinstance(after, dict) and after:
            layout = self._layout(kind, schema, source.schema or "", source.table or "", *after)
            columns.add(layout, line_of(after), source, is_read, transaction)
        elif kind is RowKind.TRUNCATE:
            layout = self._layout(kind, schema, source.schema or "", source.table or "")
            columns.add(layout, "", source, is_read, transaction)
        else:
            kind = RowKind.MALFORMED if kind is RowKind.UPSERT else kind
            columns.add(self._layout(kind), "", source, is_read, transaction)

    def _place(self, change: _Change) -> dict[str, Any] | None:
        """Source transaction of a change, and its place there."""
        reported = change.transaction if isinstance(change, _ChangeInTransaction) else None
        if reported is None or reported.id is None:
            return None
        return {"id": _transaction_id(reported.id), "place": _long(reported.total_order), "parts": None}

    def _transaction(self, body: _Row) -> dict[str, Any] | None:
        """Source transaction of a marker, or of a change that was decoded as a whole."""
        if not self._transactions:
            return None
        reported = body.get("transaction")
        if _is_marker(body):
            parts = _json(body.get("data_collections") or []) if body["status"] == "END" else None
            return {"id": _transaction_id(body["id"]), "place": None, "parts": parts}
        if not isinstance(reported, dict) or not isinstance(reported.get("id"), str):
            return None
        return {"id": _transaction_id(reported["id"]), "place": _long(reported.get("total_order")), "parts": None}


def _binary(texts: Sequence[bytes | None]) -> pa.Array:
    return texts.arrow() if isinstance(texts, PackedBytes) else pa.array(texts, pa.binary())


def _times(milliseconds: pa.Array) -> pa.Array:
    """The milliseconds, null for those out of range."""
    values = compute.fill_null(milliseconds, 0).to_numpy(zero_copy_only=False)
    if not len(values) or (values.min() >= 0 and values.max() <= MOST_TS_MS):
        return milliseconds
    is_time = compute.and_(compute.greater_equal(milliseconds, 0), compute.less_equal(milliseconds, MOST_TS_MS))
    return compute.if_else(is_time, milliseconds, None)


def line_of(row: _Row) -> str:
    """COPY text line of the row's values."""
    values = row.values()
    texts = [value if type(value) is str else str(value) if type(value) is int else _text(value) for value in values]
    line = "\t".join(texts)
    if "\\" in line or "\n" in line or "\r" in line or line.count("\t") != len(texts) - 1:
        texts = [text.translate(_ESCAPE) for text in texts]
        line = "\t".join(texts)
    if None in values:
        line = "\t".join([_NULL if value is None else text for value, text in zip(values, texts, strict=True)])
    return line + "\n"


def _text(value: Any) -> str:
    """Text of a value that is no string, as the message has it."""
    if value is None:
        return ""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return _json(value) if isinstance(value, dict | list) else str(value)


def _json(value: Any) -> str:
    """JSON text of a value within a list or an object."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, str) and not isinstance(value, _Number):
        return msgspec.json.encode(value).decode()
    return "null" if value is None else _text(value)


def _source(reported: Any) -> _Source:
    """The message's `source`, without fields of wrong types."""
    if not isinstance(reported, dict):
        return _Source()
    schema, table, sequence = (one if isinstance(one := reported.get(name), str) else None for name in _TEXTS)
    return _Source(schema, table, sequence, _long(reported.get("ts_ms")))


def _long(reported: Any) -> int | None:
    """An integer of 64 bits; None for everything else."""
    return reported if type(reported) is int and -_LONG <= reported < _LONG else None


def _kind(body: _Row) -> RowKind:
    op = body.get("op")
    if op is None:
        return RowKind.FILTERED if _is_remark(body) else RowKind.MALFORMED
    return OPERATIONS.get(op, RowKind.MALFORMED) if isinstance(op, str) else RowKind.MALFORMED


def _is_remark(body: _Row) -> bool:
    """Whether a message without `op` is one that Debezium sends beside the changes."""
    schema_change = body.get("ddl") is not None or body.get("tableChanges") is not None
    heartbeat = body.get("source") is None and body.get("ts_ms") is not None and body.get("after") is None
    return _is_marker(body) or schema_change or heartbeat


def _is_marker(body: _Row) -> bool:
    """Whether it marks the begin or the end of a source transaction."""
    return body.get("op") is None and body.get("status") in ("BEGIN", "END") and isinstance(body.get("id"), str)


def _before(reported: Any) -> tuple[RowKind, _Row | None]:
    """The row that a delete without key identifies."""
    return (RowKind.DELETE, reported) if isinstance(reported, dict) and reported else (RowKind.KEYLESS, None)


def _transaction_id(text: str) -> str:
    """Postgres' id is `xid:lsn`, with the lsn of the single change: only the xid is of the transaction."""
    found = _POSTGRES_ID.fullmatch(text)
    return found[1] if found else text
