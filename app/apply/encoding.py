"""What the text of a decoded column means, and the SQL that makes the target's value of it.

Most columns arrive in a form that Postgres reads itself (`TEXT`): they are staged in the column's own type, and COPY
converts them. The others are staged as text and converted in the merge. Which encoding a column has follows from the
message's schema, or, without one, from the target's type and Debezium's defaults (Debezium documentation, "PostgreSQL
connector", data type mappings).
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.apply.target import Column


class Wire(enum.StrEnum):
    """How Debezium wrote a value."""

    TEXT = "text"  #: in Postgres' own text form
    DAYS = "days"  #: since 1970-01-01, or an ISO date
    MILLIS = "millis"  #: since 1970-01-01 00:00
    MICROS = "micros"
    NANOS = "nanos"
    TIME_MILLIS = "time-millis"  #: since midnight
    TIME_MICROS = "time-micros"
    TIME_NANOS = "time-nanos"
    INTERVAL_MICROS = "interval-micros"  #: months as 30.4375 days: Debezium's own rounding
    BASE64 = "base64"  #: bytes
    DECIMAL = "decimal"  #: base64 of the unscaled integer, big-endian, two's complement; `scale` digits
    VARIABLE_DECIMAL = "variable-decimal"  #: {"scale": int, "value": base64}
    BITS = "bits"  #: base64, little-endian, padded to whole bytes
    JSON_ARRAY = "json-array"  #: of values in text form
    POINT = "point"  #: {"x": float, "y": float, ...}


@dataclass(frozen=True)
class Encoding:
    """A wire form with its parameter."""

    wire: Wire
    #: digits after the point, for DECIMAL only
    scale: int = 0


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
    "io.debezium.time.MicroDuration": Wire.INTERVAL_MICROS,
    "io.debezium.data.Bits": Wire.BITS,
    "io.debezium.data.VariableScaleDecimal": Wire.VARIABLE_DECIMAL,
    "io.debezium.data.geometry.Point": Wire.POINT,
}

_BIT_STRINGS = ("bit", "bit varying")

#: 3 digits of a second or fewer: Debezium's adaptive mode writes milliseconds
_ADAPTIVE_MILLIS_DIGITS = 3


def from_schema(field: Mapping[str, Any]) -> Encoding:
    """Encoding of a field of the Connect schema (`{"type": ..., "name": ..., "parameters": ...}`)."""
    name = field.get("name")
    if name == "org.apache.kafka.connect.data.Decimal":
        return Encoding(Wire.DECIMAL, int(field["parameters"]["scale"]))
    if name in _BY_SEMANTIC_NAME:
        return Encoding(_BY_SEMANTIC_NAME[name])
    by_type = {"bytes": Wire.BASE64, "array": Wire.JSON_ARRAY}
    return Encoding(by_type.get(str(field.get("type")), Wire.TEXT))


def from_target(column: Column) -> Encoding:
    """Encoding of a column in a message without schema, by the target's type."""
    if column.is_array:
        return Encoding(Wire.JSON_ARRAY)
    digits_are_millis = 0 <= column.typmod <= _ADAPTIVE_MILLIS_DIGITS
    by_base = {
        "date": Wire.DAYS,
        "timestamp without time zone": Wire.MILLIS if digits_are_millis else Wire.MICROS,
        "time without time zone": Wire.TIME_MILLIS if digits_are_millis else Wire.TIME_MICROS,
        "interval": Wire.INTERVAL_MICROS,
        "bytea": Wire.BASE64,
        **dict.fromkeys(_BIT_STRINGS, Wire.BITS),
        "point": Wire.POINT,
    }
    return Encoding(by_base.get(column.base, Wire.TEXT))


def encoding_of(column: Column, field: Mapping[str, Any] | None) -> Encoding:
    """Encoding of a column by its field of the message's schema, if there is one.

    A schema that says boolean does not say that the source's type was bit(1); the target's does.
    """
    if field is None or (field.get("type") == "boolean" and column.base in _BIT_STRINGS):
        return from_target(column)
    return from_schema(field)


def staged_type(column: Column, encoding: Encoding) -> str:
    """Type of the column in the staging table."""
    return column.type if encoding.wire is Wire.TEXT else "text"


#: integers only: ISO text (`time.precision.mode=isostring`) goes to the type's own input
_IS_NUMBER = r"~ '^-?[0-9]+$'"
_DAY_MICROS = 86_400_000_000

#: {c}: the staged column; {type}: the target's type; {unit}: units a day; {scale}
_DAYS = "case when {c} " + _IS_NUMBER + " then date '1970-01-01' + {c}::int else {c}::date end"
_INSTANT = (
    "case when {c} " + _IS_NUMBER + " then timestamp '1970-01-01' + floor({c}::numeric / {day})::int * interval '1 day'"
    " + (mod(mod({c}::numeric, {day}) + {day}, {day}) * {to_micros}) * interval '1 microsecond' else {c}::timestamp end"
)
_TIME = (
    "case when {c} " + _IS_NUMBER + " then case when {c}::numeric = {day} then time '24:00' else"
    " time '00:00' + ({c}::numeric * {to_micros}) * interval '1 microsecond' end else {c}::time end"
)
_SQL = {
    Wire.TEXT: "{c}",
    Wire.DAYS: _DAYS,
    Wire.INTERVAL_MICROS: "case when {c} "
    + _IS_NUMBER
    + " then {c}::numeric * interval '1 microsecond' else {c}::interval end",
    Wire.BASE64: "decode({c}, 'base64')",
    Wire.DECIMAL: "{schema}.decimal_of(decode({c}, 'base64'), {scale})",
    Wire.VARIABLE_DECIMAL: "{schema}.decimal_of(decode({c}::jsonb->>'value', 'base64'), ({c}::jsonb->>'scale')::int)",
    Wire.BITS: "{schema}.bits_of({c}, {bits})::{type}",
    Wire.JSON_ARRAY: "(select coalesce(array_agg(e order by n), '{{}}') from"
    " jsonb_array_elements_text({c}::jsonb) with ordinality as j(e, n))::{type}",
    Wire.POINT: "point(({c}::jsonb->>'x')::float8, ({c}::jsonb->>'y')::float8)",
}
_PER_DAY = {
    Wire.MILLIS: (_DAY_MICROS // 1000, "1000"),
    Wire.MICROS: (_DAY_MICROS, "1"),
    Wire.NANOS: (_DAY_MICROS * 1000, "0.001"),
    Wire.TIME_MILLIS: (_DAY_MICROS // 1000, "1000"),
    Wire.TIME_MICROS: (_DAY_MICROS, "1"),
    Wire.TIME_NANOS: (_DAY_MICROS * 1000, "0.001"),
}


def value_sql(column: Column, encoding: Encoding, quoted: str, schema: str) -> str:
    """SQL expression of type `column.type` over the staged column `quoted` (already quoted, as is `schema`)."""
    wire = encoding.wire
    if wire in _PER_DAY:
        day, to_micros = _PER_DAY[wire]
        template = _TIME if wire in (Wire.TIME_MILLIS, Wire.TIME_MICROS, Wire.TIME_NANOS) else _INSTANT
        return template.format(c=quoted, day=day, to_micros=to_micros)
    bits = column.typmod if column.base == "bit" else -1
    expression = _SQL[wire].format(c=quoted, type=column.type, scale=encoding.scale, schema=schema, bits=bits)
    if wire is Wire.JSON_ARRAY:
        return f"case when {quoted} is null then null else {expression} end"
    return expression
