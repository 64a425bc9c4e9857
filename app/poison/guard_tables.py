"""SQLAlchemy tables of the guard. migrations/ has the DDL and the triggers of the state machine."""

import functools
from dataclasses import dataclass

from sqlalchemy import JSON, BigInteger, Boolean, Column, DateTime, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

_TIME = DateTime(timezone=True)
#: columns of `suspect`, and fields of `app.poison.attempts.Suspect`
SUSPECT_COUNTS = ("attempts", "losses", "deaths", "unexplained", "alone", "control_failures", "first_messages")


@dataclass(frozen=True)
class GuardTables:
    """The quarantine's tables, in the target."""

    quarantine: Table
    event: Table

    @classmethod
    @functools.cache
    def in_schema(cls, schema: str) -> "GuardTables":
        metadata = MetaData(schema=schema)
        return cls(
            quarantine=Table(
                "quarantine",
                metadata,
                Column("id", BigInteger, primary_key=True),
                Column("lane", Text),
                Column("topic", Text),
                Column("partition", Integer),
                Column("offset", BigInteger),
                *(Column(name, LargeBinary) for name in ("key", "value")),
                Column("headers", JSON),
                Column("timestamp_ms", BigInteger),
                *(Column(name, Text) for name in ("source_schema", "source_table")),
                Column("key_text", LargeBinary),
                *(Column(name, Text) for name in ("stage", "verdict", "error_class", "error", "sqlstate")),
                *(Column(name, Integer) for name in ("attempts", "alone")),
                *(Column(name, BigInteger) for name in ("generation", "epoch")),
                Column("state", Text),
                *(Column(name, _TIME) for name in ("quarantined_at", "changed_at", "release_requested_at")),
                Column("release_requested_by", Text),
                Column("release_forced", Boolean),
                *(Column(name, Text) for name in ("release_reason", "release_refused")),
                Column("dead_lettered_at", _TIME),
            ),
            event=Table(
                "quarantine_event",
                metadata,
                Column("event", BigInteger, primary_key=True),
                Column("id", BigInteger),
                Column("at", _TIME),
                *(Column(name, Text) for name in ("what", "from_state", "to_state", "db_user", "who", "reason")),
                Column("forced", Boolean),
            ),
        )


@dataclass(frozen=True)
class AttemptTables:
    """Spans in progress and suspects, in the database of `guard.url`."""

    attempt: Table
    suspect: Table

    @classmethod
    @functools.cache
    def in_schema(cls, schema: str) -> "AttemptTables":
        metadata = MetaData(schema=schema)
        return cls(
            attempt=Table(
                "attempt",
                metadata,
                Column("lane", Text, primary_key=True),
                *(Column(name, BigInteger) for name in ("generation", "epoch")),
                Column("stage", Text),
                *(Column(name, JSONB) for name in ("span_start", "span_end")),
                Column("finished", Boolean),
                Column("host", Text),
                Column("pid", Integer),
                Column("begun_at", _TIME),
            ),
            suspect=Table(
                "suspect",
                metadata,
                *(Column(name, Text) for name in ("lane", "stage")),
                *(Column(name, JSONB) for name in ("span_start", "span_end")),
                *(Column(name, Integer) for name in SUSPECT_COUNTS),
                Column("controlled", Boolean),
                *(Column(name, Text) for name in ("cause", "error_class", "sqlstate")),
                *(Column(name, _TIME) for name in ("first_at", "last_at", "trouble_at")),
            ),
        )
