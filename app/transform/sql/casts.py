"""Casts as in Spark's ANSI mode: a value that cannot be cast raises SqlFailure."""

import math
import re
from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import Any

from app.transform.sql.dates import DAY, date_of, date_text, timestamp_text
from app.transform.sql.numbers import INTEGERS, decimal, double_text, integer, precision_of, truncated
from app.transform.sql.row_failure import cannot_cast, overflow

#: characters that Spark trims around a text
_BLANK = "".join(map(chr, [*range(0x21), 0x7F]))
#: those that Java trims
_JAVA_BLANK = _BLANK[:-1]
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_HEX = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_SPECIAL = {"inf", "+inf", "infinity", "+infinity", "-inf", "-infinity", "nan"}
_JAVA_SPECIAL = {"NaN", "+NaN", "-NaN"}
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}

Function = Callable[[Any], Any]


def cast(source: str, to: str) -> Function | None:
    """The function that casts; None where the cast is not known here."""
    made = _same if source == to or source == "void" else _KNOWN.get((_family(source), _family(to)))
    return None if made is None else made(source, to)


def _family(kind: str) -> str:
    return "integer" if kind in INTEGERS else "decimal" if precision_of(kind) else kind


def _same(source: str, to: str) -> Function:
    return lambda value: value


def _text_to_integer(source: str, to: str) -> Function:
    fit = integer(to)

    def made(text: str) -> int:
        text = text.strip(_BLANK)
        if _INTEGER.fullmatch(text) is None or len(text) > 400:
            raise cannot_cast(to)
        return fit(int(text))

    return made


def _text_to_decimal(source: str, to: str) -> Function:
    fit = decimal(to)

    def made(text: str) -> Decimal:
        text = text.strip(_JAVA_BLANK)
        if _NUMBER.fullmatch(text) is None:
            raise cannot_cast(to)
        try:
            return fit(Decimal(text))
        except DecimalException:
            raise overflow(to) from None

    return made


def _text_to_double(source: str, to: str) -> Function:
    def made(text: str) -> float:
        text = text.strip(_JAVA_BLANK)
        if _DOUBLE.fullmatch(text):
            return float(text.rstrip("fFdD"))
        if _HEX.fullmatch(text):
            return _of_hex(text)
        if text in _JAVA_SPECIAL:
            return math.nan
        if text.lower() in _SPECIAL:
            return float(text)
        raise cannot_cast(to)

    return made


def _of_hex(text: str) -> float:
    try:
        return float.fromhex(re.sub("[fFdD]$", "", text))
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _text_to_boolean(source: str, to: str) -> Function:
    def made(text: str) -> bool:
        text = text.strip(_BLANK).lower()
        if text not in _TRUE and text not in _FALSE:
            raise cannot_cast(to)
        return text in _TRUE

    return made


def _double_to_integer(source: str, to: str) -> Function:
    end = 1 << INTEGERS[to] - 1

    def made(value: float) -> int:
        if not math.isfinite(value) or math.floor(value) > end - (to != "bigint") or math.ceil(value) < -end:
            raise overflow(to)
        return min(int(value), end - 1)  # the largest bigint is no double: Spark compares with the double above it

    return made


def _double_to_decimal(source: str, to: str) -> Function:
    fit = decimal(to)
    return lambda value: fit(Decimal(repr(value))) if math.isfinite(value) else None


def _plain(function: Function) -> Callable[[str, str], Function]:
    return lambda source, to: function


def _fit_integer(convert: Function) -> Callable[[str, str], Function]:
    def made(source: str, to: str) -> Function:
        fit = integer(to)
        return lambda value: fit(convert(value))

    return made


def _fit_decimal(source: str, to: str) -> Function:
    fit = decimal(to)
    return lambda value: fit(Decimal(value))


_KNOWN: dict[tuple[str, str], Callable[[str, str], Function]] = {
    ("string", "integer"): _text_to_integer,
    ("string", "decimal"): _text_to_decimal,
    ("string", "double"): _text_to_double,
    ("string", "boolean"): _text_to_boolean,
    ("string", "date"): _plain(lambda text: date_of(text.strip(_BLANK))),
    ("string", "binary"): _plain(str.encode),
    ("integer", "string"): _plain(str),
    ("integer", "integer"): _fit_integer(int),
    ("integer", "decimal"): _fit_decimal,
    ("integer", "double"): _plain(float),
    ("integer", "boolean"): _plain(bool),
    ("decimal", "string"): _plain(lambda value: format(value, "f")),
    ("decimal", "integer"): _fit_integer(truncated),
    ("decimal", "decimal"): _fit_decimal,
    ("decimal", "double"): _plain(float),
    ("decimal", "boolean"): _plain(bool),
    ("double", "string"): _plain(double_text),
    ("double", "integer"): _double_to_integer,
    ("double", "decimal"): _double_to_decimal,
    ("double", "boolean"): _plain(bool),
    ("boolean", "string"): _plain(lambda value: "true" if value else "false"),
    ("boolean", "integer"): _plain(int),
    ("boolean", "decimal"): _fit_decimal,
    ("boolean", "double"): _plain(float),
    ("date", "string"): _plain(date_text),
    ("date", "timestamp"): _plain(lambda value: integer("bigint")(value * DAY)),
    ("timestamp", "string"): _plain(timestamp_text),
    ("timestamp", "date"): _plain(lambda value: value // DAY),
}
