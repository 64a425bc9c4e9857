"""Servers of a test's own: a target on a Postgres that may be killed for good, its standby, one to upgrade."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from psycopg2.extensions import make_dsn
from sqlalchemy import text

from app.server_user import server_user
from tests.fix_target import Target, make_target, quoted
from tests.fix_topic import Topic
from tests.oracle import fold
from tests.waiting import eventually
from tests.workload import TABLES
from tools.devstack import Postgres, Stack
from tools.devstack.postgres import SUPERUSER
from tools.devstack.postgres_programs import run_program
from tools.devstack.roles import READER
from tools.devstack.stack import TARGET_SETTINGS

#: small: a test has several of them
SETTINGS = {"max_prepared_transactions": TARGET_SETTINGS["max_prepared_transactions"], "shared_buffers": "32MB"}
STREAMING_SECONDS = 60.0
DATABASE = "shop"


def superuser_url(target: Target) -> str:
    """What an operator gives to psql."""
    return target.server.url(target.database, SUPERUSER)


def source_of(topic: Topic, empty: Target) -> str:
    """Bring a database to what the source of these messages has; gives its URL, a reader's."""
    empty.create(*TABLES)
    state = fold(topic.sent)
    with empty.engine.begin() as connection:
        for table in TABLES:  # parents first
            for row in state.get(table.full_name, {}).values():
                names, values = ", ".join(f'"{name}"' for name in row), ", ".join(f":{name}" for name in row)
                connection.execute(
                    text(f"insert into {quoted(table.full_name)} ({names}) values ({values})"), dict(row)
                )
    return empty.url_as(READER)


@dataclass
class Clusters:
    """Servers below a folder of the test's; `()` makes one with a migrated target."""

    folder: Path
    #: of the lane under test
    lane: str
    made: list[Postgres] = field(default_factory=list)

    def __call__(self, name: str) -> Target:
        """A new server, with a target."""
        server = self.server(name)
        server.start()
        make_target(server, DATABASE)
        return self.target(server)

    def server(self, name: str, port: int | None = None) -> Postgres:
        """One whose folder the server's user may write, and that has no data yet."""
        made = Postgres(self.folder / name, port=port, settings=SETTINGS)
        made.data_dir.mkdir()
        if user := server_user():
            shutil.chown(made.data_dir, user.pw_uid, user.pw_gid)
        self.made.append(made)
        return made

    def target(self, server: Postgres) -> Target:
        """The lane's database on it."""
        return Target(server, DATABASE, self.lane)

    def standby(self, primary: Target, name: str) -> Target:
        """A streaming standby, which has everything that the primary has now."""
        server = self.server(name)
        source = make_dsn(superuser_url(primary), application_name=name)
        words = ["--pgdata", str(server.cluster), "--dbname", source, "--write-recovery-conf", "--checkpoint=fast"]
        run_program("pg_basebackup", [*words, "--no-sync"], server.log_file)
        server.start()
        standby = self.target(server)
        self.until_replayed(primary, standby)
        return standby

    def until_replayed(self, primary: Target, standby: Target) -> None:
        """The standby shows what the primary has written up to now."""
        ((now,),) = primary.server.execute("select pg_current_wal_flush_lsn()::text")
        reached = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
        eventually(lambda: standby.server.execute(reached, now)[0][0], STREAMING_SECONDS, "the standby to follow")

    def synchronous(self, primary: Target) -> None:
        """From here on each commit and each PREPARE waits for the standby."""
        primary.server.execute("alter system set synchronous_standby_names = '*'")
        primary.server.execute("select pg_reload_conf()")
        sync = "select from pg_stat_replication where sync_state = 'sync'"
        eventually(lambda: primary.server.execute(sync), STREAMING_SECONDS, "the standby to be synchronous")

    def cut(self, standby: Target) -> None:
        """It receives nothing any more: from here on it is behind."""
        standby.server.execute("alter system set primary_conninfo = ''")
        standby.server.execute("select pg_reload_conf()")
        receiving = "select from pg_stat_wal_receiver"
        eventually(lambda: not standby.server.execute(receiving), STREAMING_SECONDS, "the end of the streaming")


@pytest.fixture
def clusters(target: Target, servers: Stack) -> Iterator[Clusters]:
    """`clusters("primary")`: a server of the test's own, with a migrated target for the lane that `lane` makes."""
    folder = servers.data_dir / f"clusters-{target.database}"
    folder.mkdir()
    made = Clusters(folder, target.lane)
    yield made
    for server in made.made:
        server.kill()
    shutil.rmtree(folder)
