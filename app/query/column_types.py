"""Values of Debezium's messages as columns of Spark, by the type of the target's column and the connector's modes.

The text of a value in the message is cast in ANSI mode: a text that is not of the type fails, and the message with it.
"""

from dataclasses import dataclass

from app.apply.target_tables import Column
from app.config.modes import BinaryMode, DecimalMode, Modes, TimePrecision

#: of a numeric without precision, and of one with a larger precision than Spark has
_WIDE = (38, 18)
_MOST_DIGITS = 38
_PLAIN = {
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "oid": "bigint",
    "boolean": "boolean",
    "real": "float",
    "double precision": "double",
}
#: units of an integer of time in a microsecond: {c} divided or multiplied
_MICROS = {
    "millis": "cast({c} as bigint) * 1000",
    "micros": "cast({c} as bigint)",
    "nanos": "cast({c} as bigint) div 1000",
}
_INTEGER = r"'^-?[0-9]+$'"
_ISO = "trim(trailing 'Z' from {c})"
#: the integer of a base64 text of big-endian bytes, at most 16 of them
_HEX = "hex(unbase64({c}))"
_PADDED = "lpad({hex}, 32, if(substr({hex}, 1, 1) >= '8', 'F', '0'))"
_UNSCALED = (
    "(cast(conv(substr({padded}, 1, 16), 16, -10) as decimal(20,0)) * cast('18446744073709551616' as decimal(20,0))"
    " + cast(conv(substr({padded}, 17, 16), 16, 10) as decimal(20,0)))"
)


@dataclass(frozen=True)
class TypedColumn:
    """One column of a view: SQL over the text of the value, in which `{c}` is that text."""

    name: str
    #: field of the message
    field: str
    type: str
    sql: str


def typed(column: Column, field: str, modes: Modes) -> TypedColumn:
    """The column of a view for a column of the target's table. `field`: its name in the message."""
    kind, sql = _conversion(column, modes)
    return TypedColumn(column.name, field, kind, sql)


def _conversion(column: Column, modes: Modes) -> tuple[str, str]:
    """Spark's type, and the SQL."""
    base = column.simple_base
    if column.is_array or column.kind != "b":
        return "string", "{c}"
    if base in _PLAIN:
        return _PLAIN[base], f"cast({{c}} as {_PLAIN[base]})"
    if base in ("numeric", "money"):
        return _decimal(column, modes)
    if base == "date":
        number = "date_from_unix_date(cast({c} as int))"
        return "date", f"if({{c}} rlike {_INTEGER}, {number}, cast({_ISO} as date))"
    if base == "timestamp without time zone":
        micros = _MICROS[_unit(column, modes)]
        number = f"cast(timestamp_micros({micros}) as timestamp_ntz)"
        return "timestamp_ntz", f"if({{c}} rlike {_INTEGER}, {number}, cast({_ISO} as timestamp_ntz))"
    if base == "timestamp with time zone":
        return "timestamp", "cast({c} as timestamp)"
    if base == "bytea":
        return "binary", "unhex({c})" if modes.binary is BinaryMode.HEX else _base64(modes)
    return "string", "{c}"


def _base64(modes: Modes) -> str:
    return "unbase64(translate({c}, '-_', '+/'))" if modes.binary is BinaryMode.BASE64_URL_SAFE else "unbase64({c})"


def _unit(column: Column, modes: Modes) -> str:
    """What an integer counts."""
    match modes.time_precision:
        case TimePrecision.CONNECT:
            return "millis"
        case TimePrecision.NANOSECONDS:
            return "nanos"
        case TimePrecision.ADAPTIVE | TimePrecision.ADAPTIVE_TIME_MICROSECONDS:
            return "millis" if 0 <= column.typmod <= 3 else "micros"
        case _:
            return "micros"


def _decimal(column: Column, modes: Modes) -> tuple[str, str]:
    if column.simple_base == "money":
        digits, scale = 19, 2
    else:
        digits, scale = _precision(column)
    kind = f"decimal({digits},{scale})"
    if modes.decimal is not DecimalMode.PRECISE:
        return kind, f"cast({{c}} as {kind})"
    # a numeric without scale is an object with the scale of each value
    value, exponent = "{c}", str(scale)
    if column.simple_base == "numeric" and column.scale is None:
        value, exponent = "get_json_object({c}, '$.value')", "get_json_object({c}, '$.scale')"
    padded = _PADDED.format(hex=_HEX.format(c=value))
    unscaled = _UNSCALED.format(padded=padded)
    return kind, f"cast(concat(cast({unscaled} as string), 'E-', {exponent}) as {kind})"


def _precision(column: Column) -> tuple[int, int]:
    scale = column.scale
    if scale is None:
        return _WIDE
    digits = (column.typmod - 4) >> 16
    return (digits, scale) if 0 <= scale <= digits <= _MOST_DIGITS else _WIDE
