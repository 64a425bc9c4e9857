"""Rules for source tables: a pattern `schema.table`, each half perhaps with `*`, and what goes for those it fits."""

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

from app.config.routes import RouteInvalid, pattern

T = TypeVar("T")


class TableRules(Generic[T]):
    """Patterns in their order; raises RouteInvalid for one that is none."""

    def __init__(self, rules: Mapping[str, T], hint: str) -> None:
        self._rules = tuple((*_halves(source, hint), rule) for source, rule in rules.items())

    def of(self, schema: str, table: str) -> T | None:
        """The first that fits."""
        found = (rule for one, other, rule in self._rules if one.fullmatch(schema) and other.fullmatch(table))
        return next(found, None)


def _halves(text: str, hint: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    schema, _, table = text.partition(".")
    if not (schema and table):
        raise RouteInvalid(f"{text!r} is not a source schema.table", hint)
    return pattern(schema), pattern(table)
