"""Each role of ops/postgres is enough for what it is for, and for nothing more."""

from collections.abc import Callable
from typing import Any

import psycopg2
import psycopg2.errors
import pytest
import yaml

from app.embedded import Stack
from tests import messages as m
from tests.fix_cli import Ended
from tests.fix_lane import MakeLane
from tests.fix_locked import LOGIN, OPERATOR, OWNER, PASSWORD, READER, TOP, Locked, LockedTarget
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.waiting import eventually

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
NOBODY = (
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
def test_what_nobody_may(role: str, become: str | None, roles: Callable[..., list[Any]]) -> None:
    for statement in NOBODY:
        with pytest.raises((psycopg2.errors.InsufficientPrivilege, psycopg2.errors.ActiveSqlTransaction)):
            roles(role, statement, become)


def test_the_owner_writes_rows_and_not_tables_of_others(roles: Callable[..., list[Any]]) -> None:
    for statement in WRITES[:3]:
        roles(LOGIN, statement, become=OWNER)
    for statement in WRITES[3:4] + WRITES[5:7] + WRITES[10:11] + WRITES[12:]:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            roles(LOGIN, statement, become=OWNER)


def test_the_reader_becomes_nobody(roles: Callable[..., list[Any]]) -> None:
    for role in (OWNER, LOGIN, OPERATOR):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            roles(READER, "select 1", become=role)


def test_nobody_logs_in_as_the_owner(target: LockedTarget, locked: Locked, roles: Callable[..., list[Any]]) -> None:
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
    locked.run("roles.sql", target.database, connections="90")
    roles(LOGIN, "insert into later values (1)", become=OWNER)
    assert roles(READER, "select * from later") == [(1,)]


def test_the_script_takes_other_names(target: LockedTarget, locked: Locked) -> None:
    names = {"owner": 'o"1', "login": "l'2", "operator": "op 3", "reader": "%I", "own_schema": "Other Schema"}
    try:
        locked.run("roles.sql", target.database, **names)
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
    told = ["--config", str(made.config_file)]
    doctor = surelane("doctor", "--json", *told)
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


def test_debeziums_role_is_enough_and_no_more(capturing: Stack, new_topic: Callable[..., Topic]) -> None:
    """A connector as `surelane_capture`, which finds its publication made."""
    database = "captured_by_role"
    source = capturing.source
    source.create_database(database)
    source.execute("create table flat (id int primary key, v text)", database=database)
    source.execute("insert into flat values (1, 'before')", database=database)
    connection = psycopg2.connect(source.url(database))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"set surelane.publication = '{database}'")
        cursor.execute((TOP / "ops/postgres/source-roles.sql").read_text())
    connection.close()
    topic = new_topic()
    as_role = {"database.user": "surelane_capture", "publication.autocreate.mode": "disabled"}
    capturing.capture(database, topic.name, as_role)
    try:
        source.execute("insert into flat values (2, 'after')", database=database)
        eventually(lambda: topic.end >= 2, 60, "both rows")
        mine = psycopg2.connect(source.url(database, "surelane_capture"))
        mine.autocommit = True
        with mine.cursor() as cursor:
            for statement in ("insert into flat values (3, 'x')", "delete from flat", "create table mine (id int)"):
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    cursor.execute(statement)
        mine.close()
    finally:
        capturing.release(database)
