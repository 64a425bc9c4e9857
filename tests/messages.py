"""Debezium's messages, made by hand: the bytes of key and value, and what they mean.

A `Message` carries the bytes that go to Kafka together with the change that they stand for, in Python's values, as
psycopg2 reads them back from the target. So the oracle needs no decoder, and decoder and oracle cannot share a fault.

`Debezium` plays the connector: it counts lsn and transaction ids, and writes with or without the schema envelope.
The wire forms are those of Debezium's Postgres connector (documentation, "data type mappings"; without envelope
decimals are strings, as under `decimal.handling.mode=string`).
"""

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Row = Mapping[str, Any]
Key = tuple[Any, ...]
Json = dict[str, Any]

#: value of a column that an update leaves as it is, and does not repeat because it is large
LEFT_OUT = object()
_STAND_IN = "__debezium_unavailable_value"
_STAND_INS = {
    ("bytes", None): base64.b64encode(_STAND_IN.encode()).decode(),
    ("array", "string"): [_STAND_IN],
    ("array", "int32"): list(_STAND_IN.encode()),
}
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
#: milliseconds since 1970 of the first change of a made-up source
FIRST_TS_MS = 1_750_000_000_000


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a message asks for. `row` None: the row with that key is gone; a column that is not in it stays as it is."""

    table: str
    key: Key
    row: Row | None


@dataclass(frozen=True, kw_only=True)
class Message:
    """One Kafka message and its meaning; `change` None: nothing is to happen."""

    key: bytes | None
    value: bytes | None
    change: Change | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    #: None: by the key's hash
    partition: int | None = None


@dataclass(frozen=True, kw_only=True)
class Type:
    """A Postgres type and Debezium's two ways to write its values."""

    sql: str
    #: Connect schema: type, name, parameters
    schema: Json
    bare: Callable[[Any], Any] = lambda value: value
    #: with envelope; None: as `bare`
    enveloped: Callable[[Any], Any] | None = None

    def wire(self, value: Any, envelope: bool) -> Any:
        """The JSON value."""
        if value is None:
            return None
        if value is LEFT_OUT:
            return _STAND_INS.get((self.schema["type"], self.schema.get("items", {}).get("type")), _STAND_IN)
        return (self.enveloped or self.bare)(value) if envelope else self.bare(value)


def base64_of(value: bytes) -> str:
    return base64.b64encode(value).decode()


def unscaled(value: decimal.Decimal, scale: int) -> bytes:
    """Java's `BigDecimal.unscaledValue().toByteArray()`: big-endian, two's complement, as few bytes as possible."""
    with decimal.localcontext(prec=200):
        number = int(value.scaleb(scale))
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _scale_of(value: decimal.Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _variable(value: decimal.Decimal) -> Json:
    scale = _scale_of(value)
    return {"scale": scale, "value": base64_of(unscaled(value, scale))}


def _micros(value: datetime.datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def _time_micros(value: datetime.time) -> int:
    return (datetime.datetime.combine(_EPOCH, value) - _EPOCH) // _MICROSECOND


def _zoned(value: datetime.datetime) -> str:
    return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def bits_of(text: str) -> bytes:
    """Debezium's bytes of a bit string: the last bits first."""
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little")


def _named(kind: str, name: str, **parameters: str) -> Json:
    return {"type": kind, "name": name, "version": 1} | ({"parameters": parameters} if parameters else {})


def _array(item: Json) -> Json:
    return {"type": "array", "items": {"optional": True, **item}}


SMALLINT = Type(sql="smallint", schema={"type": "int16"})
INT = Type(sql="int", schema={"type": "int32"})
BIGINT = Type(sql="bigint", schema={"type": "int64"})
TEXT = Type(sql="text", schema={"type": "string"})
BOOL = Type(sql="boolean", schema={"type": "boolean"})
REAL = Type(sql="real", schema={"type": "float"})
DOUBLE = Type(sql="double precision", schema={"type": "double"})
UUID = Type(sql="uuid", schema=_named("string", "io.debezium.data.Uuid"), bare=str)
JSONB = Type(sql="jsonb", schema=_named("string", "io.debezium.data.Json"), bare=json.dumps)
DATE = Type(
    sql="date",
    schema=_named("int32", "io.debezium.time.Date"),
    bare=lambda value: (value - _EPOCH.date()).days,
)
TIMESTAMP = Type(sql="timestamp", schema=_named("int64", "io.debezium.time.MicroTimestamp"), bare=_micros)
TIMESTAMP_MS = Type(
    sql="timestamp(3)", schema=_named("int64", "io.debezium.time.Timestamp"), bare=lambda value: _micros(value) // 1000
)
TIMESTAMPTZ = Type(sql="timestamptz", schema=_named("string", "io.debezium.time.ZonedTimestamp"), bare=_zoned)
TIME = Type(sql="time", schema=_named("int64", "io.debezium.time.MicroTime"), bare=_time_micros)
TIME_MS = Type(
    sql="time(3)", schema=_named("int32", "io.debezium.time.Time"), bare=lambda value: _time_micros(value) // 1000
)
INTERVAL = Type(
    sql="interval",
    schema=_named("int64", "io.debezium.time.MicroDuration"),
    bare=lambda value: value // _MICROSECOND,
)
BYTEA = Type(sql="bytea", schema={"type": "bytes"}, bare=base64_of)
NUMERIC = Type(
    sql="numeric",
    schema=_named("struct", "io.debezium.data.VariableScaleDecimal"),
    bare=str,
    enveloped=_variable,
)
INTS = Type(sql="int[]", schema=_array({"type": "int32"}))
TEXTS = Type(sql="text[]", schema=_array({"type": "string"}))
POINT = Type(
    sql="point",
    schema=_named("struct", "io.debezium.data.geometry.Point"),
    bare=lambda text: dict(zip("xy", json.loads(f"[{text.strip('()')}]"), strict=True)) | {"wkb": "AA==", "srid": None},
)


def numeric(precision: int, scale: int) -> Type:
    """numeric(precision, scale): base64 of the unscaled integer with envelope, text without."""
    return Type(
        sql=f"numeric({precision},{scale})",
        schema=_named("bytes", "org.apache.kafka.connect.data.Decimal", scale=str(scale)),
        bare=str,
        enveloped=lambda value: base64_of(unscaled(value, scale)),
    )


def bits(length: int) -> Type:
    """bit(n), n > 1."""
    return Type(
        sql=f"bit({length})",
        schema=_named("bytes", "io.debezium.data.Bits", length=str(length)),
        bare=lambda text: base64_of(bits_of(text)),
    )


BIT = Type(sql="bit(1)", schema={"type": "boolean"}, bare=lambda text: text == "1")


#: bytes from one record of the source's log to the next
LSN_STEP = 8


@dataclass(frozen=True)
class Table:
    """A table of the source, and of the target."""

    name: str
    columns: Mapping[str, Type]
    #: primary key
    key: tuple[str, ...] = ("id",)
    schema: str = "public"
    #: more DDL: `unique (...)`, `foreign key ...`
    constraints: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """As the oracle and `Target.rows` call it."""
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        """As SQL needs it."""
        return f'"{self.schema}"."{self.name}"'

    @property
    def ddl(self) -> str:
        """CREATE TABLE."""
        columns = [f'"{name}" {kind.sql}' for name, kind in self.columns.items()]
        key = ", ".join(f'"{name}"' for name in self.key)
        return f"create table {self.quoted} ({', '.join([*columns, f'primary key ({key})', *self.constraints])})"

    def key_of(self, row: Row) -> Key:
        """The row's primary key."""
        return tuple(row[name] for name in self.key)


@dataclass
class Debezium:
    """A source database with its connector: every method is one message (or, for a key change, several)."""

    envelope: bool = False
    lsn: int = 1_000_000
    ts_ms: int = FIRST_TS_MS
    #: lsn of the newest commit before the open transaction
    _commit_lsn: int = field(default=1_000_000, init=False)
    _txid: int = field(default=700, init=False)
    #: of the open transaction: how many changes each table has
    _changes: dict[str, int] | None = field(default=None, init=False)

    def create(self, table: Table, row: Row) -> Message:
        """op c"""
        return self._upsert("c", table, row)

    def read(self, table: Table, row: Row) -> Message:
        """op r: a row of the initial snapshot"""
        return self._upsert("r", table, row)

    def update(self, table: Table, row: Row, before: Row | None = None) -> Message:
        """op u, which leaves the key as it is; see `rekey`"""
        return self._upsert("u", table, row, before)

    def delete(self, table: Table, row: Row, *, keyed: bool = True) -> Message:
        """op d; `keyed` False: a table without message key, replica identity full"""
        gone = Change(table=table.full_name, key=table.key_of(row), row=None)
        before = row if not keyed else {name: row[name] if name in table.key else None for name in table.columns}
        return self._change("d", table, before, None, gone, keyed=keyed)

    def tombstone(self, table: Table, row: Row) -> Message:
        """What follows a delete, for Kafka's log compaction"""
        return Message(key=self.key(table, row), value=None)

    def rekey(self, table: Table, old: Row, new: Row) -> list[Message]:
        """An update of the primary key: d, tombstone, c; one record of the source's log"""
        gone, stone = self.delete(table, old), self.tombstone(table, old)
        self.lsn -= LSN_STEP
        headers = (("__debezium.newkey", self.key(table, new)),)
        return [replace(gone, headers=headers), stone, self.create(table, new)]

    def keyless(self, op: str, table: Table, row: Row) -> Message:
        """c or u of a table without message key"""
        change = Change(table=table.full_name, key=table.key_of(row), row=row)
        return self._change(op, table, None, row, change, keyed=False)

    def truncate(self, table: Table) -> Message:
        """op t"""
        return self._change("t", table, None, None, None, keyed=False)

    def begin(self) -> Message:
        """Transaction marker; the changes after it have its txid"""
        self._txid += 1
        self._commit_lsn, self._changes = self.lsn, {}
        return self._marker("BEGIN")

    def end(self) -> Message:
        """Transaction marker"""
        changes, self._changes = self._changes or {}, None
        parts = [{"data_collection": table, "event_count": count} for table, count in changes.items()]
        return self._marker("END", event_count=sum(changes.values()), data_collections=parts)

    def heartbeat(self) -> Message:
        """Sign of life of a connector with nothing to say"""
        return self._message(
            {"serverName": "shop"}, {"ts_ms": self.ts_ms}, name="io.debezium.connector.common.Heartbeat"
        )

    def logical(self, text: str = "hello") -> Message:
        """op m: pg_logical_emit_message"""
        body = {"prefix": "note", "content": base64_of(text.encode())}
        payload = {"op": "m", "ts_ms": self._tick(), "source": self._source("", ""), "message": body}
        return self._message({"prefix": "note"}, payload, name="io.debezium.connector.postgresql.MessageValue")

    def schema_change(self, table: Table) -> Message:
        """What Debezium writes to its schema change topic"""
        payload = {
            "source": self._source("", ""),
            "ts_ms": self._tick(),
            "databaseName": "shop",
            "schemaName": table.schema,
            "ddl": table.ddl,
            "tableChanges": [{"type": "CREATE", "id": table.full_name}],
        }
        return self._message(
            {"databaseName": "shop"}, payload, name="io.debezium.connector.postgresql.SchemaChangeValue"
        )

    def key(self, table: Table, row: Row) -> bytes:
        """Bytes of the message key."""
        payload = {name: table.columns[name].wire(row[name], self.envelope) for name in table.key}
        fields = [_field(name, table.columns[name], optional=False) for name in table.key]
        return self._bytes(payload, fields, f"cdc.{table.full_name}.Key")

    def _upsert(self, op: str, table: Table, row: Row, before: Row | None = None) -> Message:
        present = {name: value for name, value in row.items() if value is not LEFT_OUT}
        change = Change(table=table.full_name, key=table.key_of(row), row=present)
        return self._change(op, table, before, row, change)

    def _change(
        self, op: str, table: Table, before: Row | None, after: Row | None, change: Change | None, *, keyed: bool = True
    ) -> Message:
        payload = {
            "before": self._wire(table, before),
            "after": self._wire(table, after),
            "source": self._source(table.schema, table.name),
            "transaction": self._place(table),
            "op": op,
            "ts_ms": self._tick() + 3,
        }
        row_fields = [_field(name, kind, optional=name not in table.key) for name, kind in table.columns.items()]
        images = [
            {
                "type": "struct",
                "fields": row_fields,
                "optional": True,
                "name": f"{table.full_name}.Value",
                "field": image,
            }
            for image in ("before", "after")
        ]
        rest = [
            {"type": "struct", "fields": [], "field": "source"},
            {"type": "string", "optional": True, "field": "op"},
        ]
        value = self._bytes(payload, [*images, *rest], f"cdc.{table.full_name}.Envelope")
        key = self.key(table, after or before or {}) if keyed else None
        return Message(key=key, value=value, change=change)

    def _wire(self, table: Table, row: Row | None) -> Json | None:
        if row is None:
            return None
        return {name: kind.wire(row.get(name), self.envelope) for name, kind in table.columns.items()}

    def _source(self, schema: str, table: str) -> Json:
        self.lsn += LSN_STEP
        return {
            "version": "3.7.0.Final",
            "connector": "postgresql",
            "name": "cdc",
            "ts_ms": self._tick(),
            "snapshot": "false",
            "db": "shop",
            "sequence": json.dumps([str(self._commit_lsn), str(self.lsn)], separators=(",", ":")),
            "schema": schema,
            "table": table,
            "txId": self._txid,
            "lsn": self.lsn,
            "xmin": None,
        }

    def _place(self, table: Table) -> Json | None:
        """In the open transaction; a change outside of one is of none."""
        if self._changes is None:
            return None
        self._changes[table.full_name] = self._changes.get(table.full_name, 0) + 1
        return {"id": f"{self._txid}:{self.lsn}", "total_order": sum(self._changes.values())}

    def _marker(self, status: str, **more: Any) -> Message:
        number = f"{self._txid}:{self.lsn}"
        payload = {"status": status, "id": number, "event_count": None, "data_collections": None, **more}
        name = "io.debezium.connector.common.TransactionMetadataValue"
        return self._message({"id": number}, {**payload, "ts_ms": self._tick()}, name=name)

    def _tick(self) -> int:
        self.ts_ms += 1
        return self.ts_ms

    def _message(self, key: Json, payload: Json, *, name: str) -> Message:
        fields = [{"type": "string", "optional": True, "field": field} for field in payload]
        return Message(key=self._bytes(key, [], f"{name}Key"), value=self._bytes(payload, fields, name))

    def _bytes(self, payload: Json, fields: list[Json], name: str) -> bytes:
        schema = {"type": "struct", "fields": fields, "optional": False, "name": name}
        whole = {"schema": schema, "payload": payload} if self.envelope else payload
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()


def _field(name: str, kind: Type, *, optional: bool) -> Json:
    return {**kind.schema, "optional": optional, "field": name}
