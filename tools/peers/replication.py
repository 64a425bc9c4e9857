"""Postgres' logical replication: a publisher with the backlog's changes in its log, and the target as subscriber.

The publisher applies each change once, CHANGES of them in a transaction; a replication slot keeps its log from there
on. A measurement copies that slot, so that it begins where the changes begin.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
from psycopg2 import sql

from tools.devstack.postgres import SUPERUSER, Postgres
from tools.devstack.wait import wait_for
from tools.peers.child import Running, SystemFailed
from tools.testbed.backlog import Backlog
from tools.testbed.machine import Cpu, tree
from tools.testbed.servers import DATABASE, Cursor, Servers
from tools.testbed.tables import TABLE
from tools.testbed.workload import Change, Workload, statement

#: names at the publisher and at the subscriber
PUBLICATION, RUN = "bench", "bench_run"
#: of a transaction: the subscriber commits each transaction by itself, and a lane many changes at once
CHANGES = 100
_END_SECONDS = 30.0


def prepare(servers: Servers, backlog: Backlog) -> None:
    """Make the publisher's database, unless it is there."""
    source, name = servers.stack.source, _name(backlog.topic)
    source.start()
    if source.execute("select from pg_replication_slots where slot_name = %s", name):
        return
    with _made(source, name) as cursor:
        cursor.execute("set synchronous_commit = off")
        changes = iter(Workload(backlog.shape, backlog.messages))
        while together := list(islice(changes, CHANGES)):
            cursor.execute(b"; ".join([statement(cursor, change) for change in together]))  # one transaction
    source.execute("checkpoint")


def source_url(servers: Servers, topic: str, early: Change) -> str:
    """A publisher for a source at a steady rate, with one change."""
    source, name = servers.stack.source, _name(topic)
    source.start()
    with _made(source, name) as cursor:
        cursor.execute(statement(cursor, early))
    return source.url(name)


@dataclass(kw_only=True)
class Subscription(Running):
    servers: Servers
    #: what the publisher has used before
    before: Cpu

    def cpu(self) -> Mapping[str, Cpu]:
        """The publisher, which decodes its log; the subscriber is the target itself."""
        return {"client": tree(self.servers.stack.source.pid) - self.before}

    def must_live(self) -> None:
        enabled = "select subenabled from pg_subscription where subname = %s"
        if self.servers.stack.target.execute(enabled, RUN) != [(True,)]:
            raise SystemFailed(f"the subscription was disabled by an error:\n{self.tail()}")

    def stop(self) -> int:
        self.servers.end_subscription(RUN)
        return 0


@contextmanager
def running(servers: Servers, topic: str, _: Path) -> Iterator[Subscription]:
    """Subscribe to the changes of `topic`, from the first one on."""
    source, name = servers.stack.source, _name(topic)
    _free(source)
    source.execute("select pg_copy_logical_replication_slot(%s, %s)", name, RUN, database=name)
    place = urlsplit(source.url(name))
    at = f"host={place.hostname} port={place.port} dbname={name} user={SUPERUSER}"
    options = "create_slot = false, slot_name = {slot}, copy_data = false, disable_on_error = true"
    made = sql.SQL("create subscription {name} connection {at} publication {of} with (" + options + ")").format(
        name=sql.Identifier(RUN), at=sql.Literal(at), of=sql.Identifier(PUBLICATION), slot=sql.Literal(RUN)
    )
    # by default the server waits for up to 5 s before it starts a subscription's worker
    servers.stack.target.execute("alter system set wal_retrieve_retry_interval = '100ms'")
    servers.stack.target.execute("select pg_reload_conf()")
    log, before = servers.stack.target.log_file, tree(source.pid)
    started = Subscription(log=log, started_at=time.time(), servers=servers, before=before)
    servers.stack.target.execute(made, database=DATABASE)
    try:
        yield started
    finally:
        with suppress(psycopg2.errors.UndefinedObject):  # stopped already
            started.stop()
        _free(source)


@contextmanager
def _made(source: Postgres, name: str) -> Iterator[Cursor]:
    """A cursor in a new database with table, publication and slot; an interrupted one leaves no slot of this name."""
    _free(source)
    part = f"{name}_part"
    for (slot,) in source.execute("select slot_name from pg_replication_slots where slot_name in (%s, %s)", name, part):
        source.execute("select pg_drop_replication_slot(%s)", slot)
    source.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
    source.create_database(name)
    connection = psycopg2.connect(source.url(name))
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(TABLE.ddl)
            cursor.execute(f"create publication {PUBLICATION} for table {TABLE.name}")
            cursor.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (part,))
            yield cursor
            cursor.execute("select pg_copy_logical_replication_slot(%s, %s)", (part, name))
    finally:
        connection.close()
        source.execute("select pg_drop_replication_slot(%s)", part)


def _free(source: Postgres) -> None:
    """Drop the slot of the last measurement once its reader has gone."""
    there = "select active from pg_replication_slots where slot_name = %s"
    wait_for(lambda: (True,) not in source.execute(there, RUN), reason="the end of the reader", seconds=_END_SECONDS)
    if source.execute(there, RUN):
        source.execute("select pg_drop_replication_slot(%s)", RUN)


def _name(topic: str) -> str:
    """Of database and slot."""
    known = f"{topic} {CHANGES}"
    return f"bench_{hashlib.sha256(known.encode()).hexdigest()[:12]}"
