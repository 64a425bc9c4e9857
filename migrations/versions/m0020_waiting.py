"""What a running lane waits for, where it is in topics that it does not read any more, and its paused tables."""

from alembic import op

from app.db.sql import run

revision = "0020"
down_revision = "0019"

DDL = """
alter table lane_state
    add column waits_for text,             -- in state waiting: what, for `surelane status`
    drop constraint lane_state_state_check,
    add constraint lane_state_state_check
        check (state in ('starting', 'running', 'waiting', 'paused', 'stopped', 'failed'));

-- written with the first ledger row without the topic, deleted with the first one that has it again
create table removed_topic (
    lane            text not null,
    topic           text not null,
    partition       integer not null,
    next_offset     bigint not null check (next_offset >= 0),
    removed_at      timestamptz not null default clock_timestamp(),
    primary key (lane, topic, partition)
);

-- written by `surelane pause --table`; the lane deletes it once `surelane resume --table` has had all applied
create table table_pause (
    lane            text not null,
    target_schema   text not null,
    target_table    text not null,
    paused_by       text not null,
    reason          text,
    paused_at       timestamptz not null default clock_timestamp(),
    taken_up_at     timestamptz,           -- since then the lane parks each change of it
    resumed_by      text,                  -- null: it is not resumed
    primary key (lane, target_schema, target_table)
);
"""


def upgrade() -> None:
    """All in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
