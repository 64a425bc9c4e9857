"""Numbers as in Spark: integers of a width, decimals of a precision and a scale, doubles."""

import math
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, DecimalException
from typing import Any

from app.transform.sql.row_failure import by_zero, overflow

#: bits by type
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
#: for exact results before they are rounded; more digits than two decimals' product has
_EXACT = Context(prec=400)
#: places of a quotient of decimals before it is rounded to its type
_QUOTIENT = Decimal(1).scaleb(-39)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def precision_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a type; None where it is no decimal."""
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]), int(found[2]))


def integer(kind: str) -> Callable[[int], int]:
    """The function that raises SqlFailure for a value that does not fit the type."""
    end = 1 << INTEGERS[kind] - 1

    def checked(value: int) -> int:
        if -end <= value < end:
            return value
        raise overflow(kind)

    return checked


def decimal(kind: str) -> Callable[[Decimal], Decimal]:
    """The function that rounds to the type's scale, and raises SqlFailure for a value that does not fit."""
    found = precision_of(kind)
    assert found is not None, kind
    precision, scale = found
    step, end = Decimal(1).scaleb(-scale), Decimal(1).scaleb(precision - scale)

    def rounded(value: Decimal) -> Decimal:
        if value.adjusted() > precision:
            raise overflow(kind)
        try:
            made = value.quantize(step, ROUND_HALF_UP, _EXACT)
        except DecimalException:
            raise overflow(kind) from None
        if abs(made) >= end:
            raise overflow(kind)
        return made if made else abs(made)  # there is no -0

    return rounded


def fitting(kind: str) -> Callable[[Any], Any]:
    """The function that converts a result to this type."""
    if kind in INTEGERS:
        return integer(kind)
    return float if kind == "double" else decimal(kind)


def add(left: Any, right: Any) -> Any:
    """Exact, as the other functions here."""
    return _EXACT.add(left, right) if isinstance(left, Decimal) else left + right


def subtract(left: Any, right: Any) -> Any:
    return _EXACT.subtract(left, right) if isinstance(left, Decimal) else left - right


def multiply(left: Any, right: Any) -> Any:
    return _EXACT.multiply(left, right) if isinstance(left, Decimal) else left * right


def divide(left: Any, right: Any) -> Any:
    """For doubles and decimals; raises SqlFailure for zero."""
    if not right:
        raise by_zero()
    if isinstance(left, Decimal):
        return _EXACT.divide(left, right).quantize(_QUOTIENT, ROUND_HALF_UP, _EXACT)
    return left / right


def integral(left: Any, right: Any) -> int:
    """`div`: rounds towards zero."""
    if not right:
        raise by_zero()
    if isinstance(left, Decimal):
        return int(_EXACT.divide_int(left, right))
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder(left: Any, right: Any) -> Any:
    """`%`: has the dividend's sign."""
    if not right:
        raise by_zero()
    if isinstance(left, Decimal):
        return _EXACT.remainder(left, right)
    if isinstance(left, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.nan if math.isinf(left) or math.isnan(left) or math.isnan(right) else math.fmod(left, right)


def rounding(kind: str, places: int) -> Callable[[Any], Any]:
    """`round`, to a number of places."""
    if kind in INTEGERS:
        return lambda value: value
    step, fit = Decimal(1).scaleb(-places), fitting(kind)

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            if not math.isfinite(value):
                return value
            return float(Decimal(repr(value)).quantize(step, ROUND_HALF_UP, _EXACT)) if value else value
        return fit(value.quantize(step, ROUND_HALF_UP, _EXACT))

    return rounded


def whole(kind: str, *, up: bool) -> Callable[[Any], Any]:
    """`floor` and `ceil`."""
    to_whole = math.ceil if up else math.floor

    def of_double(value: float) -> int:
        if math.isnan(value):
            return 0
        return min(max(to_whole(value), -(1 << 63)), (1 << 63) - 1) if math.isfinite(value) else _end(value)

    if kind == "bigint":
        return lambda value: of_double(value) if isinstance(value, float) else value
    fit, way = decimal(kind), ROUND_CEILING if up else ROUND_FLOOR
    return lambda value: fit(value.to_integral_value(way, _EXACT))


def _end(value: float) -> int:
    return (1 << 63) - 1 if value > 0 else -(1 << 63)


def truncated(value: Decimal) -> int:
    """Rounds towards zero."""
    return int(value.to_integral_value(ROUND_DOWN, _EXACT))


def double_text(value: float) -> str:
    """The double as Java writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if value else repr(value)
    shortest, two_digits = repr(value), f"{value:.1e}"
    best = two_digits if float(two_digits) == value else shortest  # Java has at least two digits: 4.9E-324
    sign, digits, exponent = Decimal(best).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(digits) - 1}"
