"""Shadow copies. Every method works in the caller's transaction."""

import datetime
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, DateTime, MetaData, Row, Table, Text, delete, func, or_, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from app.config.settings import Settings
from app.errors import Refused

#: schema, table
TableName = tuple[str, str]


class ShadowState(enum.StrEnum):
    #: the second lane writes the copy, the original one its own tables
    FOLLOWING = "following"
    #: the copy has the original tables' place; the original lane must not run
    SWITCHED = "switched"
    #: after a switch, and the original tables are dropped: the row keeps the original lane from running
    DISPOSED = "disposed"


@dataclass(frozen=True, kw_only=True)
class ShadowCopy:
    """A second lane, and the tables that it fills."""

    #: the second lane
    lane: str
    original: str
    savepoint: str
    #: None: the copy is in another database, and the second lane writes its configured tables there
    copy_schema: str | None
    #: has the original tables after the switch; None for another database
    old_schema: str | None
    #: of the copy's database, without a password; None: the original's
    url: str | None = None
    old_tables: Sequence[TableName]
    #: as they are named after the switch
    new_tables: Sequence[TableName]
    state: ShadowState
    by: str
    at: datetime.datetime
    switched_at: datetime.datetime | None = None

    @property
    def schemas(self) -> tuple[str, str]:
        """Schema of the copy, and of the original tables after the switch; of a copy in the original's database."""
        assert self.copy_schema is not None
        assert self.old_schema is not None
        return self.copy_schema, self.old_schema

    @property
    def schema_now(self) -> str | None:
        """Schema that the second lane writes in place of the configured ones; None: those."""
        return self.copy_schema if self.state is ShadowState.FOLLOWING else None


class ShadowCopies:
    """In the schema that `target.schema` names."""

    def __init__(self, schema: str) -> None:
        self._table = Table(
            "shadow_copy",
            MetaData(schema=schema),
            Column("lane", Text, primary_key=True),
            *(Column(name, Text) for name in ("original", "savepoint", "copy_schema", "old_schema", "url")),
            Column("old_tables", JSONB),
            Column("new_tables", JSONB),
            *(Column(name, Text) for name in ("state", "created_by")),
            Column("created_at", DateTime(timezone=True)),
            Column("switched_at", DateTime(timezone=True)),
        )

    def add(self, connection: Connection, copy: ShadowCopy) -> bool:
        """Whether it was added: neither of its lanes has a copy yet."""
        values = {
            "lane": copy.lane,
            "original": copy.original,
            "savepoint": copy.savepoint,
            "copy_schema": copy.copy_schema,
            "old_schema": copy.old_schema,
            "url": copy.url,
            "old_tables": list(map(list, copy.old_tables)),
            "new_tables": list(map(list, copy.new_tables)),
            "state": copy.state.value,
            "created_by": copy.by,
            "created_at": copy.at,
        }
        return connection.execute(insert(self._table).values(values).on_conflict_do_nothing()).rowcount == 1

    def find(self, connection: Connection, lane: str) -> ShadowCopy | None:
        """The copy that `lane` fills."""
        row = connection.execute(select(self._table).where(self._table.c.lane == lane)).first()
        return None if row is None else _copy(row)

    def of(self, connection: Connection, lane: str) -> ShadowCopy | None:
        """The copy in which `lane` has a part, either one; the newest."""
        columns = self._table.c
        mine = or_(columns.lane == lane, columns.original == lane)
        row = connection.execute(select(self._table).where(mine).order_by(columns.created_at.desc()).limit(1)).first()
        return None if row is None else _copy(row)

    def successor(self, connection: Connection, lane: str) -> ShadowCopy | None:
        """The copy that has the place of `lane`'s tables."""
        columns = self._table.c
        mine = (columns.original == lane, columns.state != ShadowState.FOLLOWING.value)
        row = connection.execute(select(self._table).where(*mine)).first()
        return None if row is None else _copy(row)

    def check_original(self, connection: Connection, lane: str) -> None:
        """Raises Refused where another lane writes the tables of `lane`."""
        if (copy := self.successor(connection, lane)) is not None:
            raise Refused(
                f"lane {lane} has no tables: lane {copy.lane} has taken its place by surelane shadow switch",
                hint="surelane shadow undo, with the configuration of that lane"
                if copy.state is ShadowState.SWITCHED
                else f"its tables are disposed of: run lane {copy.lane}, or give this one another name",
            )

    def lock(self, connection: Connection, lane: str) -> ShadowCopy | None:
        """`find`, locked until the transaction ends."""
        row = connection.execute(select(self._table).where(self._table.c.lane == lane).with_for_update()).first()
        return None if row is None else _copy(row)

    def set_state(self, connection: Connection, lane: str, state: ShadowState) -> None:
        values: dict[str, Any] = {"state": state.value}
        if state is not ShadowState.DISPOSED:
            values["switched_at"] = func.clock_timestamp() if state is ShadowState.SWITCHED else None
        connection.execute(self._table.update().where(self._table.c.lane == lane).values(values))

    def remove(self, connection: Connection, lane: str) -> None:
        connection.execute(delete(self._table).where(self._table.c.lane == lane))


def _copy(row: Row[Any]) -> ShadowCopy:
    return ShadowCopy(
        lane=row.lane,
        original=row.original,
        savepoint=row.savepoint,
        copy_schema=row.copy_schema,
        old_schema=row.old_schema,
        url=row.url,
        old_tables=tuple((schema, table) for schema, table in row.old_tables),
        new_tables=tuple((schema, table) for schema, table in row.new_tables),
        state=ShadowState(row.state),
        by=row.created_by,
        at=row.created_at,
        switched_at=row.switched_at,
    )


def in_copy(settings: Settings, copy: ShadowCopy | None) -> Settings:
    """The settings with which the second lane writes its copy; the same ones where it writes the configured tables."""
    if copy is None or copy.schema_now is None:
        return settings
    return settings.model_copy(update={"target": settings.target.in_schema(copy.schema_now)})
