"""The UNLOGGED table into which tasks COPY the rows of a query's epoch."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from sqlalchemy import Connection
from sqlalchemy.engine import URL

from app.db.sql import quoted, run
from app.db.sqlstate import meaning
from app.query.staged_results import ATTEMPT, PART, PLACE, ResultStaging, StagedPart, staged


@dataclass(frozen=True)
class StagingAccess:
    """How tasks reach the staging table."""

    url: URL
    owner_role: str | None
    #: environment variables with secrets that the JVM must not have: not shown in a repr
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class StagingTable:
    """The staging table of `query`, in Surelane's `schema`. Its statements run in the caller's transaction."""

    query: str
    schema: str
    #: of the columns, in the order of COPY
    types: Mapping[str, str]
    access: StagingAccess

    @property
    def name(self) -> str:
        """Quoted, with its schema."""
        return own_table(self.schema, "query", self.query)

    def make(self, connection: Connection) -> None:
        """Make it anew."""
        columns = [f"{PART} int, {PLACE} bigint, {ATTEMPT} bigint"]
        columns += [f"{quoted(name)} {kind}" for name, kind in self.types.items()]
        run(connection, f"drop table if exists {self.name}")
        run(connection, f"create unlogged table {self.name} ({', '.join(columns)})")

    def empty(self, connection: Connection) -> None:
        """While no transaction that reads it is prepared."""
        run(connection, f"truncate {self.name}")

    def staged(self, rows: DataFrame) -> list[StagedPart]:
        """Have tasks COPY the rows. Raises what Spark raises."""
        access = self.access
        place = ResultStaging(access.url, access.owner_role, self.name, tuple(self.types), access.variables)
        return staged(rows, place)

    def check(self, receipts: Sequence[StagedPart]) -> None:
        """Raise the error of a task's COPY."""
        for one in receipts:
            if one.fault is not None:
                raise meaning(one.fault or None, f"lane {self.query}: staging rows: {one.problem}")


def own_name(kind: str, query: str) -> str:
    """Name of a table that Surelane makes for a query, without quotes."""
    return f"{kind}_{hashlib.sha256(query.encode()).hexdigest()[:24]}"


def own_table(schema: str, kind: str, query: str) -> str:
    """The same quoted, with its schema."""
    return f"{quoted(schema)}.{quoted(own_name(kind, query))}"


def among(receipts: Sequence[StagedPart]) -> str:
    """A condition: the row is of one of these attempts."""
    return f"{ATTEMPT} in ({', '.join(str(one.attempt) for one in receipts if one.rows)})"
