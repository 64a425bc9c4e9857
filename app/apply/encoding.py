"""What the text of a decoded column means.

Most columns arrive in a form that Postgres reads itself (`TEXT`): they are staged in the column's own type, and COPY
converts them. The others are staged as text and converted in the merge (`app.apply.conversion`). The encoding of a
column follows from the message's schema, or, without one, from the target's type and the connector's modes
(`source.modes`). docs/TYPES.md has every type in every mode.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.apply.target_tables import Column
from app.config.modes import DEFAULT_MODES, BinaryMode, DecimalMode, IntervalMode, Modes, TimePrecision


class Wire(enum.StrEnum):
    """How Debezium writes a value."""

    TEXT = "text"  #: in Postgres' own text form
    DAYS = "days"  #: since 1970-01-01, or an ISO date
    MILLIS = "millis"  #: since 1970-01-01 00:00
    MICROS = "micros"
    NANOS = "nanos"
    TIME_MILLIS = "time-millis"  #: since midnight
    TIME_MICROS = "time-micros"
    TIME_NANOS = "time-nanos"
    ISO = "iso"  #: ISO date or timestamp; years before 1 and after 9999 have a sign
    STRUCTURED = "structured"  #: {"year": int, "month": int, ...}, and the like of times and intervals
    INTERVAL_MICROS = "interval-micros"  #: months as 30.4375 days: Debezium's own rounding
    BASE64 = "base64"  #: bytes; of its text where the type is not bytea
    BASE64_URL = "base64-url"
    HEX = "hex"
    DECIMAL = "decimal"  #: base64 of the unscaled integer, big-endian, two's complement; `scale` digits
    VARIABLE_DECIMAL = "variable-decimal"  #: {"scale": int, "value": base64}
    NUMERIC = "numeric"  #: text, with Debezium's names for infinities
    MONEY = "money"  #: a number; money's input does not take every form of it
    BITS = "bits"  #: base64, little-endian, without the leading zeros; bit(1): a boolean
    JSON_ARRAY = "json-array"  #: of values in the encoding `item`
    HSTORE = "hstore"  #: {"key": "value" or null}
    POINT = "point"  #: {"x": float, "y": float, ...}
    LINE = "line"  #: {"a": float, "b": float, "c": float}
    CIRCLE = "circle"  #: {"center": point, "radius": float}
    GEOMETRY = "geometry"  #: {"wkb": base64, ...}


@dataclass(frozen=True)
class Encoding:
    """A wire form with its parameters."""

    wire: Wire
    #: digits after the point, for DECIMAL only
    scale: int = 0
    #: encoding of an array's elements, for JSON_ARRAY only
    item: "Encoding | None" = None


class EncodingUnknown(Exception):
    """The message's schema does not determine the encoding, and the configuration contradicts it."""


TEXT = Encoding(Wire.TEXT)

_BY_SEMANTIC_NAME = {
    "io.debezium.time.Date": Wire.DAYS,
    "org.apache.kafka.connect.data.Date": Wire.DAYS,
    "io.debezium.time.Timestamp": Wire.MILLIS,
    "org.apache.kafka.connect.data.Timestamp": Wire.MILLIS,
    "io.debezium.time.MicroTimestamp": Wire.MICROS,
    "io.debezium.time.NanoTimestamp": Wire.NANOS,
    "io.debezium.time.Time": Wire.TIME_MILLIS,
    "org.apache.kafka.connect.data.Time": Wire.TIME_MILLIS,
    "io.debezium.time.MicroTime": Wire.TIME_MICROS,
    "io.debezium.time.NanoTime": Wire.TIME_NANOS,
    "io.debezium.time.IsoDate": Wire.ISO,
    "io.debezium.time.IsoTimestamp": Wire.ISO,
    "io.debezium.time.ZonedTimestamp": Wire.ISO,
    **{f"io.debezium.time.Structured{what}": Wire.STRUCTURED for what in ("Date", "Time", "Timestamp", "ZonedTime")},
    **{f"io.debezium.time.Structured{what}": Wire.STRUCTURED for what in ("ZonedTimestamp", "Duration")},
    "io.debezium.time.MicroDuration": Wire.INTERVAL_MICROS,
    "io.debezium.data.Bits": Wire.BITS,
    "io.debezium.data.VariableScaleDecimal": Wire.VARIABLE_DECIMAL,
    "io.debezium.data.geometry.Point": Wire.POINT,
    "io.debezium.data.geometry.Line": Wire.LINE,
    "io.debezium.data.geometry.Circle": Wire.CIRCLE,
    "io.debezium.data.DoubleVector": Wire.TEXT,
    "io.debezium.data.FloatVector": Wire.TEXT,
}

_BIT_STRINGS = ("bit", "bit varying")
_SHAPES = ("box", "lseg", "path", "polygon")
_BINARY = {
    BinaryMode.BYTES: Wire.BASE64,
    BinaryMode.BASE64: Wire.BASE64,
    BinaryMode.BASE64_URL_SAFE: Wire.BASE64_URL,
    BinaryMode.HEX: Wire.HEX,
}
_TIMESTAMPS = {
    TimePrecision.CONNECT: Wire.MILLIS,
    TimePrecision.MICROSECONDS: Wire.MICROS,
    TimePrecision.NANOSECONDS: Wire.NANOS,
    TimePrecision.ISOSTRING: Wire.ISO,
    TimePrecision.STRUCTURED: Wire.STRUCTURED,
}
_TIMES = {
    TimePrecision.ADAPTIVE_TIME_MICROSECONDS: Wire.TIME_MICROS,
    TimePrecision.CONNECT: Wire.TIME_MILLIS,
    TimePrecision.MICROSECONDS: Wire.TIME_MICROS,
    TimePrecision.NANOSECONDS: Wire.TIME_NANOS,
    TimePrecision.ISOSTRING: Wire.TEXT,
    TimePrecision.STRUCTURED: Wire.STRUCTURED,
}
#: types that Debezium has no converter for: with `include.unknown.datatypes` it sends the bytes of the text
_OPAQUE = frozenset(
    {
        *("cid", "cube", "jsonpath", "pg_lsn", "pg_snapshot", "seg", "tid", "tsquery", "txid_snapshot", "xid", "xid8"),
        *("regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator"),
        *("regproc", "regprocedure", "regrole", "regtype"),
    }
)
#: pg_type.typtype of composites and multiranges: the same
_OPAQUE_KINDS = ("c", "m")

#: 3 digits of a second or fewer: Debezium's adaptive mode writes milliseconds
_ADAPTIVE_MILLIS_DIGITS = 3
#: digits after the point: the default of `money.fraction.digits`
_MONEY_SCALE = 2


def from_schema(field: Mapping[str, Any]) -> Encoding:
    """Encoding of a field of the Connect schema (`{"type": ..., "name": ..., "parameters": ...}`)."""
    name = field.get("name")
    if name == "org.apache.kafka.connect.data.Decimal":
        return Encoding(Wire.DECIMAL, int(field["parameters"]["scale"]))
    if name in _BY_SEMANTIC_NAME:
        return Encoding(_BY_SEMANTIC_NAME[name])
    if field.get("type") == "array":
        return Encoding(Wire.JSON_ARRAY, item=from_schema(field.get("items") or {}))
    return Encoding(Wire.BASE64) if field.get("type") == "bytes" else TEXT


def from_target(column: Column, modes: Modes = DEFAULT_MODES) -> Encoding:
    """Encoding of a column in a message without schema, by the target's type and the connector's modes."""
    if column.is_array:
        return Encoding(Wire.JSON_ARRAY, item=from_target(column.element, modes))
    if column.base in ("numeric", "money"):
        return _number(column, modes)
    structured = modes.time_precision is TimePrecision.STRUCTURED
    wires = {
        "date": _date(modes),
        "timestamp without time zone": _TIMESTAMPS.get(modes.time_precision, _adaptive(column)),
        "time without time zone": _TIMES.get(modes.time_precision, _adaptive_time(column)),
        "timestamp with time zone": Wire.STRUCTURED if structured else Wire.ISO,
        "time with time zone": Wire.STRUCTURED if structured else Wire.TEXT,
        "interval": Wire.STRUCTURED if structured else _interval(modes),
        "bytea": _BINARY[modes.binary],
        **dict.fromkeys(_BIT_STRINGS, Wire.BITS),
        **dict.fromkeys(_SHAPES, Wire.GEOMETRY),
        "point": Wire.POINT,
        "line": Wire.LINE,
        "circle": Wire.CIRCLE,
        "hstore": Wire.HSTORE,
        **dict.fromkeys(_OPAQUE, _BINARY[modes.binary]),
    }
    other = _BINARY[modes.binary] if column.kind in _OPAQUE_KINDS else Wire.TEXT
    return Encoding(wires.get(column.simple_base, other))


def encoding_of(column: Column, field: Mapping[str, Any] | None, modes: Modes = DEFAULT_MODES) -> Encoding:
    """Encoding of a column by its field of the message's schema, if there is one.

    The target's type decides what the schema leaves open: a boolean may have been a bit(1), a string bytes or money.
    Raises EncodingUnknown where the modes contradict the schema.
    """
    if field is None or (field.get("type") == "boolean" and column.base in _BIT_STRINGS):
        return from_target(column, modes)
    found = from_schema(field)
    if found.wire is Wire.JSON_ARRAY and column.is_array:
        return Encoding(Wire.JSON_ARRAY, item=encoding_of(column.element, field.get("items") or {}, modes))
    if found == TEXT and field.get("name") != "io.debezium.data.Enum":
        return _unspecified(column, field, modes)
    return found


def _unspecified(column: Column, field: Mapping[str, Any], modes: Modes) -> Encoding:
    """Encoding where the schema has the type of the JSON value only."""
    bare = field.get("name") is None
    if column.base in ("numeric", "money"):
        return _number_text(column)
    if column.simple_base == "hstore" and (field.get("type") == "map" or field.get("name") == "io.debezium.data.Json"):
        return Encoding(Wire.HSTORE)
    if column.base in _SHAPES and field.get("name") == "io.debezium.data.geometry.Geometry":
        return Encoding(Wire.GEOMETRY)
    if not (bare and field.get("type") == "string" and (column.base == "bytea" or _is_opaque(column))):
        return TEXT
    if modes.binary is not BinaryMode.BYTES:
        return Encoding(_BINARY[modes.binary])
    if column.base == "bytea":
        raise EncodingUnknown(f"the schema calls {column.name} a string, and nothing says what text its bytes became")
    return TEXT


def _is_opaque(column: Column) -> bool:
    return column.kind in _OPAQUE_KINDS or column.simple_base in _OPAQUE


def _number_text(column: Column) -> Encoding:
    """A numeric with a precision has no infinities."""
    if column.base == "money":
        return Encoding(Wire.MONEY)
    return Encoding(Wire.NUMERIC) if column.scale is None else TEXT


def _number(column: Column, modes: Modes) -> Encoding:
    if modes.decimal is not DecimalMode.PRECISE:
        return _number_text(column)
    if column.base == "money":
        return Encoding(Wire.DECIMAL, _MONEY_SCALE)
    return Encoding(Wire.VARIABLE_DECIMAL) if column.scale is None else Encoding(Wire.DECIMAL, column.scale)


def _date(modes: Modes) -> Wire:
    by_mode = {TimePrecision.ISOSTRING: Wire.ISO, TimePrecision.STRUCTURED: Wire.STRUCTURED}
    return by_mode.get(modes.time_precision, Wire.DAYS)


def _interval(modes: Modes) -> Wire:
    return Wire.TEXT if modes.interval is IntervalMode.STRING else Wire.INTERVAL_MICROS


def _adaptive(column: Column) -> Wire:
    return Wire.MILLIS if 0 <= column.typmod <= _ADAPTIVE_MILLIS_DIGITS else Wire.MICROS


def _adaptive_time(column: Column) -> Wire:
    return Wire.TIME_MILLIS if 0 <= column.typmod <= _ADAPTIVE_MILLIS_DIGITS else Wire.TIME_MICROS
