"""Pairs tables to compare: tables of the target that a route reaches, each with its source by that route."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, text

from app.apply.target_tables import TargetTable, load_table
from app.config.redaction import Redaction
from app.config.routes import Routes, halves, pattern
from app.config.settings import ColumnNames, Settings
from app.config.table_rules import TableRules
from app.errors import Refused
from app.verify.pair import Pair

Name = tuple[str, str]

#: prefix of the comment on a schema whose tables are not the lane's: a replay's, a shadow copy's
OWN_MARK = "Surelane: "
#: a partitioned table is compared as a whole where that is possible
_TABLES = text("""
    select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and c.relpersistence <> 't' and (:partitions or not c.relispartition)
      and case when cast(:only as text) is not null then n.nspname = :only else
          n.nspname !~ '^pg_' and n.nspname not in ('information_schema', :own)
          and not starts_with(coalesce(obj_description(n.oid, 'pg_namespace'), ''), :mark) end
    order by n.nspname collate "C", c.relname collate "C"
""")
_EVERY_COLUMN = ColumnNames()
_PATTERN = 'write it like "public.orders" or "public.*"'


def table_names(connection: Connection, own: str, *, only: str | None = None, partitions: bool = False) -> list[Name]:
    """Tables that belong neither to Postgres, nor to the schema `own`, nor to a replay or a shadow copy; `only`: of one
    schema."""
    values = {"own": own, "only": only, "partitions": partitions, "mark": OWN_MARK}
    return [(row[0], row[1]) for row in connection.execute(_TABLES, values)]


@dataclass(frozen=True)
class SkippedTable:
    """A table that is not compared."""

    table: str
    why: str


@dataclass(frozen=True)
class Choice:
    """The tables that the command line selects."""

    #: patterns of target tables; none: all
    tables: tuple[str, ...] = ()
    #: go on behind this table
    after: str | None = None
    #: whether the other database has the target's own names
    same_names: bool = False
    #: schema that has all tables of the other side, by the target's own names
    schema: str | None = None

    @property
    def is_copy(self) -> bool:
        """Whether the other side has the target's columns, not the source's."""
        return self.same_names or self.schema is not None

    def takes(self, name: Name) -> bool:
        """Whether a table of the target is selected."""
        if self.after is not None and name <= halves(self.after, "target", _PATTERN):
            return False
        patterns = [tuple(map(pattern, halves(one, "target", _PATTERN))) for one in self.tables]
        return not patterns or any(schema.fullmatch(name[0]) and table.fullmatch(name[1]) for schema, table in patterns)


class Pairing:
    """Finds the pairs; raises RouteInvalid for an invalid pattern."""

    def __init__(self, settings: Settings, choice: Choice) -> None:
        self._config, self._choice = settings.target, choice
        self._routes = Routes(settings.target.tables)
        self._columns = TableRules(settings.target.columns, _PATTERN)
        self._soft_delete = TableRules(settings.target.soft_delete, _PATTERN)
        self._redaction = Redaction(settings.guard.redact)
        choice.takes(("", ""))  # raises for an invalid pattern before anything is read

    def find(self, target: Connection, other: Connection) -> tuple[list[Pair], list[SkippedTable]]:
        """The pairs, in the order in which they are compared, and the tables that are left out."""
        pairs: list[Pair] = []
        skipped: list[SkippedTable] = []
        for name, sources in self._named(target, other):
            found = self._pair(target, other, name, sources)
            if isinstance(found, Pair):
                pairs.append(found)
            else:
                skipped.append(SkippedTable(".".join(name), found))
        return pairs, skipped

    def _named(self, target: Connection, other: Connection) -> list[tuple[Name, Sequence[Name]]]:
        """Target tables with their sources. A partition counts as a source only where the target has the table that it
        goes to and no whole table goes there."""
        there = set(table_names(target, self._config.db_schema))
        if self._choice.schema is not None:
            return self._in_schema(there, other, self._choice.schema)
        sources = self._placed(table_names(other, self._config.db_schema))
        for place, partitions in self._placed(table_names(other, self._config.db_schema, partitions=True)).items():
            if place in there and place not in sources:
                sources[place] = partitions
        names = sorted({*sources, *there})
        return [(name, sources[name]) for name in names if self._routes.reaches(*name) and self._choice.takes(name)]

    def _in_schema(self, there: Collection[Name], other: Connection, schema: str) -> list[tuple[Name, Sequence[Name]]]:
        """Each table of the target with the table of the same name in `schema`."""
        found = {name[1]: name for name in table_names(other, self._config.db_schema, only=schema)}
        if not found:
            hint = "names are as in pg_catalog; `surelane replay` prints the command that fits"
            raise Refused(f"the other database has no schema {schema} with tables", hint=hint)
        mine = [name for name in sorted(there) if self._routes.reaches(*name) and self._choice.takes(name)]
        mine = [name for name in mine if name[0] != schema]
        return [(name, [found[name[1]]] if name[1] in found else []) for name in mine]

    def _placed(self, names: Collection[Name]) -> defaultdict[Name, list[Name]]:
        """Source tables by the target table that they go to."""
        found: defaultdict[Name, list[Name]] = defaultdict(list)
        for name in names:
            place = name if self._choice.same_names else self._routes.target(*name)
            if place is not None:
                found[place].append(name)
        return found

    def _pair(self, target: Connection, other: Connection, name: Name, sources: Sequence[Name]) -> Pair | str:
        mine = load_table(target, *name)
        if mine is None:
            return "not in the target"
        if not sources:
            return "not in the other database"
        if len(sources) > 1:
            return f"{len(sources)} tables of the other database go there: {', '.join(map('.'.join, sources))}"
        theirs = load_table(other, *sources[0])
        if theirs is None:
            return "not in the other database"
        mine = replace(mine, key=tuple(self._config.keys.get(str(mine), mine.key)))
        return self._paired(mine, theirs, sources[0])

    def _paired(self, mine: TargetTable, theirs: TargetTable, source: Name) -> Pair | str:
        names = self._columns.of(*source) or _EVERY_COLUMN
        called = {
            there: column.name
            for column in theirs.columns
            if (there := column.name if self._choice.is_copy else names.target(column.name)) is not None
        }
        columns = tuple(
            (column.name, called[column.name])
            for column in mine.columns
            if column.name in called and not column.generated and not theirs.by_name[called[column.name]].generated
        )
        if not mine.key:
            return "no primary key, and none in target.keys"
        if lost := [name for name in mine.key if name not in dict(columns)]:
            return f"key column {', '.join(lost)} is not in the other database, or generated"
        compared = dict(columns)
        alone = [column.name for column in mine.columns if column.name not in compared]
        alone += [column.name for column in theirs.columns if column.name not in compared.values()]
        return Pair(
            target=mine,
            other=theirs,
            columns=columns,
            key=mine.key,
            hidden=self._hidden(columns, source),
            left_out=tuple(dict.fromkeys(alone)),
            soft_delete=self._marker(mine, source),
        )

    def _marker(self, mine: TargetTable, source: Name) -> str | None:
        """The column that marks deleted rows; of a copy, whose schema is not the source's, by the table's name."""
        found = self._soft_delete.of(*source)
        if found is None and self._choice.is_copy:
            rules = self._config.soft_delete.items()
            named = (one for rule, one in rules if pattern(rule.partition(".")[2]).fullmatch(mine.name))
            found = next((one for one in named if one.column in mine.by_name), None)
        return None if found is None else found.column

    def _hidden(self, columns: Sequence[tuple[str, str]], source: Name) -> frozenset[str]:
        """Redacted columns. Redaction names the source's columns; for a copy of the target the source table is unknown,
        so the columns of every table's redaction count."""
        if not self._choice.is_copy:
            hidden = self._redaction.columns(*source)
            return frozenset(name for name, theirs in columns if theirs in hidden)
        hidden = self._redaction.columns(None, None)
        renames = [pair for rule in self._config.columns.values() for pair in rule.rename.items()]
        before = {name: {name, *(old for old, new in renames if new == name)} for name, _ in columns}
        return frozenset(name for name, olds in before.items() if any(old in hidden for old in olds))
