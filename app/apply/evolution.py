"""DDL for what the target lacks for a message: missing columns, and columns too narrow for the source's type.

The source's types follow from the Connect schema in the message (Debezium documentation, "PostgreSQL connector", data
type mappings), exactly with `column.propagate.source.type` in the connector.
"""

import re
from collections.abc import Mapping
from typing import Any

from app.apply.target_tables import Column, TargetTable
from app.db.sql import quoted

Field = Mapping[str, Any]

_BY_NAME = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "timestamp(3)",
    "org.apache.kafka.connect.data.Timestamp": "timestamp(3)",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.NanoTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamptz",
    "io.debezium.time.Time": "time(3)",
    "org.apache.kafka.connect.data.Time": "time(3)",
    "io.debezium.time.MicroTime": "time",
    "io.debezium.time.NanoTime": "time",
    "io.debezium.time.ZonedTime": "timetz",
    "io.debezium.time.MicroDuration": "interval",
    "io.debezium.time.Interval": "interval",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.IsoTime": "time",
    "io.debezium.time.IsoTimestamp": "timestamp",
    "io.debezium.time.StructuredDate": "date",
    "io.debezium.time.StructuredTime": "time",
    "io.debezium.time.StructuredTimestamp": "timestamp",
    "io.debezium.time.StructuredZonedTime": "timetz",
    "io.debezium.time.StructuredZonedTimestamp": "timestamptz",
    "io.debezium.time.StructuredDuration": "interval",
    "io.debezium.data.Json": "jsonb",
    "io.debezium.data.TsVector": "tsvector",
    "io.debezium.data.Xml": "xml",
    "io.debezium.data.Uuid": "uuid",
    "io.debezium.data.Ltree": "ltree",
    "io.debezium.data.VariableScaleDecimal": "numeric",
    "io.debezium.data.geometry.Point": "point",
    "io.debezium.data.geometry.Line": "line",
    "io.debezium.data.geometry.Circle": "circle",
}
_BY_TYPE = {
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "string": "text",
    "bytes": "bytea",
}
#: schema parameters that `column.propagate.source.type` adds
_SOURCE_TYPE, _SOURCE_LENGTH, _SOURCE_SCALE = (
    f"__debezium.source.column.{part}" for part in ("type", "length", "scale")
)
_WITH_LENGTH = frozenset({"VARCHAR", "BPCHAR", "CHAR", "BIT", "VARBIT"})
#: types that a snapshot may give a column with a sequence
_SERIALS = {"SMALLSERIAL": "INT2", "SERIAL": "INT4", "BIGSERIAL": "INT8"}
#: maximum precision of a numeric; one with a larger number has none
_MOST_DIGITS = 1000
#: the text comes from a message: only a type gets into DDL. One word, or words that belong together: anything behind
#: a type would be a default or a constraint
_IS_TYPE = re.compile(
    r"([a-z_][a-z0-9_]*|double precision|(bit|character) varying|(time|timestamp) with(out)? time zone)"
    r"(\(\d+(,-?\d+)?\))?(\[\])?"
)
#: Connect type -> types of the target that do not hold all of its values
_TOO_NARROW = {
    "int64": frozenset({"integer", "smallint"}),
    "int32": frozenset({"smallint"}),
    "double": frozenset({"real"}),
}


def type_of(field: Field) -> str | None:
    """The Postgres type for a column with this Connect schema; None when the schema does not determine it."""
    found = _type_of(field)
    return found if found is not None and _IS_TYPE.fullmatch(found) else None


def _type_of(field: Field) -> str | None:
    parameters = field.get("parameters") or {}
    if (source := parameters.get(_SOURCE_TYPE)) is not None:
        return _as_the_source(str(source), parameters)
    name = field.get("name")
    if name == "org.apache.kafka.connect.data.Decimal":
        precision = parameters.get("connect.decimal.precision")
        return f"numeric({precision},{parameters['scale']})" if precision else "numeric"
    if name == "io.debezium.data.Bits":
        return f"bit varying({parameters['length']})" if "length" in parameters else "bit varying"
    if name in _BY_NAME:
        return _BY_NAME[name]
    if field.get("type") == "array":
        item = _type_of(field.get("items") or {})
        return item and f"{item}[]"
    return _BY_TYPE.get(str(field.get("type")))


def add_columns(target: TargetTable, missing: Mapping[str, str | None]) -> str:
    """ALTER TABLE that adds these columns; `...` for an unknown type."""
    added = ", ".join(f"add column if not exists {quoted(name)} {kind or '...'}" for name, kind in missing.items())
    return f"alter table {target.quoted_name} {added}"


def widen(target: TargetTable, described: Mapping[str, Field | None]) -> str | None:
    """ALTER TABLE for columns that do not hold every value of the source's, None when all of them do.

    `described`: Connect schema of columns by the target's name.
    """
    columns = {
        name: str(type_of(field))
        for name, field in described.items()
        if field is not None and (column := target.by_name.get(name)) is not None and _is_too_narrow(column, field)
    }
    if not columns:
        return None
    changed = ", ".join(f"alter column {quoted(name)} type {kind}" for name, kind in columns.items())
    return f"alter table {target.quoted_name} {changed}"


def _is_too_narrow(column: Column, field: Field) -> bool:
    """Plain numbers only: a number with a schema name has another meaning."""
    return field.get("name") is None and column.base in _TOO_NARROW.get(str(field.get("type")), ())


def _as_the_source(source: str, parameters: Mapping[str, str]) -> str:
    """The source's type: `_INT4` is an array of INT4; a length is that of a text, or a number's precision."""
    name, brackets = (source[1:], "[]") if source.startswith("_") else (source, "")
    length, scale = parameters.get(_SOURCE_LENGTH), parameters.get(_SOURCE_SCALE)
    name = _SERIALS.get(name, name)
    if name == "NUMERIC" and _number(length) in range(1, _MOST_DIGITS + 1) and scale is not None:
        return f"numeric({length},{scale}){brackets}"
    if name in _WITH_LENGTH and 0 < _number(length) < 2**31 - 1:
        return f"{name.lower()}({length}){brackets}"
    return f"{name.lower()}{brackets}"


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
