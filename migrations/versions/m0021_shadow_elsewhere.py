"""Shadow copies in another database."""

from alembic import op

from app.db.sql import run

revision = "0021"
down_revision = "0020"

DDL = """
-- a copy in another database has its own tables there: nothing changes its schema
alter table shadow_copy
    add column url text,                   -- of the copy's database, without a password; null: this one
    alter column copy_schema drop not null,
    alter column old_schema drop not null,
    add constraint shadow_copy_place check ((url is null) = (copy_schema is not null and old_schema is not null));
"""


def upgrade() -> None:
    """Alter the table in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
