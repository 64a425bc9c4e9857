"""Guard: what is being processed, and which messages have stood in the way. May live in another database (`guard.url`).

attempt   the span in progress of each lane: begun (finished = false) -> finished; unfinished after a death
suspect   spans that were in progress at a failure: narrowed to smaller ones, gone when an epoch has passed over them
"""

from alembic import op

revision = "0002"
down_revision = "0001"

DDL = """
create table attempt (
    lane        text primary key,
    generation  bigint not null,           -- of the writer; one with an older generation writes nothing
    epoch       bigint not null,
    stage       text not null check (stage in ('epoch', 'decode', 'message', 'transform', 'apply')),
    span_start  jsonb not null,            -- {topic: {partition: offset}}, first offset of each partition
    span_end    jsonb not null,            -- and the one after the last
    finished    boolean not null,
    host        text not null,
    pid         int not null,
    begun_at    timestamptz not null default clock_timestamp()
);
create table suspect (
    lane        text not null,
    stage       text not null check (stage in ('epoch', 'decode', 'message', 'transform', 'apply')),
    span_start  jsonb not null,
    span_end    jsonb not null,
    attempts    int not null,              -- failures that count against it
    losses      int not null,              -- connections to the target lost while it was in progress
    cause       text not null,             -- of the last failure, in words
    error_class text not null,
    sqlstate    text,
    first_at    timestamptz not null default clock_timestamp(),
    last_at     timestamptz not null default clock_timestamp(),
    primary key (lane, stage, span_start, span_end)
);
"""


def upgrade() -> None:
    """Create the tables in the schema that `app.ledger.migrations` put first on the search path."""
    op.get_bind().exec_driver_sql(DDL)
