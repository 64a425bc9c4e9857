"""Rollups under test: what the lane is configured with, and what Postgres computes at once of the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fix_target import OWNER, Target

SCHEMA = "reports"


@dataclass(frozen=True)
class RollupUnderTest:
    """A rollup in a table of its name."""

    name: str
    #: its configuration but for the table
    config: Mapping[str, Any]
    #: SELECT with the columns of the rollup, in its order
    batch: str

    @property
    def table(self) -> str:
        return f"{SCHEMA}.{self.name}"

    def prepare(self, target: Target) -> dict[str, Any]:
        """Let the lane make it; returns its section of the configuration."""
        if not target.execute("select from pg_namespace where nspname = :name", name=SCHEMA):
            target.create_schema(SCHEMA)
        target.execute(f"grant create on schema {SCHEMA} to {OWNER}")
        target.execute(f"grant trigger on {self.config['of']} to {OWNER}")
        return {**self.config, "table": self.table}

    def is_made(self, target: Target) -> bool:
        return bool(
            target.execute("select from pg_tables where schemaname || '.' || tablename = :name", name=self.table)
        )

    def groups(self, target: Target) -> Sequence[Any]:
        """All of it."""
        return target.execute(self._found)

    def differences(self, target: Target) -> Sequence[Any]:
        """Groups that only the rollup has, or only the rows, in one statement: of one snapshot."""
        return target.execute(
            f"(select 'rollup', * from ({self._found} except all {self.batch}) f)"
            f" union all (select 'rows', * from ({self.batch} except all {self._found}) b)"
        )

    @property
    def _found(self) -> str:
        keys = [*self.config["by"], *(("bucket",) if "bucket" in self.config else ())]
        return f"select {', '.join((*keys, *self.config['aggregates']))} from {self.table}"


#: over tables of `tests.workload`
BY_STATUS = RollupUnderTest(
    "by_status",
    {
        "of": "public.orders",
        "by": ["status", "paid"],
        "bucket": {"column": "placed", "width": "8760 hours"},
        "aggregates": {"orders": "count", "customers": "sum(customer_id)", "first": "min(placed)", "newest": "max(id)"},
    },
    "select status, paid, date_bin('8760 hours', placed, '2000-01-01') as bucket, count(*) as orders,"
    " sum(customer_id) as customers, min(placed) as first, max(id) as newest from public.orders group by 1, 2, 3",
)
BY_COUNTER = RollupUnderTest(
    "by_counter",
    {"of": "public.counter", "by": ["id"], "aggregates": {"counters": "count", "hits": "sum(hits)"}},
    "select id, count(*) as counters, sum(hits) as hits from public.counter group by 1",
)
