"""What follows a skip: one answer for every table, others for some."""

import enum
from collections.abc import Mapping

from app.config.table_rules import TableRules

_HINT = 'write it like "public.orders": park or "audit.*": continue'


class OnSkip(enum.StrEnum):
    """What becomes of later changes of a key one of whose changes cannot be applied."""

    CONTINUE = "continue"  #: they are applied: a newer row heals what an older one left out
    PARK = "park"  #: they follow into quarantine, in order
    STOP = "stop"  #: there are none: the lane stops in front of the message


class SkipPolicy:
    """What `guard.on_skip` and `guard.on_skip_tables` say; raises RouteInvalid for a pattern that is none."""

    def __init__(self, default: OnSkip, tables: Mapping[str, OnSkip]) -> None:
        self._default, self._tables = default, TableRules(tables, _HINT)

    def of(self, schema: str | None, table: str | None) -> OnSkip:
        """For a source table, the first pattern that matches; for a message of an unknown one the default."""
        if schema is None or table is None:
            return self._default
        return self._tables.of(schema, table) or self._default
