"""Trouble: since when a suspect has kept the lane. Narrower suspects take it over from wider ones."""

from alembic import op

revision = "0005"
down_revision = "0004"

DDL = """
-- begin of the first attempt at the epoch that failed, by the database's clock
alter table suspect add trouble_at timestamptz not null default clock_timestamp();
"""


def upgrade() -> None:
    """Change the table in the schema that `app.ledger.migrations` put first on the search path."""
    op.get_bind().exec_driver_sql(DDL)
