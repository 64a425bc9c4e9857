"""Checks whether Postgres splits the rows of the target's tables into many small TOAST values.

Postgres moves values of a row over 2 kB to the TOAST table, the largest first, until the rest is below 2 kB. A row of
many short values becomes many rows there: each is written, indexed, and deleted again with the next update.
"""

from sqlalchemy import Connection, text

from app.apply.staging import INLINE_BYTES
from app.cli.doctor_checks.finding import Finding, warn
from app.cli.doctor_checks.table_check import SHOWN
from app.config.routes import Routes
from app.config.settings import Settings

#: doctor warns from this many TOAST rows for each row of the table on, of fewer than so many bytes each
PIECES, SMALL_BYTES = 4, 500
#: rows from which on a table's statistics count
ENOUGH_ROWS = 1000
_TAKEN_APART = text("""
    select format('%s.%I', c.relnamespace::regnamespace, c.relname) as quoted, n.nspname as schema, r.relname as name,
           round(t.reltuples / c.reltuples) as pieces
    from pg_class c join pg_class t on t.oid = c.reltoastrelid
      join pg_class r on r.oid = coalesce(pg_partition_root(c.oid), c.oid) join pg_namespace n on n.oid = r.relnamespace
    where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema', :own)
      and c.reltuples >= :enough and t.reltuples >= :pieces * c.reltuples
      and t.relpages * current_setting('block_size')::float8 < :bytes * t.reltuples
      and not exists (select from unnest(c.reloptions) option where starts_with(option, 'toast_tuple_target='))
    order by t.reltuples desc
""")


def long_rows(connection: Connection, settings: Settings) -> list[Finding]:
    """Tables, or their partitions, whose rows are cheaper kept whole, those with the most pieces first; by the last
    VACUUM's statistics."""
    routes, own = Routes(settings.target.tables), settings.target.db_schema
    parameters = {"enough": ENOUGH_ROWS, "pieces": PIECES, "bytes": SMALL_BYTES, "own": own}
    found = [row for row in connection.execute(_TAKEN_APART, parameters) if routes.reaches(row.schema, row.name)]
    return [
        warn(
            "long rows",
            f"Postgres moves about {row.pieces:.0f} small values of each row of {row.quoted} to its TOAST table",
            f"ALTER TABLE {row.quoted} SET (toast_tuple_target = {INLINE_BYTES}); rows written from then on stay whole "
            "as long as a page takes them, at half of the cost: docs/OPERATIONS.md, Tables with long rows",
        )
        for row in found[:SHOWN]
    ]
