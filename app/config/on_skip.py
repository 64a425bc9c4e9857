"""The policy after a skip: a default, and rules for single tables."""

import enum
from collections.abc import Mapping

from app.config.table_rules import TableRules

_HINT = 'write it like "public.orders": park or "audit.*": continue'


class OnSkip(enum.StrEnum):
    """What happens to later changes of a key after one of its changes was skipped."""

    CONTINUE = "continue"  #: they are applied: a newer row replaces the skipped one
    PARK = "park"  #: they go into quarantine, in order
    STOP = "stop"  #: the lane stops before the message, so nothing is skipped


class SkipPolicy:
    """`guard.on_skip` and `guard.on_skip_tables`; raises RouteInvalid for an invalid pattern."""

    def __init__(self, default: OnSkip, tables: Mapping[str, OnSkip]) -> None:
        self._default, self._tables = default, TableRules(tables, _HINT)

    def of(self, schema: str | None, table: str | None) -> OnSkip:
        """Policy of the first pattern that matches the source table; the default where the table is unknown."""
        if schema is None or table is None:
            return self._default
        return self._tables.of(schema, table) or self._default
