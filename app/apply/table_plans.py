"""Finds the target table for the shape of a message: routes, catalog and encodings, remembered between epochs."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from app.apply import staging
from app.apply.encoding import Encoding, EncodingUnknown, encoding_of
from app.apply.evolution import add_columns, type_of, widen
from app.apply.history import History, history_table
from app.apply.merge import Merge
from app.apply.rules import TargetRules
from app.apply.staging import Field, Staging
from app.apply.staging_vacuum import Reclaiming
from app.apply.target_tables import Column, TargetTable, is_name, is_unique, load_table
from app.config.settings import ColumnNames, OnTruncate, SchemaEvolution, UnknownColumn, UnknownTable
from app.db.sql import run
from app.db.sqlstate import translated
from app.errors import TargetMismatch
from app.model.offsets import Position
from app.model.row_layout import Layout, RowKind

log = structlog.get_logger()

#: Connect schema fields by column name
Described = Mapping[str, Mapping[str, Any]]
#: reads them from the message at a position
Schemas = Callable[[Position, Layout], Described]
#: until the catalog is read again for what a running lane leaves out
LOOK_AGAIN_SECONDS = 60.0
#: for our own DDL: where a session holds the table longer, a retry waits for it, and none queues behind us for long
_DDL_LOCK = "set local lock_timeout = '5s'"


@dataclass(frozen=True)
class TablePlan:
    """What is needed to write messages of one layout to their table."""

    kind: RowKind
    target: TargetTable
    staging: Staging
    merge: Merge
    #: the message's names for the columns of the target's key
    key: frozenset[str]
    #: None: the versions of its rows are not kept
    history: History | None = None

    def over(self, schema: str, table: Staging) -> "TablePlan":
        """The same with another staging table. `schema`: of the lane's own tables."""
        merge = Merge(schema, self.target, table, self.merge.soft_delete)
        history = None if self.history is None else replace(self.history, merge=merge)
        return replace(self, staging=table, merge=merge, history=history)

    @property
    def has_values(self) -> bool:
        """Whether it has columns besides the key."""
        return len(self.staging.fields) > len(self.target.key)

    @property
    def leaves_out(self) -> bool:
        """Whether a column of the message is left out."""
        return any(field.column not in self.target.columns for field in self.staging.fields)


@dataclass(frozen=True)
class _Known:
    """The plan of a layout; None: its table is left out."""

    shape: TablePlan | None
    #: by the monotonic clock
    made_at: float

    @property
    def is_old(self) -> bool:
        """Whether to read the catalog again: the target may have by now what the plan leaves out."""
        left_out = self.shape is None or self.shape.leaves_out
        return left_out and time.monotonic() - self.made_at > LOOK_AGAIN_SECONDS


class TablePlans:
    """Plans of one lane. Staging tables are created on a connection of their own, before the epoch's transaction; to be
    called inside of `together`."""

    def __init__(self, engine: Engine, schema: str, lane: str, rules: TargetRules, schemas: Schemas) -> None:
        self._engine, self.schema, self._lane = engine, schema, lane
        self._rules, self._config, self._schemas = rules, rules.config, schemas
        self._known: dict[Layout, _Known] = {}
        #: every staging table since the start, by name
        self._stagings: dict[str, Staging] = {}
        self._reclaiming = Reclaiming(engine)
        self._connection: Connection | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls inside share one connection, opened by the first that needs it: that costs more than their queries."""
        try:
            yield
        finally:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def reset(self) -> None:
        """Forget the catalog and drop the lane's staging tables; called at the lane's start."""
        self._known.clear()
        self._stagings.clear()
        with translated("dropping old staging tables"), self._engine.begin() as connection:
            staging.drop_all(connection, self.schema, self._lane)

    def forget(self) -> None:
        """Read the catalog again for the next epoch: the target may have been altered since it was read."""
        self._known.clear()

    def shape(self, layout: Layout, example: Position) -> TablePlan | None:
        """Plan of `layout`, None when its table is left out; `example` is the position of a message that has it.

        Raises TargetMismatch, naming the message, when the target cannot take it.
        """
        known = self._known.get(layout)
        if known is None or known.is_old:
            with translated(f"reading the catalog for {layout.source}"):
                known = self._known[layout] = _Known(self._make(layout, example), time.monotonic())
        return known.shape

    def known(self, layout: Layout) -> TablePlan | None:
        """What `shape` would return, without a query, and from any thread; None where that is not known."""
        known = self._known.get(layout)
        return None if known is None or known.is_old else known.shape

    def knows(self, layout: Layout) -> bool:
        """Whether `known` has the answer, be it that the table is left out."""
        known = self._known.get(layout)
        return known is not None and not known.is_old

    def leaves_out(self, layout: Layout) -> bool:
        """Whether changes of this table are ignored, whatever they are."""
        if self._config.unknown_table is UnknownTable.STOP:
            return False
        place = self._rules.place(layout)
        with translated(f"reading the catalog for {layout.source}"), self._begin() as connection:
            return place is None or load_table(connection, *place) is None

    def reclaim(self) -> None:
        """Give back staging space; between epochs only, since a prepared transaction would block it."""
        self._reclaiming.run([table for table in self._stagings.values() if table.dirty > staging.RECLAIM_AFTER_BYTES])

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        """A separate transaction: its locks are released before the next."""
        if self._connection is None:
            self._connection = self._engine.connect()
        with self._connection.begin():
            yield self._connection

    def _make(self, layout: Layout, example: Position) -> TablePlan | None:
        if layout.kind is RowKind.TRUNCATE and self._config.on_truncate is OnTruncate.IGNORE:
            return None
        place = self._rules.place(layout)
        if place is None:
            if self._config.unknown_table is UnknownTable.IGNORE:
                return None
            raise self._mismatch(
                layout,
                example,
                f"schema {self.schema} has Surelane's own tables, no route leads there"
                if layout.schema == self.schema
                else "no route takes it",
                "add a route to target.tables, or set target.unknown_table: ignore",
            )
        with self._begin() as connection:
            target = load_table(connection, *place)
            if target is None:
                if self._config.unknown_table is UnknownTable.IGNORE:
                    return None
                raise self._mismatch(
                    layout,
                    example,
                    f"target table {'.'.join(place)} does not exist",
                    "create it, route it elsewhere in target.tables, or set target.unknown_table: ignore",
                )
            if layout.kind is RowKind.TRUNCATE and self._config.on_truncate is OnTruncate.STOP:
                raise self._mismatch(
                    layout,
                    example,
                    "it truncates the table",
                    "set target.on_truncate: apply (the target's rows are deleted) or ignore (they stay)",
                )
            target = self._with_key(connection, target, layout, example)
            names = self._rules.names(layout)
            described = self._schemas(example, layout) if layout.schema_hash else {}
            if layout.kind in (RowKind.UPSERT, RowKind.PATCH):
                target = self._evolved(connection, layout, target, names, described, example)
            self._check(layout, target, names, example)
            fields = self._fields(layout, target, names, described, example)
            soft = self._soft_delete(layout, target, names, example)
            versions = self._rules.history(layout)
            stamped = soft is not None or versions is not None
            table = staging.create(connection, self.schema, self._lane, target, fields, stamped=stamped)
            table = self._stagings.setdefault(table.name, table)  # `dirty` of a known one is kept
            key = frozenset(name for name in layout.columns if names.target(name) in target.key)
            merge = Merge(self.schema, target, table, soft)
            plan = TablePlan(layout.kind, target, table, merge, key)
            if versions is None:
                return plan
            where = history_table(connection, self._lane, target, versions.table)
            return replace(plan, history=History(layout.kind, target, where, merge, versions.every_change))

    def _soft_delete(self, layout: Layout, target: TargetTable, names: ColumnNames, example: Position) -> str | None:
        """The column that a delete sets. Raises TargetMismatch where the target lacks it, or the source has it."""
        column = self._rules.soft_delete(layout)
        if column is None:
            return None
        found = target.by_name.get(column)
        if found is None or found.base != "timestamp with time zone":
            ddl = f"alter table {target} add column {column} timestamptz"
            raise self._mismatch(layout, example, f"target table {target} has no timestamptz column {column}", ddl)
        if column in [names.target(name) for name in layout.columns]:
            problem = f"the source has column {column}, which target.soft_delete names"
            raise self._mismatch(layout, example, problem, "name another column, which the target's table alone has")
        return column

    def _with_key(self, connection: Connection, target: TargetTable, layout: Layout, example: Position) -> TargetTable:
        """The table with the key that the configuration gives it instead of its own."""
        key = tuple(self._config.keys.get(str(target), ()))
        if not key:
            return target
        if not is_unique(connection, target.oid, key):
            raise self._mismatch(
                layout,
                example,
                f"target.keys says that rows of {target} are known by {', '.join(key)}, but nothing keeps that unique",
                f"create unique index on {target} ({', '.join(key)}), without WHERE and not deferrable, and make the "
                "columns NOT NULL",
            )
        return replace(target, key=key)

    def _check(self, layout: Layout, target: TargetTable, names: ColumnNames, example: Position) -> None:
        if layout.kind is RowKind.TRUNCATE:
            return
        if not target.key:
            raise self._mismatch(
                layout,
                example,
                f"target table {target} has no primary key",
                f"alter table {target} add primary key (...), or name the columns of a unique index in target.keys",
            )
        there = [name for name in map(names.target, layout.columns) if name is not None]
        keyless = [name for name in target.key if name not in there]
        if keyless:
            raise self._mismatch(
                layout,
                example,
                f"key column {', '.join(keyless)} of {target} is not in the message (it has {', '.join(there)})",
                "give the target the source's primary key, or set message.key.columns in the connector",
            )

    def _evolved(
        self,
        connection: Connection,
        layout: Layout,
        target: TargetTable,
        names: ColumnNames,
        described: Described,
        example: Position,
    ) -> TargetTable:
        """The target with everything that the message needs, or unchanged where that may be left out."""
        here = {there: described.get(name) for name in layout.columns if (there := names.target(name)) is not None}
        ignored = SchemaEvolution.IGNORE is self._config.schema_evolution
        if (wider := widen(target, here)) and not ignored:
            problem = f"columns of {target} do not hold every value that the source's may have"
            raise self._mismatch(layout, example, problem, f"{wider};   or set target.schema_evolution: ignore")
        lacking = {name: field or {} for name, field in here.items() if name not in target.by_name}
        missing = {name: type_of(field) if is_name(name) else None for name, field in lacking.items()}
        if not missing or ignored:
            return target
        ddl = add_columns(target, missing)
        if self._config.schema_evolution is SchemaEvolution.ADD_COLUMNS and all(missing.values()):
            run(connection, _DDL_LOCK)
            run(connection, ddl)
            log.info("columns added", lane=self._lane, table=str(target), ddl=ddl, because=str(example))
            evolved = load_table(connection, target.schema, target.name)
            assert evolved is not None, "altered just now"
            return replace(evolved, key=target.key)
        if self._config.unknown_column is UnknownColumn.IGNORE:
            return target
        raise self._mismatch(
            layout,
            example,
            f"target table {target} has no column {', '.join(missing)}",
            f"{ddl};   or leave it out: target.columns, target.unknown_column: ignore",
        )

    def _fields(
        self, layout: Layout, target: TargetTable, names: ColumnNames, described: Described, example: Position
    ) -> tuple[Field, ...]:
        fields: list[Field] = []
        for at, name in enumerate(layout.columns):
            column = target.by_name.get(names.target(name) or "") or _left_out(at, target)
            field = None if column.generated else described.get(name)
            fields.append(Field(column, self._encoding(column, field, layout, example)))
        return tuple(fields)

    def _encoding(self, column: Column, field: Mapping[str, Any] | None, layout: Layout, example: Position) -> Encoding:
        try:
            return encoding_of(column, field, self._rules.modes)
        except EncodingUnknown as error:
            hint = "set source.modes.binary to the connector's binary.handling.mode"
            raise self._mismatch(layout, example, str(error), hint) from None

    def _mismatch(self, layout: Layout, example: Position, problem: str, hint: str) -> TargetMismatch:
        return TargetMismatch(
            f"lane {self._lane}: message {example} of table {layout.source} cannot be applied: {problem}", hint=hint
        )


def _left_out(at: int, target: TargetTable) -> Column:
    """A column that is left out: it is staged with the line, named by its number, and not used."""
    name = staging.free(f"surelane_out_{at}", target.by_name)
    return Column(name=name, type="text", base="text", typmod=-1, is_array=False, generated=True)
