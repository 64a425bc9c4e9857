"""What an epoch's statements need to be sent in one round trip."""

from alembic import op

from app.db.sql import run

revision = "0024"
down_revision = "0023"

DDL = """
-- executes the statements in their order; the number of rows that each changed. Null, with none executed, where
-- `condition`, a query, finds no row
create function execute_all(condition text, statements text[]) returns bigint[] language plpgsql as $$
declare
    statement text;
    changed bigint;
    counts bigint[] := '{}';
begin
    execute condition;
    get diagnostics changed = row_count;
    if changed = 0 then
        return null;
    end if;
    foreach statement in array statements loop
        execute statement;
        get diagnostics changed = row_count;
        counts := counts || changed;
    end loop;
    return counts;
end
$$;
"""


def upgrade() -> None:
    """Create it in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
