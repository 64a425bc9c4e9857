"""What an epoch's statements need to be sent with the end of its transaction: their row counts are checked there."""

from alembic import op

from app.db.sql import run

revision = "0026"
down_revision = "0025"

DDL = """
-- as execute_all, for statements whose effect is known: fails (P0001) where `condition` finds no row, or a statement
-- changes another number of rows than `expected` (null: any), unless they are fewer and its query of `unless` (null:
-- none) finds no row. Reports to the client how long that took
create function execute_exactly(condition text, statements text[], expected bigint[], unless text[]) returns void
language plpgsql as $$
declare
    begun timestamptz := clock_timestamp();
    changed bigint;
    found_rows bigint;
begin
    execute condition;
    get diagnostics changed = row_count;
    if changed = 0 then
        raise exception 'the lane has another writer, or another position';
    end if;
    for place in 1 .. cardinality(statements) loop
        execute statements[place];
        get diagnostics changed = row_count;
        continue when changed = coalesce(expected[place], changed);
        if changed < expected[place] and unless[place] is not null then
            execute unless[place];
            get diagnostics found_rows = row_count;
            continue when found_rows = 0;
        end if;
        raise exception 'statement % of an epoch changed % rows, not %', place, changed, expected[place];
    end loop;
    raise info 'surelane: % ms', extract(epoch from clock_timestamp() - begun) * 1000;
end
$$;
"""


def upgrade() -> None:
    """Create it in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
