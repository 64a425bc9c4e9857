"""Compiles expressions to functions of a row: the values of the columns that the SQL names, in their order.

They evaluate what Spark evaluates, in its order: `case` only the branch that it takes, `and` nothing behind something
false, a function nothing behind an argument that is NULL. So a row fails here where it fails in Spark.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.transform.sql import casts, dates, numbers, patterns, texts
from app.transform.sql.row_failure import SqlFailure
from app.transform.sql.rule import Node

Row = Sequence[str | None]
Evaluate = Callable[[Row], Any]


class Unknown(Exception):
    """An expression is not known to give the same result as Spark."""


def compiled(node: Node, places: Mapping[str, int]) -> Evaluate:
    """The function that evaluates a node; `places`: index of each column in a row. Raises Unknown."""
    special = _SPECIAL.get(node.name)
    if special is not None:
        return special(node, places)
    children = [compiled(child, places) for child in node.children]
    function = _function(node)
    return _STRICT[min(len(children), 3)](function, children)


def constant(node: Node) -> Any:
    """Value of an expression without columns; raises Unknown where it has any."""
    if any(one.name == "AttributeReference" for one in node.walk()):
        raise Unknown("a pattern, or places to round to, made of columns is not known here")
    return compiled(node, {})(())


def _function(node: Node) -> Callable[..., Any]:
    """The function of values none of which is NULL."""
    types = tuple(child.type for child in node.children)
    plain = _PLAIN.get((node.name, types)) or _PLAIN.get((node.name, ()))
    if plain is not None:
        return plain
    made = _MADE.get(node.name)
    if made is None:
        raise Unknown(f"{node.name} of {', '.join(types)} is not known here")
    return made(node)


# --- strict functions: NULL for any argument that is NULL ---


def _of_none(function: Callable[..., Any], children: list[Evaluate]) -> Evaluate:
    del children
    return lambda row: function()


def _of_one(function: Callable[..., Any], children: list[Evaluate]) -> Evaluate:
    (only,) = children
    return lambda row: None if (value := only(row)) is None else function(value)


def _of_two(function: Callable[..., Any], children: list[Evaluate]) -> Evaluate:
    first, second = children

    def evaluate(row: Row) -> Any:
        one = first(row)
        if one is None:
            return None
        other = second(row)
        return None if other is None else function(one, other)

    return evaluate


def _of_many(function: Callable[..., Any], children: list[Evaluate]) -> Evaluate:
    def evaluate(row: Row) -> Any:
        values: list[Any] = []
        for child in children:
            value = child(row)
            if value is None:
                return None
            values.append(value)
        return function(*values)

    return evaluate


_STRICT = (_of_none, _of_one, _of_two, _of_many)


# --- functions made for a type ---


def _comparison(double: Callable[[Any, Any], Any], other: Callable[[Any, Any], Any]) -> Callable[[Node], Any]:
    """Spark's NaN equals itself, and is the largest double."""

    def made(node: Node) -> Any:
        kind = node.children[0].type
        if kind not in _COMPARED and not numbers.precision_of(kind):
            raise Unknown(f"{node.name} of {kind} is not known here")
        return (lambda a, b: double(_ordered(a), _ordered(b))) if kind == "double" else other

    return made


_COMPARED = {"string", "boolean", "date", "timestamp", "double", "void", *numbers.INTEGERS}


def _ordered(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _arithmetic(exact: Callable[[Any, Any], Any]) -> Callable[[Node], Any]:
    def made(node: Node) -> Any:
        fit = _fitting(node)
        return _or_null(node, lambda left, right: fit(exact(left, right)))

    return made


def _or_null(node: Node, function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL instead of a failure, if the mode of a cast or of arithmetic is TRY."""
    if node.value == "LEGACY":
        raise Unknown(f"{node.name} is known with spark.sql.ansi.enabled only")
    if node.value != "TRY":
        return function

    def attempt(*values: Any) -> Any:
        try:
            return function(*values)
        except SqlFailure:
            return None

    return attempt


def _fitting(node: Node) -> Callable[[Any], Any]:
    if node.type != "double" and node.type not in numbers.INTEGERS and not numbers.precision_of(node.type):
        raise Unknown(f"{node.name} of {node.type} is not known here")
    return numbers.fitting(node.type)


def _negated(node: Node) -> Any:
    fit = _fitting(node)
    return lambda value: fit(-value)


def _absolute(node: Node) -> Any:
    fit = _fitting(node)
    return lambda value: fit(abs(value))


def _whole(*, up: bool) -> Callable[[Node], Any]:
    return lambda node: numbers.whole(node.type, up=up)


_equal = _comparison(lambda a, b: a == b, lambda a, b: a == b)
_MADE: dict[str, Callable[[Node], Any]] = {
    "EqualTo": _equal,
    "LessThan": _comparison(lambda a, b: a < b, lambda a, b: a < b),
    "LessThanOrEqual": _comparison(lambda a, b: a <= b, lambda a, b: a <= b),
    "GreaterThan": _comparison(lambda a, b: a > b, lambda a, b: a > b),
    "GreaterThanOrEqual": _comparison(lambda a, b: a >= b, lambda a, b: a >= b),
    "Add": _arithmetic(numbers.add),
    "Subtract": _arithmetic(numbers.subtract),
    "Multiply": _arithmetic(numbers.multiply),
    "UnaryMinus": _negated,
    "Abs": _absolute,
    "Floor": _whole(up=False),
    "Ceil": _whole(up=True),
}


def _date(value: int) -> int:
    return numbers.integer("int")(value)


def _instant(factor: int) -> Callable[[int], int]:
    fit = numbers.integer("bigint")
    return lambda value: fit(value * factor)


_TEXT = "string"
#: by name and types of the arguments; () where Spark has checked the types
_PLAIN: dict[tuple[str, tuple[str, ...]], Callable[..., Any]] = {
    ("Not", ("boolean",)): lambda value: not value,
    ("Lower", (_TEXT,)): str.lower,
    ("Upper", (_TEXT,)): str.upper,
    ("Length", (_TEXT,)): len,
    ("Reverse", (_TEXT,)): lambda text: text[::-1],
    ("StringTrim", (_TEXT,)): lambda text: text.strip(" "),
    ("StringTrimLeft", (_TEXT,)): lambda text: text.lstrip(" "),
    ("StringTrimRight", (_TEXT,)): lambda text: text.rstrip(" "),
    ("StringTrim", (_TEXT, _TEXT)): str.strip,
    ("StringTrimLeft", (_TEXT, _TEXT)): str.lstrip,
    ("StringTrimRight", (_TEXT, _TEXT)): str.rstrip,
    ("Substring", (_TEXT, "int", "int")): texts.substring,
    ("StringReplace", (_TEXT, _TEXT, _TEXT)): texts.replace,
    ("StringTranslate", (_TEXT, _TEXT, _TEXT)): texts.translate,
    ("StringLPad", (_TEXT, "int", _TEXT)): texts.left_pad,
    ("StringRPad", (_TEXT, "int", _TEXT)): texts.right_pad,
    ("SplitPart", (_TEXT, _TEXT, "int")): texts.split_part,
    ("StringInstr", (_TEXT, _TEXT)): texts.position,
    ("Contains", (_TEXT, _TEXT)): lambda text, part: part in text,
    ("StartsWith", (_TEXT, _TEXT)): str.startswith,
    ("EndsWith", (_TEXT, _TEXT)): str.endswith,
    ("Md5", ("binary",)): texts.md5,
    ("Sha2", ("binary", "int")): texts.sha2,
    **{("DateAdd", ("date", kind)): lambda day, more: _date(day + more) for kind in ("int", "smallint", "tinyint")},
    **{("DateSub", ("date", kind)): lambda day, less: _date(day - less) for kind in ("int", "smallint", "tinyint")},
    ("DateDiff", ("date", "date")): lambda end, start: _date(end - start),
    ("Year", ("date",)): lambda day: dates.civil(day)[0],
    ("Month", ("date",)): lambda day: dates.civil(day)[1],
    ("DayOfMonth", ("date",)): lambda day: dates.civil(day)[2],
    ("DateFromUnixDate", ("int",)): lambda day: day,
    ("UnixDate", ("date",)): lambda day: day,
    **{("SecondsToTimestamp", (kind,)): _instant(1_000_000) for kind in numbers.INTEGERS},
    **{("MillisToTimestamp", (kind,)): _instant(1_000) for kind in numbers.INTEGERS},
    **{("MicrosToTimestamp", (kind,)): _instant(1) for kind in numbers.INTEGERS},
    ("UnixSeconds", ("timestamp",)): lambda micros: micros // 1_000_000,
    ("UnixMillis", ("timestamp",)): lambda micros: micros // 1_000,
    ("UnixMicros", ("timestamp",)): lambda micros: micros,
}


# --- functions with their own rules for NULL or errors ---


def _literal(node: Node, places: Mapping[str, int]) -> Evaluate:
    value = node.value
    return lambda row: value


def _column(node: Node, places: Mapping[str, int]) -> Evaluate:
    place = places.get(node.value)
    return (lambda row: None) if place is None else (lambda row: row[place])


def _cast(node: Node, places: Mapping[str, int]) -> Evaluate:
    (child,) = node.children
    function, given = casts.cast(child.type, node.type), compiled(child, places)
    if function is None:
        raise Unknown(f"cast from {child.type} to {node.type} is not known here")
    return _of_one(_or_null(node, function), [given])


def _and(node: Node, places: Mapping[str, int]) -> Evaluate:
    left, right = (compiled(child, places) for child in node.children)

    def evaluate(row: Row) -> bool | None:
        one = left(row)
        if one is False:
            return False
        other = right(row)
        if other is False:
            return False
        return None if one is None or other is None else True

    return evaluate


def _or(node: Node, places: Mapping[str, int]) -> Evaluate:
    left, right = (compiled(child, places) for child in node.children)

    def evaluate(row: Row) -> bool | None:
        one = left(row)
        if one is True:
            return True
        other = right(row)
        if other is True:
            return True
        return None if one is None or other is None else False

    return evaluate


def _is_null(node: Node, places: Mapping[str, int]) -> Evaluate:
    (child,) = (compiled(child, places) for child in node.children)
    return lambda row: child(row) is None


def _is_not_null(node: Node, places: Mapping[str, int]) -> Evaluate:
    (child,) = (compiled(child, places) for child in node.children)
    return lambda row: child(row) is not None


def _equal_with_null(node: Node, places: Mapping[str, int]) -> Evaluate:
    left, right = (compiled(child, places) for child in node.children)
    equal = _equal(node)

    def evaluate(row: Row) -> bool:
        one, other = left(row), right(row)
        return one is other if one is None or other is None else equal(one, other)

    return evaluate


def _in(node: Node, places: Mapping[str, int]) -> Evaluate:
    value, *listed = (compiled(child, places) for child in node.children)
    equal = _equal(node)

    def evaluate(row: Row) -> bool | None:
        sought = value(row)
        if sought is None:
            return None
        has_null = False
        for one in listed:
            found = one(row)
            if found is None:
                has_null = True
            elif equal(sought, found):
                return True
        return None if has_null else False

    return evaluate


def _if(node: Node, places: Mapping[str, int]) -> Evaluate:
    condition, then, otherwise = (compiled(child, places) for child in node.children)
    return lambda row: then(row) if condition(row) else otherwise(row)


def _case(node: Node, places: Mapping[str, int]) -> Evaluate:
    parts = [compiled(child, places) for child in node.children]
    otherwise = parts.pop() if len(parts) % 2 else lambda row: None
    branches = list(zip(parts[::2], parts[1::2], strict=True))

    def evaluate(row: Row) -> Any:
        for condition, value in branches:
            if condition(row):
                return value(row)
        return otherwise(row)

    return evaluate


def _coalesce(node: Node, places: Mapping[str, int]) -> Evaluate:
    children = [compiled(child, places) for child in node.children]

    def evaluate(row: Row) -> Any:
        for child in children:
            value = child(row)
            if value is not None:
                return value
        return None

    return evaluate


def _concat(node: Node, places: Mapping[str, int]) -> Evaluate:
    children = [_texts(child, places) for child in node.children]

    def evaluate(row: Row) -> str | None:
        parts = [child(row) for child in children]
        return None if None in parts else "".join(parts)

    return evaluate


def _concat_ws(node: Node, places: Mapping[str, int]) -> Evaluate:
    children = [_texts(child, places) for child in node.children]
    return lambda row: texts.concat_ws(*[child(row) for child in children])


def _texts(node: Node, places: Mapping[str, int]) -> Evaluate:
    if node.type != _TEXT:
        raise Unknown(f"{node.name} of {node.type} is not known here")
    return compiled(node, places)


def _dividing(exact: Callable[[Any, Any], Any]) -> Callable[[Node, Mapping[str, int]], Evaluate]:
    """The divisor is evaluated first: NULL / 0 is NULL."""

    def made(node: Node, places: Mapping[str, int]) -> Evaluate:
        left, right = (compiled(child, places) for child in node.children)
        fit = _fitting(node)
        function = _or_null(node, lambda divisor, dividend: fit(exact(dividend, divisor)))
        return _of_two(function, [right, left])

    return made


def _rounded(node: Node, places: Mapping[str, int]) -> Evaluate:
    child, scale = node.children
    count = constant(scale)
    if count is None or not 0 <= count <= 38:
        raise Unknown("round is known with 0 to 38 places only")
    _fitting(child)
    return _of_one(numbers.rounding(node.type, count), [compiled(child, places)])


def _like(node: Node, places: Mapping[str, int]) -> Evaluate:
    text, pattern = node.children
    return _matching(lambda: patterns.like(constant(pattern), node.value).fullmatch, pattern, text, places)


def _rlike(node: Node, places: Mapping[str, int]) -> Evaluate:
    text, pattern = node.children
    return _matching(lambda: patterns.regex(constant(pattern)).search, pattern, text, places)


def _matching(make: Callable[[], Any], pattern: Node, text: Node, places: Mapping[str, int]) -> Evaluate:
    if constant(pattern) is None:
        return lambda row: None
    found = make()
    return _of_one(lambda value: found(value) is not None, [_texts(text, places)])


def _regexp_replace(node: Node, places: Mapping[str, int]) -> Evaluate:
    text, *rest = node.children
    pattern, by, first = map(constant, rest)
    if pattern is None or by is None or first != 1 or "$" in by or "\\" in by:
        raise Unknown("regexp_replace is known without $ and \\ in what it puts in, and without a position")
    found = patterns.regex(pattern)
    if found.search(""):
        raise Unknown("regexp_replace of nothing, which the pattern matches, is not known here")
    replaced = found.sub
    return _of_one(lambda value: replaced(lambda _: by, value), [_texts(text, places)])


_SPECIAL: dict[str, Callable[[Node, Mapping[str, int]], Evaluate]] = {
    "Literal": _literal,
    "AttributeReference": _column,
    "Cast": _cast,
    "And": _and,
    "Or": _or,
    "IsNull": _is_null,
    "IsNotNull": _is_not_null,
    "EqualNullSafe": _equal_with_null,
    "In": _in,
    "If": _if,
    "CaseWhen": _case,
    "Coalesce": _coalesce,
    "Concat": _concat,
    "ConcatWs": _concat_ws,
    "Divide": _dividing(numbers.divide),
    "IntegralDivide": _dividing(numbers.integral),
    "Remainder": _dividing(numbers.remainder),
    "Round": _rounded,
    "Like": _like,
    "RLike": _rlike,
    "RegExpReplace": _regexp_replace,
}
#: Spark's classes that are known here
KNOWN = frozenset({*_SPECIAL, *_MADE, *(name for name, _ in _PLAIN)})
