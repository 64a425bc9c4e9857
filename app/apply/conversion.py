"""The SQL that turns a staged text into the target's value, for each wire form.

A text of another form is refused with an error of SQLSTATE class 22 (bad data), so that the guard finds the message; it
never becomes a silent NULL.
"""

from app.apply.encoding import Encoding, Wire
from app.apply.target_tables import Column
from app.db.sql import literal


def staged_type(column: Column, encoding: Encoding) -> str:
    """Type of the column in the staging table."""
    return column.type if encoding.wire is Wire.TEXT else "text"


#: integers only: ISO text goes to the type's own input
_IS_NUMBER = r"~ '^-?[0-9]+$'"
_DAY_MICROS = 86_400_000_000

#: {c}: the staged column; {type}: the target's type; {day}: units in a day; {least}, {most}: how infinities are sent
_DAYS = (
    "case when {c} in ({most}) then date 'infinity' when {c} in ({least}) then date '-infinity'"
    " when {c} " + _IS_NUMBER + " then date '1970-01-01' + {c}::int else {c}::date end"
)
_INSTANT = (
    "case {c} when {most} then timestamp 'infinity' when {least} then timestamp '-infinity' else"
    " case when {c} " + _IS_NUMBER + " then timestamp '1970-01-01' + ({c}::int8 / {day})::int * interval '1 day'"
    " + ({c}::int8 % {day} * {to_micros}) * interval '1 microsecond' else {c}::timestamp end end"
)
_TIME = (
    "case when {c} " + _IS_NUMBER + " then case when {c}::numeric = {day} then time '24:00' else"
    " time '00:00' + ({c}::numeric * {to_micros}) * interval '1 microsecond' end else {c}::time end"
)
#: years 1000 to 9999 have Postgres' own form; other years and Debezium's infinities do not
_ISO = "case when ascii({c}) between 49 and 57 then {c}::{type} else {schema}.iso_of({c})::{type} end"
#: refuses a result that is NULL
_MADE = "{schema}.made({expression}, {c})"
_BYTES = {
    Wire.BASE64: "decode({c}, 'base64')",
    Wire.BASE64_URL: "decode(translate({c}, '-_', '+/'), 'base64')",
    Wire.HEX: "decode({c}, 'hex')",
}
_SQL = {
    Wire.TEXT: "{c}",
    Wire.ISO: _ISO,
    Wire.STRUCTURED: "{schema}.temporal_of({c})::{type}",
    Wire.INTERVAL_MICROS: "case when {c} "
    + _IS_NUMBER
    + " then {c}::numeric * interval '1 microsecond' else {c}::interval end",
    Wire.DECIMAL: "{schema}.decimal_of(decode({c}, 'base64'), {scale})",
    Wire.NUMERIC: "case {c} when 'POSITIVE_INFINITY' then 'Infinity' when 'NEGATIVE_INFINITY' then '-Infinity'"
    " else {c}::numeric end",
    Wire.MONEY: "{c}::numeric::money",
    Wire.BITS: "{schema}.bits_of({c}, {bits})::{type}",
    Wire.HSTORE: "{schema}.hstore_of({c})::{type}",
}
#: forms whose members may be missing
_STRUCTS = {
    Wire.VARIABLE_DECIMAL: "{schema}.decimal_of(decode({c}::json->>'value', 'base64'), ({c}::json->>'scale')::int)",
    Wire.POINT: "point(({c}::json->>'x')::float8, ({c}::json->>'y')::float8)",
    Wire.LINE: "('{{' || ({c}::json->>'a') || ',' || ({c}::json->>'b') || ',' || ({c}::json->>'c') || '}}')::line",
    Wire.CIRCLE: "circle(point(({c}::json->'center'->>'x')::float8, ({c}::json->'center'->>'y')::float8),"
    " ({c}::json->>'radius')::float8)",
    Wire.GEOMETRY: "{schema}.geometry_of({c}, {base})::{type}",
}
_INSTANTS = {
    Wire.MILLIS: (_DAY_MICROS // 1000, "1000", -9223372036832400000, 9223372036825200000),
    Wire.MICROS: (_DAY_MICROS, "1", -(2**63), 2**63 - 1),
    Wire.NANOS: (_DAY_MICROS * 1000, "0.001", -(2**63), 2**63 - 1),
}
_TIMES = {
    Wire.TIME_MILLIS: (_DAY_MICROS // 1000, "1000"),
    Wire.TIME_MICROS: (_DAY_MICROS, "1"),
    Wire.TIME_NANOS: (_DAY_MICROS * 1000, "0.001"),
}
_ZONED, _LOCAL = "timestamp with time zone", "timestamp without time zone"
#: of a column that has points in time: microseconds of the number that is sent, 0 for ISO text
_UNITS = {(_ZONED, Wire.ISO): 0, (_LOCAL, Wire.MICROS): 1, (_LOCAL, Wire.MILLIS): 1000}
#: infinities after the snapshot, and in it
_DAYS_LEAST, _DAYS_MOST = "'-2147472691', '-625821272'", "'2146033979', '-622191234'"


def instant_unit(column: Column, encoding: Encoding) -> int | None:
    """For a column of points in time: microseconds of the number that is sent, 0 for ISO text; else None."""
    return _UNITS.get((column.base, encoding.wire))


def instant_sql(column: Column, micros: str) -> str:
    """SQL expression of type `column.type` over a column with microseconds since 1970 (already quoted), not NULL: below
    2^53, since an interval is multiplied by a floating-point number."""
    epoch = "timestamptz '1970-01-01 00:00:00+00'" if column.base == _ZONED else "timestamp '1970-01-01'"
    return f"({epoch} + {micros} * interval '1 microsecond')::{column.type}"


def value_sql(column: Column, encoding: Encoding, quoted: str, schema: str) -> str:
    """SQL expression of type `column.type` over the staged column `quoted` (already quoted, as is `schema`)."""
    wire = encoding.wire
    if wire in _INSTANTS:
        day, to_micros, least, most = _INSTANTS[wire]
        return _INSTANT.format(c=quoted, day=day, to_micros=to_micros, least=f"'{least}'", most=f"'{most}'")
    if wire in _TIMES:
        day, to_micros = _TIMES[wire]
        return _TIME.format(c=quoted, day=day, to_micros=to_micros)
    if wire is Wire.DAYS:
        return _DAYS.format(c=quoted, least=_DAYS_LEAST, most=_DAYS_MOST)
    if wire is Wire.JSON_ARRAY:
        return _array_sql(column, encoding, quoted, schema)
    if wire in _BYTES:
        return _bytes_sql(column, wire, quoted)
    words = {"c": quoted, "type": column.type, "schema": schema, "scale": encoding.scale}
    words |= {"bits": column.typmod if column.base == "bit" else -1, "base": literal(column.base)}
    if wire in _STRUCTS:
        return _MADE.format(expression=_STRUCTS[wire].format(**words), **words)
    return _SQL[wire].format(**words)


def _bytes_sql(column: Column, wire: Wire, quoted: str) -> str:
    """Bytes; for a type that Debezium does not know, the text whose bytes it sends."""
    content = _BYTES[wire].format(c=quoted)
    return content if column.base == "bytea" else f"convert_from({content}, 'UTF8')::{column.type}"


def _array_sql(column: Column, encoding: Encoding, quoted: str, schema: str) -> str:
    item = encoding.item
    element = "e" if item is None or item.wire is Wire.TEXT else value_sql(column.element, item, "e", schema)
    return (
        f"case when {quoted} is null then null else (select coalesce(array_agg({element} order by n), '{{}}') from"  # noqa: S608
        f" json_array_elements_text({quoted}::json) with ordinality as j(e, n))::{column.type} end"
    )
