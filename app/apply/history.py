"""The versions of a table's rows: each from the change that made it to the one that ended it.

    columns of the table, valid_from, valid_to, opened_*: position of the change that made the version, closed_*

A version is written in the transaction of the epoch that writes the row, behind the merge, from the row as it is then:
what a change leaves out, and what the target computes, is in it, too. A change that is applied again finds its version
by position, and makes none. The current version has no `valid_to`.
"""

from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from app.apply.merge import Merge, Range
from app.apply.target_tables import TargetTable, is_name, load_table
from app.db.sql import literal, quoted, run
from app.errors import TargetMismatch
from app.model.row_layout import RowKind

log = structlog.get_logger()

_TIMES = {"valid_from": "timestamptz not null", "valid_to": "timestamptz"}
_PLACES = {"topic": "text", "partition": "int", "offset": "bigint"}
OPENED, CLOSED = ([f"{side}_{name}" for name in _PLACES] for side in ("opened", "closed"))


@dataclass(frozen=True)
class History:
    """The statements for changes of one kind that are in a staging table."""

    kind: RowKind
    target: TargetTable
    #: the table of the versions, quoted
    table: str
    merge: Merge
    #: whether each change makes a version, also where an epoch has several of one row
    every_change: bool = False

    def statements(self, ordinals: Range | None = None) -> list[str]:
        """Behind the merge of the same rows, or of a range of them. Of several changes of a key the last one counts."""
        match self.kind:
            case RowKind.DELETE:
                return [self._close(ordinals)]
            case RowKind.TRUNCATE:
                return [self.close_gone()]
            case _:
                return [self._close(ordinals), self._open(ordinals)]

    def close_gone(self) -> str:
        """Close the versions whose row is not there any more: after a truncate, by the time of the transaction."""
        soft = self.merge.soft_delete
        alive = "" if soft is None else f" and t.{quoted(soft)} is null"
        same = " and ".join(f"t.{quoted(name)} = h.{quoted(name)}" for name in self.target.key)
        return (
            f"update {self.table} h set valid_to = greatest(valid_from, now()) where valid_to is null"  # noqa: S608
            f" and not exists (select from {self.target.quoted_name} t where {same}{alive})"
        )

    def _close(self, ordinals: Range | None) -> str:
        """Close the open versions of the staged keys, but not those that these very changes have opened."""
        opened = ", ".join(f"t.{name}" for name in OPENED)
        places = ", ".join(f"{name} = s.{stamp}" for name, stamp in zip(CLOSED, self._stamps[1:], strict=True))
        return (
            f"update {self.table} t set valid_to = greatest(t.valid_from, {self.merge.source_time('s')}), {places}"  # noqa: S608
            f" from {self._last(ordinals)} where {self.merge.has_key('s')} and t.valid_to is null"
            f" and ({opened}) is distinct from ({', '.join(f's.{stamp}' for stamp in self._stamps[1:])})"
        )

    def _open(self, ordinals: Range | None) -> str:
        """Open a version for each staged key whose row is there. One that is there already (the change is applied
        again) is opened again, if the changes behind it are applied again, too."""
        soft = self.merge.soft_delete
        columns = [quoted(column.name) for column in self.target.columns if column.name != soft]
        names = ", ".join([*columns, "valid_from", *OPENED])
        stamps = ", ".join(f"s.{stamp}" for stamp in self._stamps[1:])
        alive = "" if soft is None else f" and t.{quoted(soft)} is null"
        return (
            f"insert into {self.table} ({names})"  # noqa: S608
            f" select {', '.join(f't.{name}' for name in columns)}, {self.merge.source_time('s')}, {stamps}"
            f" from {self.target.quoted_name} t join {self._last(ordinals)} on {self.merge.has_key('s')}{alive}"
            f" on conflict {self._again}"
        )

    @property
    def _again(self) -> str:
        if not self.every_change:
            return "do nothing"
        key = ", ".join([*map(quoted, self.target.key), *OPENED])
        return f"({key}) do update set {', '.join(f'{name} = null' for name in ('valid_to', *CLOSED))}"

    @property
    def _stamps(self) -> tuple[str, ...]:
        return self.merge.stamps

    def _last(self, ordinals: Range | None) -> str:
        """A FROM item: the last staged change of each key."""
        among = "" if ordinals is None else f" where i.{self.merge.ordinal} between {ordinals[0]} and {ordinals[1]}"
        key = ", ".join(f"i.{quoted(name)}" for name in self.target.key)
        ordered = f"{key}, i.{self.merge.ordinal} desc"
        return f"(select distinct on ({key}) i.* from {self.merge.staging} i{among} order by {ordered}) s"  # noqa: S608


def history_table(connection: Connection, lane: str, target: TargetTable, name: str) -> str:
    """The table of the versions, quoted; made, or given the columns that the target has got, where it lacks them.

    Raises TargetMismatch for a table of another shape."""
    schema, _, table = name.partition(".")
    if not (is_name(schema) and is_name(table)):
        raise TargetMismatch(f"lane {lane}: {name!r} cannot name a table", hint="see target.history")
    where = f"{quoted(schema)}.{quoted(table)}"
    known = load_table(connection, schema, table)
    own = {**_TIMES, **{name: f"{kind} not null" for name, kind in zip(OPENED, _PLACES.values(), strict=True)}}
    own |= dict(zip(CLOSED, _PLACES.values(), strict=True))
    if taken := sorted(set(own) & set(target.by_name)):
        raise TargetMismatch(
            f"lane {lane}: table {target} has columns that its history would have, too: {', '.join(taken)}",
            hint="rename them at the target (target.columns), or keep no history of this table",
        )
    if known is None:
        _make(connection, where, target, own)
        log.info("history made", lane=lane, of=str(target), table=name)
        return where
    if lacking := [column for column in own if column not in known.by_name]:
        raise TargetMismatch(
            f"lane {lane}: table {name} is no history of the lane's: it lacks {', '.join(lacking)}",
            hint="name another table in target.history: the lane makes it",
        )
    for column in target.columns:
        if column.name not in known.by_name:
            run(connection, f"alter table {where} add column {quoted(column.name)} {column.type}")
    return where


def _make(connection: Connection, where: str, target: TargetTable, own: dict[str, str]) -> None:
    columns = [f"{quoted(column.name)} {column.type}" for column in target.columns]
    columns += [f"{name} {kind}" for name, kind in own.items()]
    key = ", ".join([*map(quoted, target.key), *OPENED])
    run(connection, f"create table {where} ({', '.join(columns)}, primary key ({key}))")
    run(connection, f"create index on {where} ({', '.join(map(quoted, target.key))}) where valid_to is null")
    run(connection, f"comment on table {where} is {literal(f'Surelane: versions of {target}')}")
