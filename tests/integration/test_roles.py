"""Each role of ops/postgres is enough for what it is for, and for nothing more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.errors
import pytest
import yaml

from tests import messages as m
from tests.commands import Ended
from tests.fix_lane import MakeLane
from tests.fix_locked import PASSWORD, Locked, LockedTarget
from tests.fix_target import give_roles
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.waiting import eventually
from tools.demo.stage import AS_CAPTURE
from tools.devstack import Stack
from tools.devstack.postgres_binaries import bin_dir
from tools.devstack.roles import CAPTURE, LOGIN, OPERATOR, OWNER, READER, SOURCE, make_roles

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
GID = "surelane:orders:1:7"


@pytest.fixture
def target(locked_target: LockedTarget) -> LockedTarget:
    """In place of the session's."""
    return locked_target


@pytest.fixture
def roles(target: LockedTarget) -> Callable[..., list[Any]]:
    """`roles(READER, "select 1", become=None)`: what that role gets; a table `flat` is there."""
    target.create(FLAT)
    target.execute("insert into flat values (1, 'x')")

    def run(role: str, statement: str, become: str | None = None) -> list[Any]:
        port = target.server.url().rpartition(":")[2].partition("/")[0]
        connection = psycopg2.connect(
            host="127.0.0.1",
            port=port,
            user=role,
            password=PASSWORD,
            dbname=target.database,
            sslmode="require",
            options="-c default_transaction_read_only=off",  # the reader's seat belt: its rights have to say no
        )
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                if become:
                    cursor.execute(f"set role {become}")
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    return run


READS = ("select * from flat", "select * from surelane.ledger", "select * from surelane.quarantine")
WRITES = (
    "insert into flat values (2, 'y')",
    "update flat set v = 'y'",
    "delete from flat",
    "truncate flat",
    "select * from flat for update",
    "drop table flat",
    "alter table flat add column w int",
    "update surelane.lane set generation = 9",
    "delete from surelane.ledger",
    "insert into surelane.suspect default values",
    "create table public.mine (id int)",
    "create table surelane.mine (id int)",
    "create schema mine",
    "create role mine",
)
FORBIDDEN = (
    "select pg_read_file('/etc/passwd')",
    "copy (select 1) to program 'id'",
    "alter system set work_mem = '1GB'",
    "alter role surelane superuser",
    "set session authorization postgres",
    "set role postgres",
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postgres'",
)


@pytest.mark.parametrize("role", [READER, OPERATOR])
@pytest.mark.parametrize("statement", READS)
def test_who_reads(role: str, statement: str, roles: Callable[..., list[Any]]) -> None:
    roles(role, statement)


@pytest.mark.parametrize("role", [READER, OPERATOR, LOGIN])
def test_who_does_not_write(role: str, roles: Callable[..., list[Any]]) -> None:
    for statement in WRITES:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            roles(role, statement)


def test_the_lanes_login_reads_nothing_as_itself(roles: Callable[..., list[Any]]) -> None:
    for statement in READS:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            roles(LOGIN, statement)
        roles(LOGIN, statement, become=OWNER)


@pytest.mark.parametrize(
    ("role", "become"), [(READER, None), (OPERATOR, None), (LOGIN, None), (LOGIN, OWNER)], ids=lambda one: one or "-"
)
def test_what_no_role_may(role: str, become: str | None, roles: Callable[..., list[Any]]) -> None:
    for statement in FORBIDDEN:
        with pytest.raises((psycopg2.errors.InsufficientPrivilege, psycopg2.errors.ActiveSqlTransaction)):
            roles(role, statement, become)


def test_the_owner_writes_rows_and_not_tables_of_others(roles: Callable[..., list[Any]]) -> None:
    for statement in WRITES[:3]:
        roles(LOGIN, statement, become=OWNER)
    for statement in WRITES[3:4] + WRITES[5:7] + WRITES[10:11] + WRITES[12:]:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            roles(LOGIN, statement, become=OWNER)


def test_the_reader_takes_no_other_role(roles: Callable[..., list[Any]]) -> None:
    for role in (OWNER, LOGIN, OPERATOR):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            roles(READER, "select 1", become=role)


def test_the_owner_cannot_log_in(target: LockedTarget, locked: Locked, roles: Callable[..., list[Any]]) -> None:
    locked.set_password(OWNER, PASSWORD)
    with pytest.raises(psycopg2.OperationalError, match="not permitted to log in"):
        roles(OWNER, "select 1")


def test_who_may_end_what_is_prepared(roles: Callable[..., list[Any]]) -> None:
    """Postgres lets the role that prepared it, so an operator has to become that one."""
    prepare = f"begin; update flat set v = 'z'; prepare transaction '{GID}'"
    roles(LOGIN, prepare, become=OWNER)
    for role in (READER, OPERATOR, LOGIN):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            roles(role, f"commit prepared '{GID}'")
    assert roles(OPERATOR, "select gid, owner from pg_prepared_xacts where database = current_database()") == [
        (GID, OWNER)
    ]
    roles(OPERATOR, f"commit prepared '{GID}'", become=OWNER)
    assert roles(READER, "select v from flat") == [("z",)]


def test_the_script_can_be_run_again(target: LockedTarget, locked: Locked, roles: Callable[..., list[Any]]) -> None:
    target.execute("create table later (id int primary key)")
    give_roles(target.server, target.database)
    roles(LOGIN, "insert into later values (1)", become=OWNER)
    assert roles(READER, "select * from later") == [(1,)]


def test_the_script_takes_other_names(target: LockedTarget, locked: Locked) -> None:
    names = {"owner": 'o"1', "login": "l'2", "operator": "op 3", "reader": "%I", "own_schema": "Other Schema"}
    try:
        make_roles(target.server.url(target.database), **names)
        found = target.server.execute("select rolname from pg_roles where rolname = any(%s)", list(names.values()))
        assert {name for (name,) in found} == set(names.values()) - {"Other Schema"}
        assert target.execute("select from pg_namespace where nspname = 'Other Schema'")
    finally:
        for role in ("owner", "login", "operator", "reader"):
            quoted = names[role].replace('"', '""')
            target.server.execute(f'drop owned by "{quoted}" cascade', database=target.database)
            target.server.execute(f'drop role "{quoted}"')


def test_the_verbs_as_the_operator_and_the_lane(
    target: LockedTarget,
    locked: Locked,
    lane: MakeLane,
    topic: Topic,
    surelane: Callable[..., Ended],
    roles: Callable[..., list[Any]],
) -> None:
    """A lane runs as its login; an operator looks, without and with the owner's role, and answers."""
    made = lane("two-phase", target={"owner_role": OWNER})
    d = Debezium()
    topic.send([d.create(FLAT, {"id": number, "v": "x"}) for number in range(10, 20)])
    made.run_until_caught_up()
    options = ["--config", str(made.config_file)]
    doctor = surelane("doctor", "--json", *options)
    assert [one for one in doctor.json["findings"] if one["level"] == "fault"] == [], doctor.err
    roles(LOGIN, "begin; update flat set v = 'q'; prepare transaction 'other-program'", become=OWNER)
    mine = dict(made.raw)
    for role, name in ((None, "alone.yaml"), (OWNER, "owner.yaml")):
        url = locked.url(target.database, OPERATOR, password_from=f"file:{locked.passwords}")
        mine["target"] = {"url": url, **({"owner_role": role} if role else {})}
        (made.config_file.parent / name).write_text(yaml.safe_dump(mine))
    alone, owner = (["--config", str(made.config_file.parent / name)] for name in ("alone.yaml", "owner.yaml"))
    for verb in (["status"], ["indoubt", "list"], ["guard", "show"], ["quarantine", "list"]):
        ended = surelane(*verb, *alone)
        assert ended.status == 0, (verb, ended.err)
    refused = surelane("indoubt", "rollback", "other-program", "--force", "--reason", "a test", *alone)
    assert refused.status != 0
    ended = surelane("indoubt", "rollback", "other-program", "--force", "--reason", "a test", *owner)
    assert ended.status == 0, ended.err
    assert target.prepared() == []


def test_what_counts_and_a_dump_of_it(
    target: LockedTarget, lane: MakeLane, topic: Topic, surelane: Callable[..., Ended], tmp_path: Path
) -> None:
    """A default of the target's own draws from a sequence, and a dump keeps where that is."""
    counted = "number serial, other int generated always as identity"
    target.execute(f"create table flat (id int primary key, v text, {counted})")
    snapshots = {"directory": str(tmp_path / "snapshots"), "bin_dir": str(bin_dir())}
    made = lane("two-phase", snapshots=snapshots)
    topic.send([Debezium().create(FLAT, {"id": number, "v": "x"}) for number in range(3)])
    made.run_until_caught_up()
    assert sorted(target.execute("select number, other from flat")) == [(1, 1), (2, 2), (3, 3)]
    ended = surelane("snapshot", "create", "--config", str(made.config_file))
    assert ended.status == 0, ended.err


def test_who_sees_what_others_wait_with(target: LockedTarget, roles: Callable[..., list[Any]]) -> None:
    """Before Postgres 16 a role that does not inherit has to take the right."""
    ((version,),) = target.execute("select current_setting('server_version_num')::int")
    look = "select query from pg_stat_activity where application_name = 'reporting'"
    with target.engine.connect() as connection:
        connection.exec_driver_sql("set application_name = 'reporting'")
        (seen,) = roles(READER, look)[0]
        assert "application_name" in seen
        assert roles(OPERATOR, look, become=None if version >= 160000 else "pg_read_all_stats") == [(seen,)]
        assert "insufficient privilege" in roles(LOGIN, look, become=OWNER)[0][0]


def test_the_sources_roles_are_enough_and_no_more(capturing: Stack, new_topic: Callable[..., Topic]) -> None:
    """A connector as `surelane_capture`, which finds its publication made; a reader."""
    database = "captured_by_role"
    source = capturing.source
    source.create_database(database)
    source.execute("create table flat (id int primary key, v text)", database=database)
    source.execute("insert into flat values (1, 'before')", database=database)
    make_roles(source.url(database), SOURCE, publication=database)
    topic = new_topic()
    capturing.capture(database, topic.name, AS_CAPTURE)
    try:
        source.execute("insert into flat values (2, 'after')", database=database)
        eventually(lambda: topic.end >= 2, 60, "both rows")
        for role in (CAPTURE, READER):
            options = "-c default_transaction_read_only=off"
            mine = psycopg2.connect(source.url(database, role), options=options)
            mine.autocommit = True
            with mine.cursor() as cursor:
                cursor.execute("select * from flat")
                for statement in ("insert into flat values (3, 'x')", "delete from flat", "create table mine (id int)"):
                    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                        cursor.execute(statement)
            mine.close()
    finally:
        capturing.release(database)
