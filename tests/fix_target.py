"""A fresh target database for each test, cloned from a template that is migrated already."""

import itertools
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql
from sqlalchemy import Connection, Engine, PoolResetState, Row, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from app.db.engine import make_engine
from app.db.prepared import prepared
from app.ledger.ledger_tables import COUNTS
from app.ledger.migrations import upgrade
from app.ledger.store import Ledger
from app.model.counts import Counts
from app.model.epoch import EpochRecord
from app.model.offsets import Offsets
from tests.messages import Key, Table
from tools.devstack import Postgres
from tools.devstack.postgres import SUPERUSER
from tools.devstack.roles import LOGIN, OWNER, make_roles

SCHEMA = "surelane"
TEMPLATE = "template_of_tests"
#: of the lane's login, short of the server's own limit
CONNECTIONS = "90"
#: a login that owns what is Surelane's in `elsewhere`, where it takes no other role
GUARD = "surelane_guard"
#: a lane that leaves locks behind fails a test instead of hanging it
LOCK_TIMEOUT_SECONDS = 20
_KEY = text("""
    select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indrelid = cast(:table as regclass) and i.indisprimary order by array_position(i.indkey::int2[], a.attnum)
""")
_LEDGER_ENDS = text(f"""
    select distinct on (lane) lane, end_position from {SCHEMA}.ledger
    where lane ~ ('^' || :lane || '([.][0-9]+)?$') order by lane, generation desc, epoch desc
""")


class Target:
    """A target database. `lane` is a name that no other test uses.

    A lane comes by `url` as `login`, and has what ops/postgres/roles.sql gives to `owner_role`; the superuser queries
    and creates tables.
    """

    def __init__(
        self, server: Postgres, database: str, lane: str, login: str = LOGIN, owner_role: str | None = OWNER
    ) -> None:
        self.server, self.database, self.lane, self.owner_role = server, database, lane, owner_role
        #: what a lane's configuration says
        self.url = self.url_as(login)
        options = f"-c timezone=UTC -c lock_timeout={LOCK_TIMEOUT_SECONDS}s"
        plain = sqlalchemy_url(server, database)
        # one connection stays: tests look often, and a new one costs the server as much as many looks
        self.engine = create_engine(
            plain,
            pool_size=1,
            max_overflow=-1,
            pool_pre_ping=True,
            pool_reset_on_return=None,
            connect_args={"options": options},
        )
        event.listen(self.engine, "reset", _as_new)

    def url_as(self, login: str) -> str:
        """The URL for another login."""
        return sqlalchemy_url(self.server, self.database, login)

    @property
    def section(self) -> dict[str, Any]:
        """The section `target` of a lane's configuration."""
        return {"url": self.url, "owner_role": self.owner_role}

    @property
    def as_lane(self) -> Engine:
        """What a lane works with."""
        return make_engine(self.url, self.owner_role)

    def execute(self, statement: str, **parameters: Any) -> Sequence[Row[Any]]:
        """Run one statement in a transaction of its own; gives its rows."""
        with self.engine.begin() as connection:
            result = connection.execute(text(statement), parameters)
            return result.all() if result.returns_rows else []

    def create(self, *tables: Table) -> None:
        """Create tables."""
        with self.engine.begin() as connection:
            for table in tables:
                connection.exec_driver_sql(table.ddl)

    def create_schema(self, name: str) -> None:
        """Create a schema whose tables the lane may write, too."""
        self.server.execute(sql.SQL("create schema {}").format(sql.Identifier(name)), database=self.database)
        give_roles(self.server, self.database, schema=name)

    def unmigrate(self) -> None:
        """As roles.sql leaves it: the schema `surelane` is there, and empty."""
        owner = self.execute(f"select nspowner::regrole::text from pg_namespace where nspname = '{SCHEMA}'")[0][0]
        self.execute(f"drop schema {SCHEMA} cascade; create schema {SCHEMA} authorization {owner}")

    def give(self, *tables: str) -> None:
        """Tables whose shape the lane may change."""
        for table in tables:
            self.execute(f"alter table {quoted(table)} owner to {OWNER}")

    def rows(self, table: str) -> dict[Key, dict[str, Any]]:
        """Rows of `schema.table` by primary key, which is a tuple however many columns it has."""
        with self.engine.connect() as connection:
            return _rows(connection, table)

    def text_rows(self, table: str) -> list[str]:
        """Rows of `schema.table` as Postgres writes them, sorted."""
        return [row for (row,) in self.execute(f"select t::text from {quoted(table)} t order by 1")]

    def prepared(self) -> list[str]:
        """Gids of all prepared transactions of this database."""
        with self.engine.connect() as connection:
            return [row.gid for row in prepared(connection)]

    def ledger(self, lane: str | None = None) -> EpochRecord | None:
        """The lane's last ledger row."""
        with self.engine.connect() as connection:
            return Ledger(SCHEMA, lane or self.lane).last(connection)

    def epochs(self, lane: str | None = None) -> Sequence[Row[Any]]:
        """Ledger rows of the lane (with source.order partition: of its lanes), in order, its first start left out."""
        return self.execute(
            f"select * from {SCHEMA}.ledger where epoch >= 0 and lane ~ ('^' || :lane || '([.][0-9]+)?$')"
            " order by lane, generation, epoch",
            lane=lane or self.lane,
        )

    def position(self, lane: str | None = None) -> Offsets:
        """Where the ledger ends; with source.order partition of all the lanes together."""
        with self.engine.connect() as connection:
            return _position(connection, lane or self.lane) or Offsets()

    def ledger_sum(self, lane: str | None = None) -> Counts:
        """Counts of all the lane's epochs together."""
        epochs = self.epochs(lane)
        return Counts(**{name: sum(getattr(row, name) for row in epochs) for name in COUNTS})

    def snapshot(self, tables: Sequence[str], lane: str) -> tuple[Offsets | None, dict[str, dict[Key, dict[str, Any]]]]:
        """The ledger's end and the rows of all these tables, in one snapshot."""
        with self.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            return _position(connection, lane), {table: _rows(connection, table) for table in tables}

    def is_away(self, error: BaseException) -> bool:
        """Whether an error only says that the server is stopped, or ended this session."""
        original = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(original, "pgcode", None)
        return isinstance(original, psycopg2.Error) and (code is None or code.startswith(("08", "57P")))

    def cut_connections(self, application: str = "surelane%") -> int:
        """End the lane's sessions, as a lost network does; gives how many there were."""
        ended = self.server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and application_name like %s",
            self.database,
            application,
        )
        return len(ended)

    def drop(self) -> None:
        """Roll back what is prepared and drop the database."""
        for gid in self.prepared():
            self.server.execute("rollback prepared %s", gid, database=self.database)
        self.engine.dispose()
        self.server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(self.database)))


def sqlalchemy_url(server: Postgres, database: str, user: str = SUPERUSER) -> str:
    """URL of a database."""
    return server.url(database, user).replace("postgresql:", "postgresql+psycopg2:")


def give_roles(server: Postgres, database: str, **names: str) -> None:
    """Those of ops/postgres/roles.sql; a test may have many lanes."""
    make_roles(server.url(database), connections=CONNECTIONS, **names)


def make_target(server: Postgres, database: str) -> None:
    """A database with roles, migrated as the lane does it."""
    server.create_database(database)
    give_roles(server, database)
    engine = make_engine(sqlalchemy_url(server, database, LOGIN), OWNER)
    upgrade(engine, SCHEMA)
    engine.dispose()


def quoted(table: str) -> str:
    """`schema.table` for SQL."""
    return ".".join(f'"{part}"' for part in table.split("."))


def _as_new(connection: Any, _: object, state: PoolResetState) -> None:
    """A session that is given back keeps no transaction, no lock and no setting."""
    if not state.terminate_only:
        connection.rollback()
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("discard all")
        connection.autocommit = False


def _rows(connection: Connection, table: str) -> dict[Key, dict[str, Any]]:
    key = connection.execute(_KEY, {"table": quoted(table)}).scalars().all()
    found = connection.exec_driver_sql(f"select * from {quoted(table)}").mappings()
    rows = ({name: _plain(value) for name, value in row.items()} for row in found)
    return {tuple(row[name] for name in key): row for row in rows}


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def _position(connection: Connection, lane: str) -> Offsets | None:
    ends = [Offsets.from_nested(row.end_position) for row in connection.execute(_LEDGER_ENDS, {"lane": lane})]
    return Offsets.of({tp: offset for end in ends for tp, offset in end.items()}) if ends else None


@pytest.fixture(scope="session")
def template(target_server: Postgres) -> str:
    """Name of the migrated template database."""
    make_target(target_server, TEMPLATE)
    return TEMPLATE


_number = itertools.count(1)


def _cloned(server: Postgres, template: str, login: str = LOGIN, owner_role: str | None = OWNER) -> Iterator[Target]:
    name = f"t{next(_number)}-{uuid.uuid4().hex[:4]}"
    statement = sql.SQL("create database {} template {}")
    server.execute(statement.format(*(sql.Identifier(part) for part in (name, template))))
    target = Target(server, name, f"lane-{name}", login, owner_role)
    yield target
    server.start()  # in case the test left it stopped
    target.drop()


@pytest.fixture
def target(target_server: Postgres, template: str) -> Iterator[Target]:
    """A fresh target database, with the roles of ops/postgres/roles.sql."""
    yield from _cloned(target_server, template)


@pytest.fixture
def second_target(target_server: Postgres, template: str) -> Iterator[Target]:
    """Another one, on the same server."""
    yield from _cloned(target_server, template)


@pytest.fixture
def elsewhere(target_server: Postgres, template: str) -> Iterator[Target]:
    """A second database, for the guard's tables: its login owns the schema `surelane` there."""
    target_server.create_role(GUARD)
    for made in _cloned(target_server, template, GUARD, None):
        made.execute(f"reassign owned by {OWNER} to {GUARD}")
        yield made
