"""The last comparison of a lane's target with another database, for `surelane verify` and the metrics."""

from alembic import op

from app.db.sql import run

revision = "0010"
down_revision = "0009"

DDL = """
create table verification (
    lane       text primary key,
    at         timestamptz not null default clock_timestamp(),
    against    text not null,              -- host:port/database, nothing else of the URL
    tables     integer not null,           -- compared, of those that were chosen
    rows       bigint not null,            -- of the target in them
    differing  bigint not null             -- keys that one side lacks, or has with other values
);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
