"""Dead letters: the quarantine is also the outbox of the topic that `guard.dead_letter` names.

dead_lettered_at   null: not sent (yet) -> when Kafka was known to have it; never null again
"""

from alembic import op

revision = "0006"
down_revision = "0005"

DDL = """
alter table quarantine add dead_lettered_at timestamptz;
create index on quarantine (lane, id) where dead_lettered_at is null;
"""


def upgrade() -> None:
    """Change the table in the schema that `app.ledger.migrations` put first on the search path."""
    op.get_bind().exec_driver_sql(DDL)
