"""Which columns of a source table go on, and what the target calls them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.config.table_rules import TableRules

_HINT = 'write it like "public.customers": {exclude: [ssn], rename: {name: full_name}}'


@dataclass(frozen=True)
class ColumnRule:
    """For one pattern of tables."""

    #: empty: every column
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    #: the source's name -> the target's
    rename: Mapping[str, str] = field(default_factory=dict)

    def target(self, name: str) -> str | None:
        """What the target calls a column; None: it does not go on."""
        if name in self.exclude or (self.include and name not in self.include):
            return None
        return self.rename.get(name, name)


class Columns:
    """What `target.columns` says; raises RouteInvalid for a pattern that is none."""

    def __init__(self, rules: Mapping[str, ColumnRule]) -> None:
        self._rules = TableRules(rules, _HINT)

    def of(self, schema: str, table: str) -> ColumnRule:
        """For a source table."""
        return self._rules.of(schema, table) or ColumnRule()
