"""Rules for source tables: a pattern `schema.table`, each half perhaps with `*`, and what goes for those it fits."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from app.config.routes import halves, pattern

T = TypeVar("T")


class TableRules(Generic[T]):
    """Patterns in their order; raises RouteInvalid for one that is none."""

    def __init__(self, rules: Mapping[str, T], hint: str) -> None:
        found = ((halves(source, "source", hint), rule) for source, rule in rules.items())
        self._rules = tuple((pattern(schema), pattern(table), rule) for (schema, table), rule in found)

    def of(self, schema: str, table: str) -> T | None:
        """The first that fits."""
        found = (rule for one, other, rule in self._rules if one.fullmatch(schema) and other.fullmatch(table))
        return next(found, None)
