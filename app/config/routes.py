"""Routes: the target table of each source table.

A pattern is `schema.table`; each half may contain `*`, which matches any text. The first route that matches applies.
On the target side the n-th `*` of a half stands for the text of the n-th `*` of the same half of the source. No route
leads into the schema of Surelane's own tables.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_EXAMPLE = 'write it like "public.*": "shop.*" or "public.orders": "public.orders_copy"'


class RouteInvalid(ValueError):
    """An invalid route or pattern."""

    def __init__(self, problem: str, hint: str = _EXAMPLE) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


@dataclass(frozen=True)
class _Route:
    schema: re.Pattern[str]
    table: re.Pattern[str]
    target_schema: str
    target_table: str

    def target(self, schema: str, table: str) -> tuple[str, str] | None:
        by_schema, by_table = self.schema.fullmatch(schema), self.table.fullmatch(table)
        if not by_schema or not by_table:
            return None
        return _filled(self.target_schema, by_schema), _filled(self.target_table, by_table)

    def reaches(self, schema: str, table: str) -> bool:
        halves = ((self.target_schema, schema), (self.target_table, table))
        return all(pattern(half).fullmatch(name) is not None for half, name in halves)


class Routes:
    """The routes of one lane, in order; raises RouteInvalid for an invalid one."""

    def __init__(self, tables: Mapping[str, str], own: str | None = None) -> None:
        """`own`: schema of Surelane's own tables."""
        self._tables, self._own = dict(tables), own
        self._routes = tuple(_route(source, target) for source, target in tables.items())
        if not self._routes:
            raise RouteInvalid("no route: nothing would ever be applied")
        if into := [text for text in tables.values() if own and text.partition(".")[0] == own]:
            hint = "route it elsewhere, or name another target.schema"
            raise RouteInvalid(f"{into[0]!r}: schema {own} has Surelane's own tables", hint)

    def target(self, schema: str, table: str) -> tuple[str, str] | None:
        """(schema, table) in the target for a source table; None when no route matches."""
        found = next((found for route in self._routes if (found := route.target(schema, table))), None)
        return None if found and found[0] == self._own else found

    def reaches(self, schema: str, table: str) -> bool:
        """Whether changes of any source table can go to this target table."""
        return any(route.reaches(schema, table) for route in self._routes)

    def named(self) -> list[tuple[str, str]]:
        """(schema, table) of each target table that a route names without `*`."""
        halves = [(route.target_schema, route.target_table) for route in self._routes]
        return [(schema, table) for schema, table in halves if "*" not in schema + table]

    def schemas(self) -> set[str]:
        """Schemas that a route names without `*`."""
        return {route.target_schema for route in self._routes if "*" not in route.target_schema}

    def __repr__(self) -> str:
        return f"Routes({self._tables!r})"


def _route(source: str, target: str) -> _Route:
    source_schema, source_table = halves(source, "source")
    target_schema, target_table = halves(target, "target")
    for from_half, to_half in ((source_schema, target_schema), (source_table, target_table)):
        if to_half.count("*") > from_half.count("*"):
            problem = (
                f"{source!r} -> {target!r}: {to_half!r} has more * than {from_half!r}, so there is no text to put there"
            )
            raise RouteInvalid(problem)
    return _Route(pattern(source_schema), pattern(source_table), target_schema, target_table)


def halves(text: str, side: str, hint: str = _EXAMPLE) -> tuple[str, str]:
    """Split `schema.table`; `side`: source or target, for the message. Raises RouteInvalid."""
    schema, dot, table = text.partition(".")
    if not (schema and dot and table):
        raise RouteInvalid(f"{text!r} is not a {side} schema.table", hint)
    return schema, table


def pattern(half: str) -> re.Pattern[str]:
    """Compile a name in which `*` matches any text."""
    return re.compile("(.*)".join(map(re.escape, half.split("*"))), re.DOTALL)


def _filled(half: str, match: re.Match[str]) -> str:
    first, *rest = half.split("*")
    return first + "".join(text + after for text, after in zip(match.groups(), rest, strict=False))
