"""SQLAlchemy tables of the ledger; the DDL with comments is in migrations/."""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, ColumnElement, DateTime, Integer, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

COUNTS = ("consumed", "applied", "compacted", "filtered", "duplicate", "quarantined")


@dataclass(frozen=True)
class LedgerTables:
    """The tables in one schema."""

    lane: Table
    generation: Table
    topic: Table
    ledger: Table
    state: Table

    @classmethod
    def in_schema(cls, schema: str) -> "LedgerTables":
        """Tables in `schema`, which is `target.schema`."""
        metadata = MetaData(schema=schema)

        def name() -> Column[str]:
            return Column("lane", Text, primary_key=True)

        def generation() -> Column[int]:
            return Column("generation", BigInteger, primary_key=True)

        return cls(
            lane=Table("lane", metadata, name(), Column("generation", BigInteger), Column("cluster_id", Text)),
            generation=Table(
                "generation",
                metadata,
                name(),
                generation(),
                *(Column(column, Text) for column in ("checkpoint", "delivery", "host")),
                Column("pid", Integer),
                Column("started_at", DateTime(timezone=True)),
            ),
            topic=Table("topic", metadata, name(), Column("topic", Text, primary_key=True), Column("topic_id", Text)),
            ledger=Table(
                "ledger",
                metadata,
                name(),
                generation(),
                Column("epoch", BigInteger, primary_key=True),
                Column("start_position", JSONB),
                Column("end_position", JSONB),
                Column("read_position", JSONB),
                *(Column(count, BigInteger) for count in COUNTS),
                Column("plan", Text),
                Column("last_message", JSONB(none_as_null=True)),
                *(Column(column, DateTime(timezone=True)) for column in ("source_from", "source_to", "applied_at")),
            ),
            state=Table(
                "lane_state",
                metadata,
                name(),
                Column("state", Text),
                Column("last_error", Text),
                Column("waits_for", Text),
                Column("changed_at", DateTime(timezone=True)),
            ),
        )


def lanes_of(column: ColumnElement[str], lane: str, *, several: bool) -> ColumnElement[bool]:
    """Condition for rows of `lane`; with `several` (`source.order: partition`) of its lanes `<lane>.<partition>`."""
    return column.regexp_match(f"^{lane}[.][0-9]+$") if several else column == lane
