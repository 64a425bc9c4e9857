"""A lane's order to stop for a savepoint, as the last thing that it does."""

from alembic import op

from app.db.sql import run

revision = "0017"
down_revision = "0016"

DDL = """
-- written by `surelane savepoint create --stop`; the lane ends, and does not start again while there is one
create table stop_order (
    lane            text primary key,      -- of the configuration
    savepoint       text not null,         -- name of the one that is made when the lane has ended
    ordered_by      text not null,
    ordered_at      timestamptz not null default clock_timestamp()
);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
