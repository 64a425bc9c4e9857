"""What a running lane waits for before its next epoch, and where it is in topics that it does not read any more."""

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
"""


def upgrade() -> None:
    """Both in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
