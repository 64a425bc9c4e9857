"""What a patch needs: an error where a row is not there that an update says only a part of."""

from alembic import op

from app.db.sql import run

revision = "0004"
down_revision = "0003"

DDL = """
create function all_there(target text, seen bigint, meant bigint) returns void language plpgsql as $$
begin
    if seen < meant then
        raise exception
            '% of % rows of % are not there: their updates leave large values out, so that no row can be made of them',
            meant - seen, meant, target
            using errcode = 'no_data_found', hint = 'at the source: alter table ... replica identity full';
    end if;
end
$$;
"""


def upgrade() -> None:
    """Create it in the schema that `app.ledger.migrations` put first on the search path."""
    run(op.get_bind(), DDL)
