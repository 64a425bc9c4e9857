"""Redaction: source columns whose values are neither shown nor logged.

A pattern is `schema.table.column`, or `*.column` for every table; each part may contain `*`, which matches any text.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from app.config.routes import RouteInvalid, pattern

_HINT = 'write it like "public.customers.email", or "*.email" for every table'
_EVERY_TABLE = "*"


@dataclass(frozen=True)
class Columns:
    """The redacted columns of one table, as patterns of names; false when there are none."""

    patterns: tuple[re.Pattern[str], ...]

    def __contains__(self, column: str) -> bool:
        return any(one.fullmatch(column) for one in self.patterns)

    def __bool__(self) -> bool:
        return bool(self.patterns)


@dataclass(frozen=True)
class _Rule:
    schema: re.Pattern[str]
    table: re.Pattern[str]
    column: re.Pattern[str]


class Redaction:
    """The rules of `guard.redact`; raises RouteInvalid for a pattern that would never match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._rules = tuple(map(_rule, patterns))

    def columns(self, schema: str | None, table: str | None) -> Columns:
        """The redacted columns of a source table; those of all rules when the table is unknown."""
        if schema is None or table is None:
            return Columns(tuple(rule.column for rule in self._rules))
        rules = (rule for rule in self._rules if rule.schema.fullmatch(schema) and rule.table.fullmatch(table))
        return Columns(tuple(rule.column for rule in rules))


def _rule(text: str) -> _Rule:
    place, _, column = text.rpartition(".")
    schema, _, table = ("*", "", "*") if place == _EVERY_TABLE else place.partition(".")
    if not (schema and table and column):
        raise RouteInvalid(f"{text!r} is not a source schema.table.column", _HINT)
    return _Rule(pattern(schema), pattern(table), pattern(column))
