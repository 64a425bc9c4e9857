"""The SQL of one rollup. Names are quoted.

    rows of the statement   +1 for each new row, -1 for each old one, summed by group   (delta)
    groups                  their values so far plus the delta; a group without rows is deleted
    min, max                of the rows of the group, where the delta took the extreme away

The function locks the rollup's table against other writers: what it read of a group is still true when it writes. Each
trigger of a MERGE (insert, update, delete) gets its own rows; counts and sums add up in any order, and an extreme is
computed of the table as the whole statement left it.
"""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from app.apply.target_tables import TargetTable
from app.config.rollups import Aggregate, AggregateFunction, RollupSettings
from app.db.sql import literal, quoted
from app.errors import TargetMismatch

#: columns of the rollup's table beside those of the configuration begin with it
_OWN = "surelane_"
ROWS = f"{_OWN}rows"
_INTEGERS = ("smallint", "integer", "bigint")
_INSTANTS = ("timestamp without time zone", "timestamp with time zone")
#: where buckets begin
_ORIGIN = "2000-01-01"
#: numeric's values that + and - do not take back
_SPECIAL = {"nan": "NaN", "plus": "Infinity", "minus": "-Infinity"}
#: rows of an event, and the sign of what they add
_SIDES = {"new": "", "old": "-"}
_EVENTS = ("insert", "update", "delete")


@dataclass(frozen=True)
class _Stored:
    """A stored column that is the sum of something over the rows of a group."""

    name: str
    type: str
    #: aggregate over the rows `{r}` of a group
    total: str


@dataclass(frozen=True)
class RollupDefinition:
    """`source`: the table that is aggregated."""

    lane: str
    name: str
    config: RollupSettings
    source: TargetTable
    #: Surelane's
    schema: str
    #: columns of the source that have no NULL
    not_null: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        lane: str,
        name: str,
        config: RollupSettings,
        source: TargetTable,
        schema: str,
        not_null: Collection[str] = (),
    ) -> "RollupDefinition":
        """Raises TargetMismatch for columns that the table lacks, and for types that cannot be aggregated exactly."""
        made = cls(lane, name, config, source, schema, frozenset(not_null))
        made._check()
        return made

    @property
    def table(self) -> str:
        where, _, name = self.config.table.partition(".")
        return f"{quoted(where)}.{quoted(name)}"

    @property
    def function(self) -> str:
        """Name of the trigger function, which the triggers have, too."""
        return f"rollup_{hashlib.sha256(f'{self.lane}.{self.name}'.encode()).hexdigest()[:24]}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the group."""
        return (*self.config.by, *(("bucket",) if self.config.bucket is not None else ()))

    @property
    def shown(self) -> tuple[str, ...]:
        """What the configuration names."""
        return (*self.keys, *self.config.aggregates)

    @property
    def mark(self) -> str:
        """Comment on the function: which rollup it is of, and a hash of its definition."""
        return f"rollup {self.name} of lane {self.lane}: {hashlib.sha256(self._text().encode()).hexdigest()[:16]}"

    def create(self) -> Iterator[str]:
        """Statements that make table, rows, function and triggers, in a transaction in which no other session writes
        to the source. What is there is dropped first."""
        yield from self.drop()
        columns = [f"{quoted(name)} {self._key_type(name)}" for name in self.keys]
        columns += [f"{quoted(one.name)} {one.type} not null" for one in self._stored()]
        columns += [f"{quoted(name)} {self._type(one)}" for name, one in self._extremes()]
        columns += [f"{quoted(name)} {kind} generated always as ({sql}) stored" for name, kind, sql in self._computed()]
        keys = ", ".join(map(quoted, self.keys))
        columns.append(f"unique nulls not distinct ({keys})")
        yield f"create table {self.table} ({', '.join(columns)}) with (fillfactor = 70)"
        yield self.fill()
        yield self._function_sql()
        function = f"{quoted(self.schema)}.{quoted(self.function)}"
        yield f"comment on function {function}() is {literal(self.mark)}"
        for event in _EVENTS:
            tables = [f"{side} table as {side}_rows" for side in ("old", "new") if _has(event, side)]
            yield (
                f"create trigger {quoted(f'{self.function}_{event}')} after {event} on {self.source.quoted_name}"
                f" referencing {' '.join(tables)} for each statement execute function {function}()"
            )
        yield (
            f"create trigger {quoted(f'{self.function}_truncate')} after truncate on {self.source.quoted_name}"
            f" for each statement execute function {function}()"
        )

    def enable_always(self) -> Iterator[str]:
        """Statements after which the triggers fire in replica sessions, too; the table's owner may execute them."""
        for event in (*_EVENTS, "truncate"):
            trigger = quoted(f"{self.function}_{event}")
            yield f"alter table {self.source.quoted_name} enable always trigger {trigger}"

    def drop(self) -> Iterator[str]:
        """Statements that remove it."""
        yield f"drop function if exists {quoted(self.schema)}.{quoted(self.function)}() cascade"
        yield f"drop table if exists {self.table}"

    def fill(self) -> str:
        """Insert the groups of all rows."""
        names = [*self.keys, *(one.name for one in self._stored()), *(name for name, _ in self._extremes())]
        return f"insert into {self.table} ({', '.join(map(quoted, names))}) {self._all_groups()}"

    def differences(self) -> str:
        """Groups that differ from those of all rows, with both values as JSON."""
        names = [*self.keys, *(one.name for one in self._stored()), *(name for name, _ in self._extremes())]
        listed, key = ", ".join(map(quoted, names)), ", ".join(map(quoted, self.keys))
        # NULL is a value of a group, which no FULL JOIN compares
        fresh = f"select jsonb_build_array({key}) as group_key, to_jsonb(f) as fresh from ({self._all_groups()}) as f"  # noqa: S608
        there = f"select jsonb_build_array({key}) as group_key, to_jsonb(t) as there from"
        return (
            f"with fresh as ({fresh}), there as ({there} (select {listed} from {self.table}) as t)"  # noqa: S608
            " select there, fresh from there full join fresh using (group_key) where there is distinct from fresh"
        )

    def _all_groups(self) -> str:
        parts = [f"{self._key('s', name)} as {quoted(name)}" for name in self.keys]
        parts += [f"{one.total.format(r='s')} as {quoted(one.name)}" for one in self._stored()]
        parts += [f"{one.function}(s.{quoted(str(one.column))}) as {quoted(name)}" for name, one in self._extremes()]
        places = ", ".join(str(at + 1) for at in range(len(self.keys)))
        return f"select {', '.join(parts)} from {self.source.quoted_name} as s group by {places}"  # noqa: S608

    def _function_sql(self) -> str:
        body = "\n".join(
            [
                "declare emptied tid[];",
                "begin",
                f"lock table {self.table} in share row exclusive mode;",
                f"if tg_op = 'TRUNCATE' then delete from {self.table};",  # noqa: S608
                *(f"elsif tg_op = '{event.upper()}' then {self._change(event)};" for event in _EVENTS),
                "end if;",
                "return null;",
                "end",
            ]
        )
        return (
            f"create function {quoted(self.schema)}.{quoted(self.function)}() returns trigger language plpgsql"
            f" security definer set search_path = pg_catalog, pg_temp as {literal(body)}"
        )

    def _change(self, event: str) -> str:
        """The statements that add the rows of an event to the groups."""
        if any(self._extremes()):
            return self._change_with_extremes(event)
        names = [*self.keys, *(one.name for one in self._stored())]
        stored = [quoted(one.name) for one in self._stored()]
        listed = ", ".join(map(quoted, names))
        added = ", ".join(f"{name} = g.{name} + excluded.{name}" for name in stored)
        # a group is found by the unique index, which takes NULL for a value; no join does
        put = (
            f"insert into {self.table} as g ({listed}) {self._delta(event)}"
            f" on conflict ({', '.join(map(quoted, self.keys))}) do update set {added}"
            f" returning g.ctid as place, g.{quoted(ROWS)} as rows"
        )
        return (
            f"with put as ({put}) select array_agg(place) filter (where rows = 0) into emptied from put;"  # noqa: S608
            f" if emptied is not null then delete from {self.table} where ctid = any(emptied); end if"
        )

    def _delta(self, event: str) -> str:
        """SELECT of what the rows of an event add to each group. Each side is summed before the two are."""
        names = [quoted(name) for name in self.keys]
        total = [*names, *(f"sum({quoted(one.name)}) as {quoted(one.name)}" for one in self._stored())]
        for name, one in self._extremes():
            total += [f"{one.function}({quoted(f'{side}_{name}')}) as {quoted(f'{side}_{name}')}" for side in _SIDES]
        sides = [self._side(side, sign) for side, sign in _SIDES.items() if _has(event, side)]
        places = ", ".join(str(at + 1) for at in range(len(names)))
        return f"select {', '.join(total)} from ({' union all '.join(sides)}) as c group by {places}"  # noqa: S608

    def _side(self, side: str, sign: str) -> str:
        """SELECT of the groups of the new or the old rows of an event."""
        parts = [f"{self._key('c', name)} as {quoted(name)}" for name in self.keys]
        parts += [f"{sign}{one.total.format(r='c')} as {quoted(one.name)}" for one in self._stored()]
        for name, one in self._extremes():
            for other in _SIDES:
                value = f"{one.function}(c.{quoted(str(one.column))})" if other == side else f"null::{self._type(one)}"
                parts.append(f"{value} as {quoted(f'{other}_{name}')}")
        places = ", ".join(str(at + 1) for at in range(len(self.keys)))
        return f"select {', '.join(parts)} from {side}_rows as c group by {places}"  # noqa: S608

    def _change_with_extremes(self, event: str) -> str:
        match = " and ".join(self._same("r", "delta", name) for name in self.keys)
        extremes = list(self._extremes())
        values = [f"delta.{quoted(name)}" for name in self.keys]
        values += [
            f"coalesce(r.{quoted(one.name)}, 0) + delta.{quoted(one.name)} as {quoted(one.name)}"
            for one in self._stored()
        ]
        for name, one in extremes:
            best = "least" if one.function is AggregateFunction.MIN else "greatest"
            worse = "<=" if one.function is AggregateFunction.MIN else ">="
            new, old = f"delta.{quoted(f'new_{name}')}", f"delta.{quoted(f'old_{name}')}"
            now = f"{best}(r.{quoted(name)}, {new})"
            of_group = " and ".join(self._in_group("s", "delta", key) for key in self.keys)
            again = (
                f"(select {one.function}(s.{quoted(str(one.column))}) from {self.source.quoted_name} as s"  # noqa: S608
                f" where {of_group})"
            )
            # the extreme of what went is the group's: it may be gone
            values.append(f"case when {old} {worse} {now} then {again} else {now} end as {quoted(name)}")
        names = [*self.keys, *(one.name for one in self._stored()), *(name for name, _ in extremes)]
        updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in self.keys)
        listed = ", ".join(map(quoted, names))
        gone = " and ".join(self._same("g", "changed", name) for name in self.keys)
        return (
            f"with delta as materialized ({self._delta(event)}),"  # noqa: S608
            f" changed as materialized (select {', '.join(values)} from delta left join {self.table} as r on {match}),"
            f" emptied as (delete from {self.table} as g using changed where {gone} and changed.{quoted(ROWS)} = 0)"
            f" insert into {self.table} ({listed}) select {listed} from changed where {quoted(ROWS)} <> 0"
            f" on conflict ({', '.join(map(quoted, self.keys))}) do update set {updates}"
        )

    def _stored(self) -> Iterator[_Stored]:
        """Columns that are sums over the rows."""
        yield _Stored(ROWS, "bigint", "count(*)")
        for name, one in self.config.aggregates.items():
            if one.column is None or one.function in (AggregateFunction.MIN, AggregateFunction.MAX):
                continue
            value = f"{{r}}.{quoted(one.column)}"
            yield _Stored(f"{_OWN}n_{name}", "bigint", f"count({value})")
            if one.function is AggregateFunction.COUNT:
                continue
            if self._is_integer(one):
                yield _Stored(f"{_OWN}sum_{name}", "numeric", f"coalesce(sum({value}), 0)::numeric")
                continue
            # one with a precision has no infinities
            possible = {"nan": _SPECIAL["nan"]} if "(" in self._type(one) else _SPECIAL
            special = ", ".join(f"'{text}'" for text in possible.values())
            finite = f"coalesce(sum({value}) filter (where {value} not in ({special})), 0)"
            yield _Stored(f"{_OWN}sum_{name}", "numeric", finite)
            for kind, text in _SPECIAL.items():
                counted = f"count(*) filter (where {value} = '{text}')" if kind in possible else "0"
                yield _Stored(f"{_OWN}{kind}_{name}", "bigint", counted)

    def _extremes(self) -> Iterator[tuple[str, Aggregate]]:
        for name, one in self.config.aggregates.items():
            if one.function in (AggregateFunction.MIN, AggregateFunction.MAX):
                yield name, one

    def _computed(self) -> Iterator[tuple[str, str, str]]:
        """Name, type and SQL of the columns that the others give."""
        for name, one in self.config.aggregates.items():
            count, total = quoted(f"{_OWN}n_{name}"), self._total(name, one)
            match one.function:
                case AggregateFunction.COUNT:
                    yield name, "bigint", quoted(ROWS) if one.column is None else count
                case AggregateFunction.SUM:
                    yield name, "numeric", f"case when {count} > 0 then {total} end"
                case AggregateFunction.AVG:
                    yield name, "numeric", f"case when {count} > 0 then {total} / {count} end"
                case _:
                    continue

    def _total(self, name: str, one: Aggregate) -> str:
        finite = quoted(f"{_OWN}sum_{name}")
        if one.column is None or self._is_integer(one):
            return finite
        nan, plus, minus = (quoted(f"{_OWN}{kind}_{name}") for kind in _SPECIAL)
        return (
            f"(case when {nan} > 0 or ({plus} > 0 and {minus} > 0) then 'NaN' when {plus} > 0 then 'Infinity'"
            f" when {minus} > 0 then '-Infinity' else {finite} end)"
        )

    def _key(self, row: str, name: str) -> str:
        """A column of the group, computed of a row."""
        bucket = self.config.bucket
        if name in self.config.by or bucket is None:
            return f"{row}.{quoted(name)}"
        kind = self.source.by_name[bucket.column].type
        return f"date_bin({self._width}, {row}.{quoted(bucket.column)}, '{_ORIGIN}'::{kind})"

    @property
    def _width(self) -> str:
        assert self.config.bucket is not None, "asked for"
        return f"interval '{int(self.config.bucket.width.total_seconds() * 1_000_000)} microseconds'"

    def _same(self, one: str, other: str, name: str) -> str:
        """An index serves `=` only."""
        operator = "=" if self._column(name) in self.not_null else "is not distinct from"
        return f"{one}.{quoted(name)} {operator} {other}.{quoted(name)}"

    def _in_group(self, row: str, group: str, name: str) -> str:
        """Whether a row of the source is in a group, in a way that an index helps with."""
        value, column = f"{group}.{quoted(name)}", f"{row}.{quoted(self._column(name))}"
        inside = f"{column} = {value}"
        if self._column(name) != name or name not in self.config.by:
            # infinity is its own bucket, and less than nothing
            inside = f"{column} >= {value} and {column} <= {value} + ({self._width} - interval '1 microsecond')"
        if self._column(name) in self.not_null:
            return inside
        return f"(({inside}) or ({column} is null and {value} is null))"

    def _column(self, name: str) -> str:
        """The column of the source that a column of the group comes from."""
        bucket = self.config.bucket
        return name if name in self.config.by or bucket is None else bucket.column

    def _key_type(self, name: str) -> str:
        return self.source.by_name[self._column(name)].type

    def _type(self, one: Aggregate) -> str:
        return self.source.by_name[str(one.column)].type

    def _is_integer(self, one: Aggregate) -> bool:
        return self.source.by_name[str(one.column)].base in _INTEGERS

    def _text(self) -> str:
        """All that the definition consists of."""
        return "\n".join(
            [self._function_sql(), *(f"{name} {kind} {sql}" for name, kind, sql in self._computed()), self.fill()]
        )

    def _check(self) -> None:
        used = [*self.config.by, *(one.column for one in self.config.aggregates.values() if one.column is not None)]
        used += [self.config.bucket.column] if self.config.bucket is not None else []
        if lost := sorted({name for name in used if name not in self.source.by_name}):
            raise self._unfit(f"table {self.source} has no column {', '.join(lost)}", "name one of its columns")
        bucket = self.config.bucket
        if bucket is not None and self.source.by_name[bucket.column].base not in _INSTANTS:
            raise self._unfit(f"bucket.column {bucket.column} is no timestamp", "name a timestamp or timestamptz")
        for name, one in self.config.aggregates.items():
            adds = one.function in (AggregateFunction.SUM, AggregateFunction.AVG)
            if adds and self.source.by_name[str(one.column)].base not in (*_INTEGERS, "numeric"):
                kind = self.source.by_name[str(one.column)].type
                raise self._unfit(
                    f"{name}: {one.function} of {one.column}, which is {kind}, is not exact under + and -",
                    "make the column an integer or numeric, or compute this in a query of its own",
                )
        if long := [one.name for one in self._stored() if len(one.name.encode()) > 63]:
            raise self._unfit(f"the name {long[0]} is too long for Postgres", "call the aggregate by a shorter name")

    def _unfit(self, problem: str, hint: str) -> TargetMismatch:
        return TargetMismatch(f"rollup {self.name}: {problem}", hint=hint)


def _has(event: str, side: str) -> bool:
    """Whether a statement of this kind has old or new rows."""
    return event == "update" or (event == "insert") == (side == "new")
