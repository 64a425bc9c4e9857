"""Lossless JSON: keeps the order of members, repeated names, and every digit of a number.

Python's `json` keeps the last of two equal names and turns numbers into doubles. A message may be in quarantine for
exactly such a name or number.
"""

import json
from collections.abc import Iterator
from typing import Any

from app.config.redaction import Columns

HIDDEN = "***"
#: deepest nesting that is parsed; Python's recursion limit is not far beyond
MAX_DEPTH = 100
#: characters of a line: a value that fits stays on one line
WIDTH = 100
_INDENT = "  "


class _Literal(str):
    """A number as the text writes it."""

    __slots__ = ()


class _Members(tuple[tuple[str, Any], ...]):
    """An object: pairs of name and value."""

    __slots__ = ()


class Document:
    def __init__(self, root: Any) -> None:
        self._root = root

    @classmethod
    def parse(cls, data: bytes) -> "Document | None":
        """The document; None for invalid JSON, or JSON nested too deeply."""
        try:
            text = data.decode("utf-8")
            root = json.loads(
                text, object_pairs_hook=_Members, parse_float=_Literal, parse_int=_Literal, parse_constant=_Literal
            )
        except (ValueError, RecursionError):
            return None
        return None if _is_deep(root) else cls(root)

    @property
    def is_object(self) -> bool:
        """Whether the root is an object, whose values have names."""
        return isinstance(self._root, _Members)

    def redacted(self, columns: Columns) -> "Document":
        """A copy with HIDDEN as the value of each member, at any depth, that is named like one of these columns."""
        return Document(_redacted(self._root, columns)) if columns else self

    def values(self, columns: Columns) -> set[str]:
        """The texts and numbers in these columns, as an error would quote them."""
        return {text for text in _values(self._root, columns, hidden=False) if text}

    def render(self) -> str:
        """Valid JSON, indented for readers."""
        return _rendered(self._root, "")


def _is_deep(root: Any) -> bool:
    level, depth = [root], 0
    while level and depth <= MAX_DEPTH:
        level = [inner for node in level for inner in _inside(node)]
        depth += 1
    return bool(level)


def _inside(node: Any) -> list[Any]:
    if isinstance(node, _Members):
        return [value for _, value in node]
    return node if isinstance(node, list) else []


def _redacted(node: Any, columns: Columns) -> Any:
    if isinstance(node, _Members):
        return _Members((name, HIDDEN if name in columns else _redacted(value, columns)) for name, value in node)
    return [_redacted(item, columns) for item in node] if isinstance(node, list) else node


def _values(node: Any, columns: Columns, *, hidden: bool) -> Iterator[str]:
    if isinstance(node, _Members):
        for name, value in node:
            yield from _values(value, columns, hidden=hidden or name in columns)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, columns, hidden=hidden)
    elif hidden and isinstance(node, str):
        yield str(node)


def _rendered(node: Any, indent: str) -> str:
    if not isinstance(node, _Members | list):
        return str(node) if isinstance(node, _Literal) else json.dumps(node, ensure_ascii=False)
    deeper = indent + _INDENT
    if isinstance(node, _Members):
        brackets = "{}"
        parts = [f"{json.dumps(name, ensure_ascii=False)}: {_rendered(value, deeper)}" for name, value in node]
    else:
        brackets, parts = "[]", [_rendered(item, deeper) for item in node]
    line = brackets[0] + ", ".join(parts) + brackets[1]
    if len(indent) + len(line) <= WIDTH and "\n" not in line:
        return line
    return f"{brackets[0]}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{brackets[1]}"
