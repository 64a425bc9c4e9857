"""`surelane recover run`: a lost target comes back, however often the recovery itself is killed."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg2
import pytest

from app.config.loader import load
from app.db.locks import lock_holder, terminate, try_lock
from app.errors import ExitStatus, Refused
from app.failpoint import RECOVER_NAMES
from app.recover.journal import FILE
from app.recover.original_target_lock import held
from tests.commands import Ended
from tests.fix_doubt import EPOCH, LANE
from tests.fix_rds import Amazon
from tests.fix_recover import MORE, PAGE, Lost, MakeLost, configure, forget, killed, new_database
from tests.fix_snapshot import Copy, Snapshotting
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.oracle import questions
from tests.runbook import commands
from tests.waiting import eventually
from tools.devstack import Kafka
from tools.devstack.postgres import SUPERUSER
from tools.devstack.roles import LOGIN, OWNER, READER

#: where the lane is killed while it replays
LANE_NAMES = ("after-begin", "after-pre-commit", "before-commit", "after-commit")
RESTORE_NAMES = {
    "basebackup": ("restore-before-rename", "restore-before-start", "restore-before-reading"),
    "dump": ("restore-before-rename",),
}
CASES = [
    (driver, name) for driver, restoring in RESTORE_NAMES.items() for name in (*RECOVER_NAMES, *restoring, *LANE_NAMES)
]


def go_on(made: Lost, place: Target, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """The operator has pointed the configuration to it; `run` has the session's Spark."""
    back = made.lane.at(place)
    monkeypatch.setenv("SURELANE_CONFIG", str(back.config_file))

    def run(*words: str) -> Ended:
        if words[0] != "run":
            return made.surelane(*words)
        back.run_until_caught_up()
        return Ended(0, "", "")

    return run


def test_from_a_base_backup(lost: MakeLost, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the page. What came along prepared is rolled back there, and applied anew."""
    made = lost("basebackup")
    made.play("Plan")
    folder, port = made.to[1], made.to[3]
    made.play("Recover from a base backup", folder=folder, port=port)
    assert made.answers() == [(made.gid, "rollback", "done")]
    made.questions()
    again = made()
    assert (again.status, "nothing to do" in again.out) == (0, True)
    report = made("--json").json
    assert (report["finished"], report["ok"], report["url"]) == (True, True, None)
    assert (report["place"]["to"], len(report["steps"])) == (folder, len(RECOVER_NAMES))
    made.play("Go on", go_on(made, made.copy, monkeypatch), other=made.target.url_as(READER))


def test_from_a_dump(lost: MakeLost, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the page, and once more by hand."""
    made = lost("dump")
    made.play("Recover from a dump", place=made.to[1])
    assert made.answers() == []
    report = made("--status", "--json").json
    assert (report["replay"]["done"] >= MORE, report["replay"]["left"]) == (True, 0)
    ((*order, place),) = made.copy.execute("select snapshot, forced, anew, place from surelane.recovery_order")
    assert (order, SUPERUSER in place, place) == ([made.name, False, False], True, report["orders"][0]["place"])
    assert made.target.execute("select * from surelane.recovery_order") == []
    made.questions()
    undo: list[Callable[[], None]] = []
    by_hand = new_database(made.target, "hand", undo)
    place = by_hand.server.url(by_hand.database, SUPERUSER)
    made.play("By hand", go_on(made, by_hand, monkeypatch), place=place)
    questions(by_hand, made.topic)
    for one in undo:
        one()


def test_from_a_snapshot_of_rds(lost: MakeLost, amazon: Amazon) -> None:
    """By the page. The calls are moto's; the instance that they make is a server with what the target had then."""
    made = lost("rds", rds=amazon.section)
    port = made.copy.engine.url.port
    assert port is not None
    amazon.servers["shop-restored"] = port
    refused = made(*made.to)
    assert (refused.status, "has max_prepared_transactions 0" in refused.err) == (ExitStatus.REFUSED, True)
    assert made.course()["restore"] == "failed"
    amazon.slots(64)
    made.play("Recover from a snapshot of RDS", instance="shop-restored")
    assert made.answers() == [(made.gid, "rollback", "done")]
    assert amazon.instance("shop-restored")["DBInstanceStatus"] == "available"
    made.questions()
    assert "nothing to do" in made().out


@pytest.mark.parametrize("driver", ["dump", pytest.param("basebackup", marks=pytest.mark.full)])
def test_several_lanes(driver: str, lost: MakeLost, new_topic: NewTopic) -> None:
    """`order: partition`: each has its place in the copy's ledger, and its transaction, prepared or not."""
    made = lost(driver, new_topic(partitions=3))
    assert len(made.gids) > 1
    ended = made(*made.to)
    assert ended.status == 0, ended.err
    answers = {(answer, state) for _, answer, state in made.answers()}  # the other lanes went on meanwhile
    assert answers == ({("rollback", "done")} if driver == "basebackup" else set())
    assert ended.out.count(" goes on at ") == 3
    made.questions()


def test_killed_again_and_again(lost: MakeLost) -> None:
    """A sample of the matrix below, one after the other; then something is wrong in the end, and mended."""
    made = lost("dump")
    made.killed("restore-before-rename", *made.to)
    assert made.course() == {"check": "done", "restore": "begun"} | dict.fromkeys(
        ("in-doubt", "ledger", "replay", "verify"), "waiting"
    )
    made.killed("recover-in-doubt")
    made.killed("before-commit")
    assert len(made.copy.prepared()) == 1
    made.killed("recover-replay")
    assert made.copy.prepared() == []
    made.copy.execute("update public.counter set hits = hits + 1")
    wrong = made("--against", made.target.url_as(READER), "--same-names")
    assert (wrong.status, "FAULT comparison" in wrong.out) == (ExitStatus.DIFFERENT, True)
    made.copy.execute("update public.counter set hits = hits - 1")
    made.play("Killed, or failed")
    assert set(made.course().values()) == {"done"}
    orders = made("--status", "--json").json["orders"]
    assert len(orders) == 6
    assert {one["place"] for one in orders} == {orders[0]["place"]}
    rows = made.copy.execute("select who, reason from surelane.recovery_order order by at")
    assert [tuple(row) for row in rows] == [(one["who"], one["reason"]) for one in orders]
    made.questions()


def test_every_section_of_the_page_is_played() -> None:
    """Above, and in test_start_table."""
    here = {"Plan", "Killed, or failed", "Go on", "By hand", "Stopped with status 6"}
    ways = {f"Recover from a {what}" for what in ("base backup", "dump", "snapshot of RDS")}
    assert {command.section for command in commands(PAGE)} == here | ways


@pytest.mark.full
@pytest.mark.parametrize(("driver", "name"), CASES)
def test_killed_anywhere(driver: str, name: str, lost: MakeLost) -> None:
    made = lost(driver)
    made.killed(name, *made.to)
    ended = made()
    assert ended.status == 0, ended.err
    assert made.answers() == ([(made.gid, "rollback", "done")] if driver == "basebackup" else [])
    made.questions()


@pytest.mark.full
def test_killed_without_its_lane(lost: MakeLost, tmp_path: Path) -> None:
    """The lane that is left alone stops by itself."""
    made = lost("dump")
    held = tmp_path / "after-begin"
    with made.process(*made.to, failpoint=f"after-begin=wait:{tmp_path}") as process:
        eventually(held.exists, why="the replay's first epoch")
        os.kill(process.pid, signal.SIGKILL)
    held.unlink()
    with made.copy.engine.connect() as connection:
        eventually(lambda: lock_holder(connection, made.lane.name) is None, why="the lane to stop")
    ended = made()
    assert ended.status == 0, ended.err
    made.questions()


@pytest.fixture
def run(snapshotting: Snapshotting, made_up: Topic, surelane: Callable[..., Ended]) -> Callable[..., Ended]:
    """Of a lane without Spark; its snapshot is `one`."""
    del made_up
    snapshotting.json("create", "--name", "one")
    return lambda *more: surelane("recover", "run", "--snapshot", "one", *more)


def is_there(copy: Copy) -> bool:
    server, name = copy.target.server, copy.target.database
    return bool(server.execute("select from pg_database where starts_with(datname, %s)", name))


def test_refused_before_anything_is_done(
    run: Callable[..., Ended], snapshotting: Snapshotting, made_up: Topic, kafka: Kafka
) -> None:
    copy = snapshotting.place("dump")
    assert "no recovery from one was begun" in run("--status").out
    assert run().status == ExitStatus.CONFIG
    with snapshotting.target.engine.connect() as connection:
        assert try_lock(connection, LANE)
        ended = run(*copy.to)
    assert (ended.status, "runs on the original target" in ended.err) == (ExitStatus.REFUSED, True)

    data = snapshotting.directory / "one" / "data" / "toc.dat"
    whole = data.read_bytes()
    data.write_bytes(whole[:-1] + b"x")
    ended = run(*copy.to)
    assert (ended.status, "is not what was made" in ended.err) == (ExitStatus.REFUSED, True)
    data.write_bytes(whole)

    ended = run(*copy.to, "--against", snapshotting.target.url_as(READER), "--tables", "orders")
    assert (ended.status, "is not a target schema.table" in ended.err) == (ExitStatus.USAGE, True)
    assert not is_there(copy)

    forget(kafka, made_up.name, EPOCH + 2)
    ended = run(*copy.to)
    assert (ended.status, "Kafka has no longer" in ended.err) == (ExitStatus.DIVERGED, True)
    assert not is_there(copy)


def test_what_speaks_against_a_place(run: Callable[..., Ended], snapshotting: Snapshotting) -> None:
    """An unfinished one is gone on with, or given up; the target itself is no new place, whatever it was made of."""
    copy, other = snapshotting.place("dump"), snapshotting.place("dump")
    snapshotting.json("restore", "one", *copy.to)
    configure(snapshotting, target=copy.target.section)
    for _ in range(2):
        ended = run(*copy.to)
        assert (ended.status, "is the target itself" in ended.err) == (ExitStatus.REFUSED, True)
    configure(snapshotting, target=snapshotting.target.section)
    words = ("recover", "run", "--snapshot", "one")
    killed("recover-ledger", *words, *copy.to)
    with (snapshotting.directory / "one" / FILE).open("a") as file:
        file.write('{"at": "half a li')
    assert "4. ledger    begun\n" in run("--status").out
    ended = run(*other.to)
    assert (ended.status, "is not finished" in ended.err) == (ExitStatus.REFUSED, True)
    assert not is_there(other)
    killed("recover-restore", *words, *other.to, "--anew")
    assert is_there(other)
    said = run("--status").out
    assert other.target.database in said
    assert "3. in-doubt  waiting\n" in said


def test_a_lane_that_starts_on_the_original_is_noticed(snapshotting: Snapshotting) -> None:
    """As a start does it: the session with the lock is ended, and the lock taken."""
    with held(load(), [LANE]) as original, snapshotting.target.engine.connect() as lane:
        original.look()
        holder = lock_holder(lane, LANE)
        assert holder is not None
        terminate(lane, holder)
        eventually(lambda: try_lock(lane, LANE), why="the lock to be free")
        with pytest.raises(Refused, match="runs on the original target"):
            original.look()
    configure(snapshotting, target={"url": "postgresql://surelane@127.0.0.1:1/gone"})
    with held(load(), [LANE]) as original:
        assert original.trouble
        original.look()


def test_foreign_prepared_transactions(
    snapshotting: Snapshotting, made_up: Topic, surelane: Callable[..., Ended]
) -> None:
    """They are not touched unless that is said; the refusal says how."""
    del made_up
    for gid in ("other-program-17", f"surelane:{LANE}:1:1"):
        connection = psycopg2.connect(snapshotting.target.server.url(snapshotting.target.database, LOGIN))
        with connection, connection.cursor() as cursor:
            cursor.execute(f"set role {OWNER}")
        connection.tpc_begin(gid)
        with connection.cursor() as cursor:
            cursor.execute(f'create table surelane."of {gid}" ()')
        connection.tpc_prepare()
        connection.close()
    snapshotting.json("create", "--name", "two", "--driver", "basebackup")
    copy = snapshotting.place("basebackup")
    words = ("recover", "run", "--snapshot", "two")
    ended = surelane(*words, *copy.to)
    assert ended.status == ExitStatus.REFUSED
    assert "surelane recover run --snapshot two --roll-back-foreign" in ended.err
    assert len(copy.target.prepared()) == 2
    killed("recover-in-doubt", *words, "--roll-back-foreign")
    assert copy.target.prepared() == []
    answered = copy.target.execute("select verdict, answer, state from surelane.indoubt_answer order by verdict")
    assert [tuple(row) for row in answered] == [("foreign", "rollback", "done"), ("unsure", "rollback", "done")]
    assert len(snapshotting.target.prepared()) == 2
