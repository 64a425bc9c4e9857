"""Snapshots from the command line, on a real target whose lane goes on: taken, restored, killed in between."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg2
import pytest

import app.apply.staging
import app.snapshot.snapshot_directory
from app.db.engine import make_engine
from app.errors import ExitStatus
from app.ledger.migrations import upgrade
from tests.fix_bare_lane import TOPIC
from tests.fix_doubt import EPOCH, LANE, counted
from tests.fix_snapshot import Snapshotting, stop_cluster
from tests.fix_target import SCHEMA
from tests.waiting import eventually
from tools.devstack.postgres import SUPERUSER
from tools.devstack.postgres_binaries import bin_dir
from tools.devstack.roles import OPERATOR, OWNER, READER

DRIVERS = ("dump", "basebackup")
both = pytest.mark.parametrize("driver", DRIVERS)
full = pytest.mark.full


def names(snapshotting: Snapshotting) -> list[str]:
    return [one["name"] for one in snapshotting.json("list")["snapshots"]]


def leftovers(snapshotting: Snapshotting) -> list[str]:
    return [one.name for one in snapshotting.directory.iterdir() if one.name.startswith(".")]


@both
def test_what_is_restored_is_the_fold_up_to_its_own_ledgers_end(snapshotting: Snapshotting, driver: str) -> None:
    before = len(snapshotting.lane.sent)
    with snapshotting.writing():
        made = snapshotting.json("create", "--driver", driver)
    after = len(snapshotting.lane.sent)
    snapshotting.lane.check()
    assert (made["driver"], made["lane"], made["exact"]) == (driver, LANE, driver == "dump")
    assert names(snapshotting) == [made["name"]]
    copy = snapshotting.restore(made["name"], driver)
    end = copy.check()
    assert before < end < after
    assert made["first"]["lanes"][0]["applied"][TOPIC.topic]["0"] <= end
    if driver == "dump":
        assert made["position"] == {TOPIC.topic: {"0": end}}
    else:
        assert end <= made["last"]["lanes"][0]["applied"][TOPIC.topic]["0"]
        (found,) = snapshotting.json("list")["snapshots"]
        assert (found["exact"], found["position"]) == (True, {TOPIC.topic: {"0": end}})
    # the original goes on, the copy stays
    snapshotting.lane.apply(counted(len(snapshotting.lane.sent)))
    assert copy.check() == end


@both
def test_what_is_prepared(snapshotting: Snapshotting, driver: str) -> None:
    snapshotting.lane.prepare(counted(EPOCH))
    (gid,) = snapshotting.target.prepared()
    made = snapshotting.json("create", "--driver", driver)
    (seen,) = made["first"]["prepared"]
    assert (seen["gid"], seen["owner"], seen["database"]) == (gid, OWNER, snapshotting.target.database)
    slots = ("--max-prepared-transactions", "70") if driver == "basebackup" else ()
    copy = snapshotting.restore(made["name"], driver, *slots)
    assert copy.check() == EPOCH
    held = copy.target.prepared()
    assert held == ([gid] if driver == "basebackup" else [])
    if driver == "basebackup":
        assert copy.target.execute("show max_prepared_transactions")[0][0] == "70"
        assert [one["gid"] for one in copy.report["prepared"]] == [gid]
        again = snapshotting("restore", made["name"], *copy.to).out
        assert gid in again
        assert "surelane recover --from-ledger" in again
    assert snapshotting.target.prepared() == [gid]


@pytest.mark.parametrize("driver", ["dump", pytest.param("basebackup", marks=full)])
def test_restored_again(snapshotting: Snapshotting, driver: str) -> None:
    made = snapshotting.json("create", "--driver", driver)
    copy = snapshotting.restore(made["name"], driver)
    assert not copy.report["before"]
    copy.target.execute("delete from public.counter")
    copy.report = snapshotting.json("restore", made["name"], *copy.to)
    assert copy.report["before"]
    assert copy.target.rows("public.counter") == {}, "it was restored over a change"


@both
def test_never_over_anything(snapshotting: Snapshotting, driver: str) -> None:
    made = snapshotting.json("create", "--driver", driver)
    server = snapshotting.target.server
    if driver == "dump":
        to = ("--to", server.url(snapshotting.target.database, SUPERUSER))
    else:
        to = ("--to", str(server.cluster), "--port", "1")
    ended = snapshotting("restore", made["name"], *to)
    assert ended.status == ExitStatus.REFUSED
    assert "not empty" in ended.err
    snapshotting.lane.check()


def test_into_an_empty_database(snapshotting: Snapshotting) -> None:
    made = snapshotting.json("create")
    copy = snapshotting.place("dump")
    snapshotting.target.server.create_database(copy.target.database)
    snapshotting.killed("restore-before-rename", "restore", made["name"], *copy.to)
    copy.report = snapshotting.json("restore", made["name"], *copy.to)
    assert copy.check() == EPOCH


def test_a_database_of_another_kind(snapshotting: Snapshotting) -> None:
    """The restored one has the original's encoding and order, not the server's."""
    server, name = snapshotting.target.server, f"{snapshotting.target.database}-latin"
    server.execute(f"create database \"{name}\" template template0 encoding latin1 lc_collate 'C' lc_ctype 'C'")
    server.execute(f"create database \"{name}-icu\" template template0 locale_provider icu icu_locale 'sv' locale 'C'")
    try:
        for database, kind in ((name, ("LATIN1", "c", None)), (f"{name}-icu", ("UTF8", "i", "sv"))):
            url = server.url(database, SUPERUSER)
            upgrade(make_engine(url.replace("postgresql:", "postgresql+psycopg2:")), SCHEMA)
            snapshotting.configure(target=url, url=url)
            copy = snapshotting.place("dump")
            snapshotting.json("restore", snapshotting.json("create")["name"], *copy.to)
            ((encoding, described),) = copy.target.server.execute(
                "select pg_encoding_to_char(encoding), to_jsonb(d) from pg_database d"
                " where datname = current_database()",
                database=copy.target.database,
            )
            assert isinstance(described, dict)
            found = described["datlocprovider"], described.get("datlocale") or described.get("daticulocale")
            assert (encoding, *found) == kind
    finally:
        for database in (name, f"{name}-icu"):
            server.execute(f'drop database "{database}" with (force)')


def test_too_few_slots(snapshotting: Snapshotting) -> None:
    snapshotting.lane.prepare(counted(EPOCH))
    made = snapshotting.json("create", "--driver", "basebackup")
    copy = snapshotting.place("basebackup")
    ended = snapshotting("restore", made["name"], *copy.to, "--max-prepared-transactions", "0")
    assert ended.status == ExitStatus.REFUSED
    assert "max_prepared_transactions 0 is too low: the snapshot may hold up to 64" in ended.err
    assert "(1 were seen)" in ended.err
    assert "--max-prepared-transactions 64 or more" in ended.err
    assert not Path(copy.to[1]).exists()


def test_settings_of_the_original_do_no_harm(snapshotting: Snapshotting) -> None:
    server = snapshotting.target.server
    server.execute("alter system set max_prepared_transactions = 1")
    server.execute("alter system set synchronous_standby_names = 'nobody'")
    try:
        made = snapshotting.json("create", "--driver", "basebackup")
    finally:
        server.execute("alter system reset all")
    copy = snapshotting.restore(made["name"], "basebackup")
    shown = {name: copy.target.execute(f"show {name}")[0][0] for name in ("max_prepared_transactions", "archive_mode")}
    assert shown == {"max_prepared_transactions": "64", "archive_mode": "off"}
    copy.target.execute("delete from public.counter")  # without a standby


@both
def test_verify_names_what_is_damaged(snapshotting: Snapshotting, driver: str) -> None:
    name = snapshotting.json("create", "--driver", driver)["name"]
    assert snapshotting.json("verify", name)["sound"]
    data = snapshotting.directory / name / "data"
    missing = data / ("toc.dat" if driver == "dump" else "PG_VERSION")
    others = (one for one in data.rglob("*") if one.is_file() and one != missing)
    victim = max(others, key=lambda one: one.stat().st_size)
    with victim.open("r+b") as file:
        file.seek(victim.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    (data / "more").touch()
    missing.unlink()
    ended = snapshotting("verify", name, "--json")
    assert ended.status == ExitStatus.DIFFERENT
    faults = ended.json["faults"]
    where = snapshotting.directory / name
    assert f"{victim.relative_to(where)}: is not what was written" in faults
    assert "data/more: was not there when it was made" in faults
    assert f"{missing.relative_to(where)}: is missing" in faults
    program = "pg_restore" if driver == "dump" else "pg_verifybackup"
    assert any(one.startswith(f"{program} ended with status") for one in faults)
    copy = snapshotting.place(driver)
    refused = snapshotting("restore", name, *copy.to)
    assert refused.status == ExitStatus.REFUSED
    assert str(victim.relative_to(where)) in refused.err


@pytest.mark.parametrize(
    ("driver", "failpoint"),
    [
        ("dump", "snapshot-before-manifest"),
        ("basebackup", "snapshot-before-rename"),
        pytest.param("dump", "snapshot-before-rename", marks=full),
        pytest.param("basebackup", "snapshot-before-manifest", marks=full),
    ],
)
def test_killed_while_it_is_made(snapshotting: Snapshotting, driver: str, failpoint: str) -> None:
    snapshotting.killed(failpoint, "create", "--driver", driver, "--name", "one")
    listing = snapshotting.json("list")
    assert (listing["snapshots"], listing["unfinished"], listing["broken"]) == ([], ["one"], [])
    assert snapshotting("restore", "one", "--to", "x", "--port", "1").status == ExitStatus.REFUSED
    assert snapshotting.json("create", "--driver", driver, "--name", "two")["name"] == "two"
    assert leftovers(snapshotting) == []
    assert snapshotting.json("create", "--driver", driver, "--name", "one")["name"] == "one"
    assert names(snapshotting) == ["two", "one"]


def test_what_runs_for_a_killed_one_ends_with_it(snapshotting: Snapshotting) -> None:
    with psycopg2.connect(snapshotting.target.server.url(snapshotting.target.database)) as holder:
        holder.cursor().execute("lock table public.counter in access exclusive mode")
        with snapshotting.process("create", "--name", "one") as process:
            (dump,) = eventually(lambda: _children(process, "pg_dump"), why="pg_dump")
            assert "one" in snapshotting.json("list")["unfinished"]
            refused = snapshotting("create", "--name", "one")
            assert (refused.status, "right now" in refused.err) == (ExitStatus.REFUSED, True)
            process.send_signal(signal.SIGKILL)  # itself, not what it started
        eventually(lambda: not dump.is_running() or dump.status() == psutil.STATUS_ZOMBIE, why="the end of pg_dump")
    holder.close()
    assert snapshotting.json("create", "--name", "one")["name"] == "one"


def _children(process: "subprocess.Popen[bytes]", name: str) -> list[psutil.Process]:
    found = psutil.Process(process.pid).children(recursive=True)
    return [one for one in found if one.name() == name]


def test_the_lane_goes_on_while_a_dump_is_taken(snapshotting: Snapshotting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump waits for another session's lock for long; the lane truncates its staging tables all the same."""
    monkeypatch.setattr(app.apply.staging, "RECLAIM_AFTER_BYTES", 0)
    target = snapshotting.target
    target.execute("create table public.other (id int primary key)")
    with psycopg2.connect(target.server.url(target.database)) as holder:
        holder.cursor().execute("lock table public.other in access exclusive mode")
        with snapshotting.process("create", "--name", "one") as process:
            eventually(lambda: _waits(snapshotting), why="pg_dump to wait for the lock, with those of other tables")
            with snapshotting.writing():
                staging = target.execute(
                    "select format('%I.%I', schemaname, tablename) from pg_tables where tablename ~ '^stage_'"
                )
                assert staging
                locked = target.server.execute(
                    "select c.relname from pg_locks l join pg_class c on c.oid = l.relation join pg_stat_activity a"
                    " using (pid) where application_name = 'surelane snapshot' and granted and relname ~ '^stage_'",
                    database=target.database,
                )
                assert locked == []
            holder.rollback()
            assert process.wait(60) == 0
    holder.close()
    copy = snapshotting.restore("one", "dump")
    assert copy.check() == EPOCH
    assert copy.target.execute("select from pg_tables where tablename ~ '^stage_'") == []


def _waits(snapshotting: Snapshotting) -> bool:
    return bool(
        snapshotting.target.server.execute(
            "select from pg_stat_activity where datname = %s and wait_event_type = 'Lock'"
            " and application_name = 'surelane snapshot'",
            snapshotting.target.database,
        )
    )


@pytest.mark.costly(1)
@both
def test_killed_while_it_is_restored(snapshotting: Snapshotting, driver: str) -> None:
    name = snapshotting.json("create", "--driver", driver)["name"]
    copy = snapshotting.place(driver)
    failpoints = ["restore-before-rename"]
    if driver == "basebackup":
        failpoints += ["restore-before-start", "restore-before-reading"]
    for failpoint in failpoints:
        snapshotting.killed(failpoint, "restore", name, *copy.to)
        if failpoint == "restore-before-rename":
            if driver == "basebackup":
                assert not Path(copy.to[1]).exists()
            else:
                made = "select from pg_database where datname = %s"
                assert snapshotting.target.server.execute(made, copy.target.database) == []
    copy.report = snapshotting.json("restore", name, *copy.to)
    assert not copy.report["before"]
    assert copy.check() == EPOCH
    if driver == "basebackup":
        assert [one.name for one in Path(copy.to[1]).parent.glob(".*")] == []
        stop_cluster(Path(copy.to[1]))
        copy.report = snapshotting.json("restore", name, *copy.to)  # starts it again
        assert copy.report["before"]
        assert copy.check() == EPOCH


def test_names_of_one_second(snapshotting: Snapshotting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.snapshot.snapshot_directory, "timed_name", lambda *_: "orders-now")
    made = [snapshotting.json("create")["name"] for _ in range(3)]
    assert made == names(snapshotting) == ["orders-now", "orders-now-2", "orders-now-3"]


def test_delete_asks(snapshotting: Snapshotting, monkeypatch: pytest.MonkeyPatch) -> None:
    name = snapshotting.json("create")["name"]
    with Path(os.devnull).open() as no_terminal:
        monkeypatch.setattr(sys, "stdin", no_terminal)
        refused = snapshotting("delete", name)
    assert (refused.status, "--yes" in refused.err) == (ExitStatus.REFUSED, True)
    assert names(snapshotting) == [name]
    assert snapshotting("delete", name, "--yes").status == 0
    assert names(snapshotting) == []
    assert recorded(snapshotting) == []
    assert list(snapshotting.directory.iterdir()) == []
    assert snapshotting("delete", name, "--yes").status == ExitStatus.REFUSED


def recorded(snapshotting: Snapshotting) -> list[str]:
    return [row[0] for row in snapshotting.target.execute("select name from surelane.snapshot order by at")]


def test_retention(snapshotting: Snapshotting) -> None:
    for name in ("one", "two", "three"):
        snapshotting.json("create", "--name", name)
    other = snapshotting.json("create", "--name", "other", "--driver", "basebackup", "--keep", "1")
    assert other["deleted"] == []
    assert snapshotting.json("create", "--name", "four", "--keep", "2")["deleted"] == ["one", "two"]
    assert names(snapshotting) == ["three", "other", "four"]
    assert recorded(snapshotting) == ["three", "other", "four"]


def test_programs_that_do_not_fit(snapshotting: Snapshotting, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    snapshotting.configure(bin_dir=str(folder))
    for driver, program in (("dump", "pg_dump"), ("basebackup", "pg_basebackup")):
        ended = snapshotting("create", "--driver", driver)
        assert ended.status == ExitStatus.ENVIRONMENT
        assert f"there is no {program} of version" in ended.err
        assert "snapshots.bin_dir" in ended.err
        old = folder / program
        old.write_text(f"#!/bin/sh\necho '{program} (PostgreSQL) 9.6.24'\n")
        old.chmod(0o755)
        ended = snapshotting("create", "--driver", driver)
        assert ended.status == ExitStatus.ENVIRONMENT
        assert f"{old} is 9" in ended.err
    assert names(snapshotting) == []
    assert leftovers(snapshotting) == []


def test_a_program_that_fails(snapshotting: Snapshotting, tmp_path: Path) -> None:
    folder = tmp_path / "failing"
    folder.mkdir()
    program = folder / "pg_dump"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo "pg_dump (PostgreSQL) 99.1"\necho no space >&2; exit 3\n'
    )
    program.chmod(0o755)
    snapshotting.configure(bin_dir=str(folder))
    ended = snapshotting("create")
    assert ended.status == ExitStatus.ENVIRONMENT
    assert "pg_dump ended with status 3: no space" in ended.err
    assert leftovers(snapshotting) == []


def test_a_place_that_cannot_be_written(snapshotting: Snapshotting) -> None:
    name = snapshotting.json("create", "--driver", "basebackup")["name"]
    for folder in ("/proc/restored", "/there/is/none"):
        ended = snapshotting("restore", name, "--to", folder, "--port", "1")
        assert ended.status in (ExitStatus.ENVIRONMENT, ExitStatus.CONFIG)
        assert folder.rpartition("/")[0] in ended.err
    snapshotting.configure(directory="/proc/snapshots")
    ended = snapshotting("create")
    assert (ended.status, "snapshots.directory" in ended.err) == (ExitStatus.CONFIG, True)


def test_roles(snapshotting: Snapshotting) -> None:
    server = snapshotting.target.server
    role = f"reader of {snapshotting.target.database}"
    server.execute(f'create role "{role}"')
    snapshotting.target.execute(f'grant select on public.counter to "{role}"')
    made = snapshotting.json("create")
    assert made["server"]["roles"] == [role, OPERATOR, OWNER, READER]
    snapshotting.target.execute(f'revoke all on public.counter from "{role}"')
    server.execute(f'drop role "{role}"')
    copy = snapshotting.place("dump")
    ended = snapshotting("restore", made["name"], *copy.to)
    assert ended.status == ExitStatus.REFUSED
    assert f'CREATE ROLE "{role}"' in ended.err
    copy.report = snapshotting.json("restore", made["name"], *copy.to, "--no-owner")
    assert copy.report["position"] == {TOPIC.topic: {"0": EPOCH}}


def test_no_password_is_anywhere(snapshotting: Snapshotting) -> None:
    secret = "s3cret-of-tests"
    url = snapshotting.target.server.url(snapshotting.target.database, f"{SUPERUSER}:{secret}")
    snapshotting.configure(url=url)
    with psycopg2.connect(snapshotting.target.server.url(snapshotting.target.database)) as holder:
        holder.cursor().execute("lock table public.counter in access exclusive mode")
        with snapshotting.process("create", "--name", "one") as process:
            (child,) = eventually(lambda: _children(process, "pg_dump"), why="pg_dump")
            assert secret not in " ".join(child.cmdline())
            holder.rollback()
            assert process.wait(60) == 0
            assert process.stderr is not None
            assert secret.encode() not in process.stderr.read()
    holder.close()
    copy = snapshotting.place("dump")
    to = copy.to[1].replace(f"{SUPERUSER}@", f"{SUPERUSER}:{secret}@")
    for options in ((), ("--json",)):
        ended = snapshotting("restore", "one", "--to", to, *options)
        assert ended.status == 0
        assert secret not in ended.out + ended.err
    texts = [one.read_bytes() for one in snapshotting.directory.rglob("*") if one.is_file()]
    assert texts
    assert not any(secret.encode() in text for text in texts)


def test_for_people(snapshotting: Snapshotting) -> None:
    assert snapshotting("list").out == f"there is no snapshot in {snapshotting.directory}\n"
    made = snapshotting("create", "--name", "one").out.splitlines()
    assert made[0].startswith("one: ")
    assert made[1:] == [f"  position {TOPIC}@{EPOCH}"]
    head, line = snapshotting("list").out.splitlines()
    assert head.split() == ["name", "driver", "lane", "made", "age", "size", "position", "in", "doubt"]
    assert line.split()[:3] == ["one", "dump", LANE]
    assert f"{TOPIC}@{EPOCH}" in line
    assert snapshotting("verify", "one").out.splitlines()[-1] == "one: sound"
    copy = snapshotting.place("dump")
    said = snapshotting("restore", "one", *copy.to).out
    assert f"lane {LANE}: {TOPIC}@{EPOCH}, generation 1, epoch 0" in said
    assert snapshotting("create", "--name", "Not this").status == ExitStatus.REFUSED
    assert snapshotting("create", "--name", "one").status == ExitStatus.REFUSED


def test_a_manifest_that_cannot_be_read(snapshotting: Snapshotting) -> None:
    snapshotting.json("create", "--name", "one")
    manifest = snapshotting.directory / "one" / "manifest.json"
    for text in ("", "[]", "{}", json.dumps({"format": 2})):
        manifest.write_text(text)
        listing = snapshotting.json("list")
        assert (listing["snapshots"], [one["name"] for one in listing["broken"]]) == ([], ["one"])
        assert snapshotting("verify", "one").status == ExitStatus.REFUSED
    assert snapshotting("delete", "one", "--yes").status == 0
    assert snapshotting.json("list")["broken"] == []


def test_a_role_that_may_not(snapshotting: Snapshotting) -> None:
    snapshotting.configure(url=str(snapshotting.target.url), bin_dir=str(bin_dir()))
    ended = snapshotting("create", "--driver", "basebackup")
    assert ended.status == ExitStatus.TARGET
    assert 'ALTER ROLE "surelane" REPLICATION' in ended.err
