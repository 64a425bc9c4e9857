"""The table of a query: upserts and deletes of an epoch, from its staging table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.apply.merge import LOOK_UPS
from app.apply.target_tables import TargetTable, is_unique, load_table
from app.config.queries import QuerySettings
from app.db.sql import quoted, run
from app.db.sqlstate import sqlstate
from app.errors import TargetMismatch
from app.model.gid import Gid
from app.query.result_sink import Written, column
from app.query.staged_results import PART, PLACE, StagedPart
from app.query.staging_table import StagingAccess, StagingTable, among

_UNIQUE_VIOLATION = "23505"


@dataclass(frozen=True)
class ResultTable:
    """The table of a query; a ResultSink. Its statements run in the caller's transaction."""

    query: str
    table: TargetTable
    key: tuple[str, ...]
    #: columns of the result, the marker of deletes left out
    columns: tuple[str, ...]
    deleted: str | None
    staging: StagingTable

    @classmethod
    def find(
        cls,
        connection: Connection,
        query: str,
        config: QuerySettings,
        columns: Sequence[str],
        schema: str,
        access: StagingAccess,
    ) -> "ResultTable":
        """Raises TargetMismatch for a table that does not fit the result. `columns`: of the result; `schema`:
        Surelane's own."""
        assert config.table is not None, "the query has a table"
        where, _, name = config.table.partition(".")
        table = load_table(connection, where, name)
        if table is None:
            raise _unfit(query, f"there is no table {config.table}", "create it, with the result's columns and its key")
        key = config.key or table.key
        if not key:
            raise _unfit(query, f"table {table} has no primary key", "add one, or name a unique index's columns: key")
        written = tuple(name for name in columns if name != config.deleted)
        if config.deleted is not None and config.deleted not in columns:
            raise _unfit(query, f"the result has no column {config.deleted}, which `deleted` names", "name one of it")
        if lost := [name for name in written if name not in table.by_name]:
            raise _unfit(
                query, f"table {table} has no column {', '.join(lost)}", "add it, or leave it out of the result"
            )
        if lost := [name for name in key if name not in written]:
            raise _unfit(query, f"the result lacks {', '.join(lost)} of the key of {table}", "add it to the result")
        if config.key and set(config.key) != set(table.key) and not is_unique(connection, table.oid, config.key):
            index = f"create unique index on {table.quoted_name} ({', '.join(map(quoted, config.key))})"
            raise _unfit(query, f"no index makes {', '.join(config.key)} unique in {table}", f"{index}; no NULLs")
        if made := [name for name in written if table.by_name[name].generated]:
            raise _unfit(query, f"{', '.join(made)} of {table} is computed by the target", "leave it out of the result")
        types = {name: table.by_name[name].type for name in written}
        if config.deleted is not None:
            types[config.deleted] = "boolean"
        staging = StagingTable(query, schema, types, access)
        return cls(query, table, tuple(key), written, config.deleted, staging)

    def __str__(self) -> str:
        return f"table {self.table}"

    def into(self, table: TargetTable) -> "ResultTable":
        """The same rows in another table of the same columns."""
        return replace(self, table=table)

    def make_room(self, connection: Connection, gid: Gid) -> None:
        del gid
        self.staging.empty(connection)

    def staged(self, rows: DataFrame) -> list[StagedPart]:
        return self.staging.staged(rows.select(*map(column, self.staging.types)))

    def check(self, receipts: Sequence[StagedPart]) -> None:
        self.staging.check(receipts)

    def write(self, connection: Connection, gid: Gid, receipts: Sequence[StagedPart]) -> Written:
        """Upsert and delete. Of several rows of a key the last one counts. Raises TargetMismatch where the target
        swallows a row."""
        del gid
        if not sum(one.rows for one in receipts):
            return Written(0, 0)
        rows = self._last_rows(receipts)
        deleted = self._delete(connection, rows) if self.deleted is not None else 0
        kept = rows if self.deleted is None else f"{rows} where {quoted(self.deleted)} is not true"
        upserted = self._upsert(connection, kept)
        # of rows with a key each, none is missing; to count the keys takes as long as to sort the rows once more
        if self.deleted is not None or upserted != sum(one.rows for one in receipts):
            self._check(upserted, run(connection, f"select count(*) from {kept}").scalar_one())  # noqa: S608  # quoted
        return Written(upserted, deleted)

    def _check(self, upserted: int, expected: int) -> None:
        if upserted != expected:
            raise TargetMismatch(
                f"lane {self.query}: table {self.table} took {upserted} of {expected} rows: a trigger or a rule of it "
                "leaves rows out. Nothing of the epoch was applied",
                hint="drop that trigger, or write to another table",
            )

    def replace_rows(self, connection: Connection, rows: TargetTable) -> int:
        """Put the rows of another table in place of all that the table has."""
        names = ", ".join(map(quoted, self.columns))
        run(connection, f"delete from {self.table.quoted_name}")  # noqa: S608  # names are quoted
        return run(
            connection,
            f"insert into {self.table.quoted_name} ({names}) select {names} from {rows.quoted_name}",  # noqa: S608
        ).rowcount

    def _last_rows(self, receipts: Sequence[StagedPart]) -> str:
        """A FROM item: the last staged row of each key."""
        key = ", ".join(map(quoted, self.key))
        return (
            f"(select distinct on ({key}) * from {self.staging.name} where {among(receipts)}"  # noqa: S608
            f" order by {key}, {PART} desc, {PLACE} desc) as rows"
        )

    def _upsert(self, connection: Connection, rows: str) -> int:
        """By MERGE, see `app.apply.merge.Merge.upsert`, unless another session inserts one of the rows meanwhile."""
        if self.table.takes_merge:
            try:
                with connection.begin_nested():
                    run(connection, LOOK_UPS)
                    return run(connection, self._merge(rows)).rowcount
            except IntegrityError as error:
                if sqlstate(error) != _UNIQUE_VIOLATION:
                    raise
        names, key = ", ".join(map(quoted, self.columns)), ", ".join(map(quoted, self.key))
        changes = ", ".join(f"{name} = excluded.{name}" for name in self._changed)
        return run(
            connection,
            f"insert into {self.table.quoted_name} ({names}) select {names} from {rows}"  # noqa: S608
            f" on conflict ({key}) do update set {changes}",
        ).rowcount

    def _merge(self, rows: str) -> str:
        names = ", ".join(map(quoted, self.columns))
        key = " and ".join(f"old.{quoted(name)} = new.{quoted(name)}" for name in self.key)
        changes = ", ".join(f"{name} = new.{name}" for name in self._changed)
        values = ", ".join(f"new.{quoted(name)}" for name in self.columns)
        return (
            f"merge into {self.table.quoted_name} as old using (select {names} from {rows}) as new on {key}"  # noqa: S608
            f" when matched then update set {changes} when not matched then insert ({names}) values ({values})"
        )

    @property
    def _changed(self) -> list[str]:
        """Quoted columns that an upsert sets: of a table that has a key only one of it."""
        others = [quoted(name) for name in self.columns if name not in self.key]
        return others or [quoted(self.key[0])]

    def _delete(self, connection: Connection, rows: str) -> int:
        assert self.deleted is not None, "asked for"
        same = " and ".join(f"old.{quoted(name)} = rows.{quoted(name)}" for name in self.key)
        return run(
            connection,
            f"delete from {self.table.quoted_name} as old using {rows} where {same} and rows.{quoted(self.deleted)}",  # noqa: S608
        ).rowcount


def _unfit(query: str, problem: str, hint: str) -> TargetMismatch:
    return TargetMismatch(f"lane {query}: {problem}", hint=hint)
