"""From the shape of a message to its target table: routes, catalog and encodings, remembered between epochs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from app.apply import staging
from app.apply.encoding import encoding_of
from app.apply.merge import Merge
from app.apply.staging import Field, Staging
from app.apply.target import Column, TargetTable, load_table
from app.config.routes import Routes
from app.db.failures import translated
from app.errors import TargetMismatch
from app.model.offsets import Position
from app.model.rows import Kind, Layout

#: Connect schema fields by column name, of the message at a position
Schemas = Callable[[Position, Layout], Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Shape:
    """Everything needed to carry messages of one layout to their table."""

    kind: Kind
    target: TargetTable
    staging: Staging
    merge: Merge


class Shapes:
    """Shapes of one lane. Staging tables are made on a connection of their own, before the epoch's transaction."""

    def __init__(
        self, engine: Engine, schema: str, lane: str, routes: Routes, ignore_unknown: bool, schemas: Schemas
    ) -> None:
        self._engine, self.schema, self._lane = engine, schema, lane
        self._routes, self._ignore_unknown, self._schemas = routes, ignore_unknown, schemas
        self._known: dict[Layout, Shape | None] = {}

    def reset(self) -> None:
        """Forget the catalog and drop the lane's staging tables; called at the lane's start."""
        self._known.clear()
        with translated("dropping old staging tables"), self._engine.begin() as connection:
            staging.drop_all(connection, self.schema, self._lane)

    def forget(self) -> None:
        """Read the catalog again for the next epoch: the target may have been altered since it was read."""
        self._known.clear()

    def shape(self, layout: Layout, example: Position) -> Shape | None:
        """Shape of `layout`, None when its table is left out; `example` is a message that has it.

        Raises TargetMismatch, naming the message, when the target cannot take it.
        """
        if layout not in self._known:
            with translated(f"reading the catalog for {layout.source}"):
                self._known[layout] = self._make(layout, example)
        return self._known[layout]

    def leaves_out(self, layout: Layout) -> bool:
        """Whether changes of this table are ignored, whatever they are."""
        if not self._ignore_unknown:
            return False
        place = self._routes.target(layout.schema, layout.table)
        with translated(f"reading the catalog for {layout.source}"), self._engine.connect() as connection:
            return place is None or load_table(connection, *place) is None

    def reclaim(self) -> None:
        """Give back staging space; between epochs only, a prepared transaction would be in the way."""
        stagings = [shape.staging for shape in self._known.values() if shape is not None]
        if any(table.dirty > staging.TRUNCATE_AFTER_ROWS for table in stagings):
            with translated("truncating staging tables"), self._engine.begin() as connection:
                staging.reclaim(connection, stagings)

    def _make(self, layout: Layout, example: Position) -> Shape | None:
        place = self._routes.target(layout.schema, layout.table)
        if place is None:
            if self._ignore_unknown:
                return None
            raise self._mismatch(
                layout,
                example,
                "no route takes it",
                "add a route to target.tables, or set target.unknown_table: ignore",
            )
        with self._engine.begin() as connection:
            target = load_table(connection, *place)
            if target is None:
                if self._ignore_unknown:
                    return None
                raise self._mismatch(
                    layout,
                    example,
                    f"target table {'.'.join(place)} does not exist",
                    "create it, route it elsewhere in target.tables, or set target.unknown_table: ignore",
                )
            self._check(layout, target, example)
            fields = self._fields(layout, target, example)
            table = staging.create(connection, self.schema, self._lane, target, fields)
            return Shape(layout.kind, target, table, Merge(self.schema, target, table))

    def _check(self, layout: Layout, target: TargetTable, example: Position) -> None:
        if not target.key:
            raise self._mismatch(
                layout,
                example,
                f"target table {target} has no primary key",
                f"alter table {target} add primary key (...)",
            )
        missing = [name for name in layout.columns if name not in target.by_name]
        if missing and layout.kind in (Kind.UPSERT, Kind.PATCH):
            raise self._mismatch(
                layout,
                example,
                f"target table {target} has no column {', '.join(missing)}",
                "; ".join(f"alter table {target} add column {name} ..." for name in missing),
            )
        keyless = [name for name in target.key if name not in layout.columns]
        if keyless:
            raise self._mismatch(
                layout,
                example,
                f"primary key column {', '.join(keyless)} of {target} is not in the message"
                f" (it has {', '.join(layout.columns)})",
                "give the target the source's primary key, or set message.key.columns in the connector",
            )

    def _fields(self, layout: Layout, target: TargetTable, example: Position) -> tuple[Field, ...]:
        described = self._schemas(example, layout) if layout.schema_hash else {}
        columns = [target.by_name.get(name) or _not_in_target(name) for name in layout.columns]
        return tuple(Field(column, encoding_of(column, described.get(column.name))) for column in columns)

    def _mismatch(self, layout: Layout, example: Position, problem: str, hint: str) -> TargetMismatch:
        return TargetMismatch(
            f"lane {self._lane}: message {example} of table {layout.source} cannot be applied: {problem}", hint=hint
        )


def _not_in_target(name: str) -> Column:
    """A column that a deleted row had and the target has not: it is staged with the line and not used."""
    return Column(name=name, type="text", base="text", typmod=-1, is_array=False, generated=True)
