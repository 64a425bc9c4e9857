"""Target tables as the catalog describes them."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from sqlalchemy import Connection, text

from app.config.values import MAX_NAME_BYTES
from app.db.sql import quoted

_COLUMNS = text("""
    with recursive typed as (
        select a.attnum, a.attname, a.attgenerated, a.attidentity, format_type(a.atttypid, a.atttypmod) as type,
               a.atttypid as oid, a.atttypmod as typmod, a.attcollation as collated
        from pg_attribute a where a.attrelid = cast(:oid as oid) and a.attnum > 0 and not a.attisdropped
        union all
        select attnum, attname, attgenerated, attidentity, type, t.typbasetype,
               case typmod when -1 then t.typtypmod else typmod end, collated
        from typed join pg_type t on t.oid = typed.oid where t.typtype = 'd'
    )
    select attname as name, type, format_type(t.oid, null) as base, typmod, t.typtype as kind,
           t.typcategory = 'A' as is_array, attgenerated <> '' as generated, attidentity = 'a' as is_counted,
           exists (select from pg_collation c where c.oid = collated and not c.collisdeterministic) as is_lenient,
           format_type(e.oid, null) as item, format_type(e.oid, typmod) as item_type, e.typtype as item_kind
    from typed join pg_type t on t.oid = typed.oid left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
    where t.typtype <> 'd' order by attnum
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
                  select case when bool_and(a.attnotnull) then array_agg(a.attname::text order by a.attname::text) end
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
_RULES = text("select relhasrules from pg_class where oid = cast(:oid as oid)")
#: MERGE supports no rules; rows that a BEFORE trigger drops are only seen in INSERT's count
_MERGEABLE = text("""
    select current_setting('server_version_num')::int >= 150000 and not c.relhasrules and not exists (
        select from pg_trigger g
        where not g.tgisinternal and g.tgtype & 3 = 3
              and g.tgrelid in (select c.oid union select p.relid from pg_partition_tree(c.oid) p)
    )
    from pg_class c where c.oid = cast(:oid as oid)
""")


#: types whose equal values have one text: not so 1.0 and 1.00, or citext's a and A
_EXACT = frozenset(
    {
        *("smallint", "integer", "bigint", "oid", "boolean", "uuid", "bytea", "date", "text", "name", "character"),
        *("character varying", "timestamp without time zone", "timestamp with time zone", "time without time zone"),
        *("inet", "cidr", "macaddr", "macaddr8", "pg_lsn", "xid8", "bit", "bit varying", '"char"'),
    }
)

#: how numeric's precision and scale share a typmod: above a header, the scale in 11 bits with a sign
_TYPMOD_HEADER, _SCALE_MASK, _SCALE_SIGN = 4, 0x7FF, 0x400


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
    #: whether it is an array; `item` is then the type of its elements, see `element`
    is_array: bool
    #: computed by the target itself: never written
    generated: bool
    #: pg_type.typtype, domains resolved: `b`ase, `c`omposite, `e`num, `r`ange, `m`ultirange
    kind: str = "b"
    #: whether its collation takes different texts for equal
    is_lenient: bool = False
    #: GENERATED ALWAYS AS IDENTITY: an INSERT may write it, an UPDATE may not
    is_counted: bool = False
    item: str = ""
    item_type: str = ""
    item_kind: str = "b"

    @property
    def simple_base(self) -> str:
        """`base` without the schema of an extension's type."""
        return self.base.rpartition(".")[2]

    @property
    def is_exact(self) -> bool:
        """Whether equal values always have the same text."""
        return self.kind == "e" or (self.base in _EXACT and not self.is_lenient)

    @property
    def scale(self) -> int | None:
        """Digits after the point of a numeric that has a scale, which may be negative."""
        if self.base != "numeric" or self.typmod < _TYPMOD_HEADER:
            return None
        scale = (self.typmod - _TYPMOD_HEADER) & _SCALE_MASK
        return (scale ^ _SCALE_SIGN) - _SCALE_SIGN

    @property
    def element(self) -> "Column":
        """An element of the array as a column."""
        return replace(self, type=self.item_type, base=self.item, kind=self.item_kind, is_array=False, item="")


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """A table that changes are merged into."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    #: names of the columns that identify a row: the primary key's, in its order; empty for a table without one
    key: tuple[str, ...]
    #: oids of the tables that its foreign keys reference, itself left out
    parents: frozenset[int]
    #: whether the target deletes or changes rows of other tables when a row of this one is deleted
    cascades: bool = False
    #: whether MERGE may write its rows
    takes_merge: bool = False
    #: whether Postgres rewrites statements for it
    has_rules: bool = False

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @property
    def has_exact_key(self) -> bool:
        """Whether keys that Postgres calls equal always have the same text."""
        return all(self.by_name[name].is_exact for name in self.key)

    @property
    def has_writable_key(self) -> bool:
        """Whether an UPDATE may give a row another key."""
        return not any(self.by_name[name].is_counted for name in self.key)

    @property
    def quoted_name(self) -> str:
        """Schema and name, quoted."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def is_unique(connection: Connection, oid: int, names: Collection[str]) -> bool:
    """Whether an index guarantees that no two rows have the same values in these columns, none of them NULL."""
    return connection.execute(_UNIQUE, {"oid": oid, "names": sorted(names)}).scalar_one()


def is_name(text: str) -> bool:
    """Whether Postgres takes this as a name: it cuts a longer one, and would find another table or column."""
    return 0 < len(text.encode()) <= MAX_NAME_BYTES and "\x00" not in text


def load_table(connection: Connection, schema: str, name: str) -> TargetTable | None:
    """Read the catalog; None when there is no such table."""
    if not (is_name(schema) and is_name(name)):
        return None
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
                is_array=row.is_array,
                generated=row.generated,
                kind=row.kind,
                is_lenient=row.is_lenient,
                is_counted=row.is_counted,
                item=row.item or "",
                item_type=row.item_type or "",
                item_kind=row.item_kind or "b",
            )
            for row in columns
        ),
        key=tuple(connection.execute(_PRIMARY_KEY, {"oid": oid}).scalars()),
        parents=frozenset(connection.execute(_PARENTS, {"oid": oid}).scalars()),
        cascades=connection.execute(_CASCADES, {"oid": oid}).scalar_one(),
        takes_merge=connection.execute(_MERGEABLE, {"oid": oid}).scalar_one(),
        has_rules=connection.execute(_RULES, {"oid": oid}).scalar_one(),
    )
