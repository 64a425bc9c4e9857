"""Names and schemas of queries' state."""

from alembic import op

from app.db.sql import run

revision = "0022"
down_revision = "0021"

DDL = """
-- written by a query once it has a state, for savepoints, which read no checkpoint
create table query_state (
    lane            text primary key,      -- <lane>.<query>
    generation      bigint not null,
    stores          jsonb not null,        -- app.model.state_store
    written_at      timestamptz not null default clock_timestamp()
);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
