"""Rules for source tables, each with a pattern `schema.table` whose halves may contain `*`."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from app.config.routes import halves, pattern

T = TypeVar("T")


class TableRules(Generic[T]):
    """Rules in order; raises RouteInvalid for an invalid pattern."""

    def __init__(self, rules: Mapping[str, T], hint: str) -> None:
        found = ((halves(source, "source", hint), rule) for source, rule in rules.items())
        self._rules = tuple((pattern(schema), pattern(table), rule) for (schema, table), rule in found)

    def of(self, schema: str, table: str) -> T | None:
        """The first rule whose pattern matches."""
        found = (rule for one, other, rule in self._rules if one.fullmatch(schema) and other.fullmatch(table))
        return next(found, None)
