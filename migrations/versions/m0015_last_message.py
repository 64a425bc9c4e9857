"""What identifies the last message that a lane has applied, so that a start notices when its offset means another one.

It is part of the ledger row: it comes and goes with the epoch's transaction, and a snapshot of the target carries it.
"""

from alembic import op

from app.db.sql import run

revision = "0015"
down_revision = "0014"

DDL = """
-- {topic: {partition: {offset, leader_epoch, timestamp_ms, digest}}}; null: of an older version, or not known
alter table ledger add column last_message jsonb;

-- {topic[partition]: what Kafka has now in place of the last applied message}; null: nothing was replaced
alter table gap add column rewritten jsonb;
"""


def upgrade() -> None:
    """Add the columns in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
