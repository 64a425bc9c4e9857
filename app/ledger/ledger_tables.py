"""SQLAlchemy tables of the ledger; the DDL with comments is in migrations/."""

import functools
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
    pause: Table
    table_pause: Table
    in_flight: Table

    @classmethod
    @functools.cache
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
                Column("read_position", JSONB(none_as_null=True)),
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
            pause=Table(
                "pause",
                metadata,
                name(),
                *(Column(column, Text) for column in ("paused_by", "reason")),
                Column("paused_at", DateTime(timezone=True)),
            ),
            table_pause=Table(
                "table_pause",
                metadata,
                name(),
                *(Column(column, Text, primary_key=True) for column in ("target_schema", "target_table")),
                *(Column(column, Text) for column in ("paused_by", "reason", "resumed_by")),
                *(Column(column, DateTime(timezone=True)) for column in ("paused_at", "taken_up_at")),
            ),
            in_flight=Table(
                "in_flight",
                metadata,
                name(),
                generation(),
                Column("number", BigInteger, primary_key=True),
                *(Column(column, Text) for column in ("host", "state")),
                *(Column(column, Integer) for column in ("slot", "pid")),
                *(Column(column, JSONB) for column in ("start_position", "end_position")),
                Column("since", DateTime(timezone=True)),
                Column("bytes", BigInteger),
            ),
        )


def lanes_of(column: ColumnElement[str], lane: str, *, several: bool) -> ColumnElement[bool]:
    """Condition for rows of `lane`; with `several` (`source.order: partition`) of its lanes `<lane>.<partition>`."""
    return column.regexp_match(f"^{lane}[.][0-9]+$") if several else column == lane
