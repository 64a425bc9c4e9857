"""The last comparisons of a lane, each with what it found."""

from alembic import op

from app.db.sql import run

revision = "0023"
down_revision = "0022"

DDL = """
-- the newest 50 of each lane; `verification` has the last one's counts, for the metrics
create table verification_run (
    id         bigint generated always as identity primary key,
    lane       text not null,
    at         timestamptz not null default clock_timestamp(),
    against    text not null,              -- host:port/database, nothing else of the URL
    tables     integer not null,
    rows       bigint not null,
    differing  bigint not null,
    result     jsonb not null              -- app.verify.outcome_document, redacted as guard.redact was then
);
create index on verification_run (lane, id);
"""


def upgrade() -> None:
    """Create the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
