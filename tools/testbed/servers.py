"""The servers for measurements: a separate stack, and an empty database for each measurement."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg2
from psycopg2 import extensions, sql

from app.cache import locked
from app.config import values
from app.db.engine import make_engine
from app.ledger.migrations import upgrade
from tools.devstack import Stack
from tools.devstack.kafka import AS_SHIPPED
from tools.devstack.roles import LOGIN
from tools.testbed.machine import Cpu, single, tree
from tools.testbed.tables import Expected, Table

Connection = extensions.connection
Cursor = extensions.cursor

DATABASE = "bench"
#: schema of the lane's tables
LEDGER_SCHEMA = "surelane"


class Distance(NamedTuple):
    """A proxy in front of the target."""

    port: int
    pid: int


@dataclass(frozen=True, kw_only=True)
class Servers:
    """A running broker and target."""

    stack: Stack
    #: between a measured system and the target
    distance: Distance | None = None

    @property
    def bootstrap(self) -> str:
        """Kafka's bootstrap address."""
        return self.stack.kafka.bootstrap

    @property
    def url(self) -> str:
        """The target database for a measured system, with its owner as login: the lane needs no `owner_role` here."""
        url = self._direct
        return url.replace(f":{self.target_port}/", f":{self.distance.port}/") if self.distance else url

    @property
    def jdbc(self) -> str:
        """The same for JDBC, without the login."""
        place = urlsplit(self.url)
        return f"jdbc:postgresql://{place.hostname}:{place.port}{place.path}"

    @property
    def _direct(self) -> str:
        return self.stack.target.url(DATABASE, LOGIN)

    @property
    def target_port(self) -> int:
        """The target's own."""
        port = urlsplit(self._direct).port
        assert port is not None, "it was started"
        return port

    @property
    def data_dir(self) -> Path:
        """Folder for files that are kept between runs."""
        return self.stack.data_dir

    def empty_database(self, ddl: Sequence[str], *, with_ledger: bool) -> None:
        """Recreate the database with these tables, then checkpoint and sync."""
        target = self.stack.target
        if target.execute("select from pg_database where datname = %s", DATABASE):
            # what an interrupted run left would prevent dropping the database
            for gid in self._prepared():
                target.execute("rollback prepared %s", gid, database=DATABASE)
            for (name,) in target.execute(_SUBSCRIPTIONS, DATABASE):
                self.end_subscription(str(name))
            target.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(DATABASE)))
        target.create_database(DATABASE, LOGIN)
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in ddl:
                cursor.execute(statement)
        if with_ledger:
            upgrade(make_engine(values.postgres_url(self._direct), application_name="bench"), LEDGER_SCHEMA)
        target.execute("checkpoint")
        os.sync()  # writes left by the previous measurement must not slow this one

    def empty_topic(self, name: str, config: Mapping[str, str] | None = None) -> None:
        """Recreate the topic with one partition and these settings."""
        if self.stack.kafka.has_topic(name):
            self.stack.kafka.delete_topic(name)
        self.stack.kafka.create_topic(name, partitions=1, **(config or {}))

    def prepared(self) -> int:
        """Number of prepared transactions in the database."""
        return len(self._prepared())

    def wal_syncs(self) -> int:
        """How often the target has synced its log."""
        version = int(str(self.stack.target.execute("show server_version_num")[0][0]))
        return int(str(self.stack.target.execute(_WAL_SYNCS[version >= 180000])[0][0]))

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A new connection in autocommit mode, without distance."""
        connection = psycopg2.connect(self._direct, application_name="bench")
        connection.autocommit = True
        try:
            yield connection
        finally:
            connection.close()

    def found(self, tables: Sequence[Table]) -> dict[str, Expected]:
        """The content of the tables, by name."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("set work_mem = '256MB'; set max_parallel_workers_per_gather = 0")
            found: dict[str, Expected] = {}
            for table in tables:
                cursor.execute(table.checksum)
                ((rows, md5),) = cursor.fetchall()
                found[table.name] = Expected(rows=rows, md5=md5 or Expected.of([]).md5)
            return found

    def cpu(self) -> Mapping[str, Cpu]:
        """CPU seconds of each server since its start, and of the proxy."""
        proxy = {"proxy": single(self.distance.pid)} if self.distance else {}
        return {"postgres": tree(self.stack.target.pid), "kafka": tree(self.stack.kafka.pid), **proxy}

    def _prepared(self) -> list[str]:
        gids = self.stack.target.execute("select gid from pg_prepared_xacts where database = %s", DATABASE)
        return [str(gid) for (gid,) in gids]

    def end_subscription(self, name: str) -> None:
        """Drop it; its slot at the publisher stays."""
        alter = "alter subscription {} "
        for change in (f"{alter} disable", f"{alter} set (slot_name = none)", "drop subscription {}"):
            self.stack.target.execute(sql.SQL(change).format(sql.Identifier(name)), database=DATABASE)


_SUBSCRIPTIONS = "select subname from pg_subscription s join pg_database d on d.oid = subdbid where datname = %s"
#: by whether the server is 18 or newer
_WAL_SYNCS = {
    False: "select wal_sync from pg_stat_wal",
    True: "select coalesce(sum(fsyncs), 0) from pg_stat_io where object = 'wal'",
}


@contextmanager
def running(name: str) -> Iterator[Servers]:
    """Start Kafka and the target; stop them at the end unless they ran before. Data stays.

    A lock allows one benchmark at a time on a stack.
    """
    stack = Stack(name, broker_java=AS_SHIPPED)
    before = [part.name for part in stack.status() if part.running]
    stack.up(connect=False, source=False)
    try:
        with locked(stack.data_dir / "bench.lock"):
            yield Servers(stack=stack)
    finally:
        if not before:
            stack.down()
