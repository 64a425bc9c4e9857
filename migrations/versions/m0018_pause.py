"""A lane's pause: it applies nothing while there is one."""

from alembic import op

from app.db.sql import run

revision = "0018"
down_revision = "0017"

DDL = """
-- written by `surelane pause`, deleted by `surelane resume`; the lane's process stays, and begins no epoch
create table pause (
    lane            text primary key,      -- of the configuration
    paused_by       text not null,
    reason          text,
    paused_at       timestamptz not null default clock_timestamp()
);

alter table lane_state
    drop constraint lane_state_state_check,
    add constraint lane_state_state_check check (state in ('starting', 'running', 'paused', 'stopped', 'failed'));
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
