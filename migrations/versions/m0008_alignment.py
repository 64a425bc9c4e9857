"""Alignment: an epoch that ends where a source transaction ends has read further than it applied."""

from alembic import op

revision = "0008"
down_revision = "0007"

DDL = """
-- end of what was read, {topic: {partition: next offset}}; null: end_position. What lies between the two waits for the
-- rest of its source transaction, and is part of the next epoch.
alter table ledger add read_position jsonb;
"""


def upgrade() -> None:
    """Change the table in the schema that `app.ledger.migrations` put first on the search path."""
    op.get_bind().exec_driver_sql(DDL)
