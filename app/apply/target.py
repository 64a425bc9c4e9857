"""Target tables as the catalog describes them."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy import Connection, text

_COLUMNS = text("""
    select a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
           format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null) as base, a.atttypmod as typmod,
           t.typcategory as category, a.attgenerated <> '' as generated
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = cast(:oid as oid) and a.attnum > 0 and not a.attisdropped order by a.attnum
""")
_OID = text("""
    select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = :schema and c.relname = :name and c.relkind in ('r', 'p')
""")
_PRIMARY_KEY = text("""
    select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indrelid = cast(:oid as oid) and i.indisprimary order by array_position(i.indkey::int2[], a.attnum)
""")
_UNIQUE = text("""
    select exists (
        select from pg_index i
        where i.indrelid = cast(:oid as oid) and i.indisunique and i.indpred is null and i.indexprs is null
              and i.indimmediate and (
                  select array_agg(a.attname::text order by a.attname::text) filter (where a.attnotnull)
                  from unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
                  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
                  where k.n <= i.indnkeyatts
              ) = cast(:names as text[])
    )
""")
_PARENTS = text("""
    select distinct confrelid from pg_constraint
    where conrelid = cast(:oid as oid) and contype = 'f' and confrelid <> conrelid
""")


_CASCADES = text("""
    select exists (
        select from pg_constraint
        where confrelid = cast(:oid as oid) and contype = 'f' and confdeltype in ('c', 'n', 'd')
    )
""")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a target table."""

    name: str
    #: as DDL writes it, e.g. `numeric(12,2)`
    type: str
    #: without length or precision, domains resolved, e.g. `numeric`
    base: str
    #: length or precision as pg_attribute stores it, -1 for none
    typmod: int
    #: element of an array type
    is_array: bool
    #: computed by the target itself: never written
    generated: bool


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """One table that changes are merged into."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    #: names of the columns that a row is known by: the primary key's, in its order; empty for a table without one
    key: tuple[str, ...]
    #: oids of the tables its foreign keys point at, itself left out
    parents: frozenset[int]
    #: whether the target itself deletes or changes rows of other tables when a row of this one goes
    cascades: bool = False

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by name."""
        return {column.name: column for column in self.columns}

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def is_unique(connection: Connection, oid: int, names: Collection[str]) -> bool:
    """Whether an index of the table sees to it that no two rows have the same values in these columns, none NULL."""
    return connection.execute(_UNIQUE, {"oid": oid, "names": sorted(names)}).scalar_one()


def load_table(connection: Connection, schema: str, name: str) -> TargetTable | None:
    """Read the catalog; None when there is no such table."""
    oid = connection.execute(_OID, {"schema": schema, "name": name}).scalar_one_or_none()
    if oid is None:
        return None
    columns = connection.execute(_COLUMNS, {"oid": oid})
    return TargetTable(
        oid=oid,
        schema=schema,
        name=name,
        columns=tuple(
            Column(
                name=row.name,
                type=row.type,
                base=row.base,
                typmod=row.typmod,
                is_array=row.category == "A",
                generated=row.generated,
            )
            for row in columns
        ),
        key=tuple(connection.execute(_PRIMARY_KEY, {"oid": oid}).scalars()),
        parents=frozenset(connection.execute(_PARENTS, {"oid": oid}).scalars()),
        cascades=connection.execute(_CASCADES, {"oid": oid}).scalar_one(),
    )
