"""Copies of a lane's tables that a second lane fills, until the two are switched."""

from alembic import op

from app.db.sql import run

revision = "0019"
down_revision = "0018"

DDL = """
-- written by `surelane shadow create`; `surelane shadow dispose` deletes it, or keeps it for a lane that was replaced
create table shadow_copy (
    lane            text primary key,      -- the second lane, of the new configuration
    original        text not null unique,  -- the lane whose tables are copied
    savepoint       text not null,         -- of the original
    copy_schema     text not null,         -- has the copy's tables until the switch
    old_schema      text not null,         -- has the original tables after it
    old_tables      jsonb not null,        -- [schema, table] of the original tables
    new_tables      jsonb not null,        -- [schema, table] of the copy's tables, as they are named after the switch
    state           text not null check (state in ('following', 'switched', 'disposed')),
    created_by      text not null,
    created_at      timestamptz not null default clock_timestamp(),
    switched_at     timestamptz
);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
