"""Reads an expression that Spark has analysed out of its JVM."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from app.transform.sql.evaluating import KNOWN, Unknown
from app.transform.sql.rule import Node

#: expressions that are short for another one
_REPLACED = frozenset(
    {
        *("Between", "ILike", "Left", "NullIf", "Nvl", "Nvl2", "ParseToDate", "Right", "StringTrimBoth"),
        *("TryAdd", "TryDivide", "TryMultiply", "TrySubtract"),
    }
)
#: expressions with a mode: ANSI, TRY, LEGACY
_MODES = frozenset({"Cast", "Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder"})
Definitions = Mapping[str, Node]


def node_of(expression: Any, definitions: Definitions | None = None) -> Node:
    """The JVM's expression as plain data; raises Unknown."""
    known = definitions or {}
    name = expression.getClass().getSimpleName()
    if name in _REPLACED:
        return node_of(expression.replacement(), known)
    if name == "TypedNullLiteral":
        return Node("Literal", expression.dataType().catalogString())
    if name == "With":
        return _with(expression, known)
    if name == "CommonExpressionRef":
        return known[expression.id().toString()]
    if name == "SplitPart":
        return _split_part(expression.replacement(), known)
    if name not in KNOWN:
        raise Unknown(f"{expression.prettyName()} is not known here")
    children = tuple(node_of(child, known) for child in each(expression.children()))
    return Node(name, expression.dataType().catalogString(), children, _value(name, expression))


def _with(expression: Any, known: Definitions) -> Node:
    """An expression that is used several times: it has no effects, so each use gets a copy."""
    more = {one.id().toString(): node_of(one.child(), known) for one in each(expression.defs())}
    return node_of(expression.child(), {**known, **more})


def _split_part(element: Any, known: Definitions) -> Node:
    """Spark splits the text, then takes an element."""
    parts, number = element.left(), element.right()
    children = [node_of(one, known) for one in (*each(parts.children()), number)]
    return Node("SplitPart", "string", tuple(children))


def _value(name: str, expression: Any) -> Any:
    if name == "Literal":
        return _literal(expression.value(), expression.dataType().catalogString())
    if name == "AttributeReference":
        return expression.name()
    if name == "Like":
        return str(expression.escapeChar())
    return expression.evalMode().toString() if name in _MODES else None


def _literal(value: Any, kind: str) -> Any:
    if value is None or kind in ("boolean", "tinyint", "smallint", "int", "bigint", "double", "date"):
        return value
    if kind == "string":
        return value.toString()
    if kind.startswith("decimal("):
        return Decimal(value.toString())
    raise Unknown(f"a literal of type {kind} is not known here")


def each(seq: Any) -> Iterator[Any]:
    """Elements of a Scala sequence."""
    for index in range(seq.length()):
        yield seq.apply(index)
