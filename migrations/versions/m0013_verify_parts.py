"""What a comparison has come to so far, table by table, so that a killed one goes on behind it.

begun -> a row for each table that is compared -> all of them deleted when it is finished
"""

from alembic import op

from app.db.sql import run

revision = "0013"
down_revision = "0012"

DDL = """
create table verification_part (
    lane        text not null,
    comparison  text not null,             -- hash of what is compared with what
    name        text not null,             -- schema.table of the target
    at          timestamptz not null default clock_timestamp(),
    result      jsonb not null,            -- rows, counts, and the keys that differ
    primary key (lane, comparison, name)
);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
