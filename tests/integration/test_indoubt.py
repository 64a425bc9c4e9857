"""Prepared transactions from the command line, on a real target with a lane that is down: shown, answered, refused."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from app.cli.indoubt_view import answers_text, explain_text, list_text
from app.cli.rendering import show
from app.db.locks import try_lock
from app.errors import ExitStatus
from app.recover.verdict import InDoubtVerdict, OperatorAnswer, consequence
from tests.fix_bare_lane import TOPIC, Death
from tests.fix_doubt import EPOCH, LANE, Doubt
from tests.waiting import eventually
from tools.devstack import Postgres
from tools.devstack.postgres import SUPERUSER
from tools.devstack.roles import OWNER

FORCE = ("--force", "--reason", "the checkpoint's disk is gone")
FOREIGN = "it's another program's; select 1"
PAST = {"commit": "committed", "rollback": "rolled back"}


def applied(doubt: Doubt) -> int:
    """Rows that a reader of the target sees."""
    return len(doubt.target.rows("public.counter"))


def verdict(doubt: Doubt, gid: str, *options: str) -> str:
    return doubt("explain", gid, "--json", *options).json["verdict"]


def refused(doubt: Doubt, *call: str) -> str:
    """What a refused call says; nothing is changed by it."""
    before = doubt.target.prepared(), applied(doubt), doubt.answers()
    ended = doubt(*call)
    assert (ended.status, ended.out) == (ExitStatus.REFUSED, "")
    assert (doubt.target.prepared(), applied(doubt), doubt.answers()) == before
    return ended.err


def test_nothing_is_prepared(doubt: Doubt) -> None:
    assert doubt("list").out.splitlines()[0] == "nothing is prepared in this database"
    assert doubt("list", "--json").json == {
        "lane": LANE,
        "transactions": [],
        "slots": {"used": 0, "limit": 64},
        "unfinished": [],
    }


def test_list_and_explain(doubt: Doubt) -> None:
    gid, foreign = doubt.prepare(decided=True), doubt.foreign()
    head, mine, other, slots = doubt("list").out.splitlines()
    assert head.split() == ["gid", "age", "owner", "verdict", "tables", "locks", "blocks"]
    assert mine.split()[0] == gid
    assert mine.split()[2:5] == [OWNER, "commit", "public.counter"]
    assert other.split()[0] == foreign
    assert other.split()[2:5] == [OWNER, "foreign", "public.stock"]
    assert slots.startswith("2 of 64 ")
    said = doubt("explain", gid).out
    for words in (
        "commits/1 exists",
        "RowExclusiveLock on public.counter",
        "made-up[0]@3..5",
        "surelane run",
        "no session",
    ):
        assert words in " ".join(said.split())
    first, second = doubt("list", "--json").json["transactions"]
    assert (first["lane"], first["generation"], first["epoch"], first["answer"]) == (LANE, 1, 1, "commit")
    assert 0 < first["age_seconds"] < 60
    seen = first["evidence"]
    assert (seen["planned"], seen["complete"], seen["ledger_row"], seen["holder"]) == (True, True, False, None)
    assert seen["checkpoint"] == seen["of_generation"] == seen["current"] == "none"
    assert seen["span"]["end"] == {"made-up": {"0": 2 * EPOCH}}
    assert (second["verdict"], second["lane"], second["evidence"], second["answer"]) == ("foreign", None, None, None)
    assert first == doubt("explain", gid, "--json").json | {"age_seconds": first["age_seconds"]}


@pytest.mark.parametrize("decided", [True, False], ids=["decided", "not decided"])
def test_the_answer_that_the_evidence_asks_for(doubt: Doubt, decided: bool) -> None:
    gid = doubt.prepare(decided=decided)
    right, wrong = ("commit", "rollback") if decided else ("rollback", "commit")
    assert verdict(doubt, gid) == right
    for options in ((), ("--reason", "a reason alone does not force")):
        assert "--force" in refused(doubt, wrong, gid, *options)
    ended = doubt(right, gid)
    assert (ended.status, ended.out) == (0, f"{gid} {PAST[right]}, answer 1\n")
    assert doubt.target.prepared() == []
    assert applied(doubt) == (2 * EPOCH if decided else EPOCH)
    (row,) = doubt.answers()
    assert (row["lane"], row["gid"], row["generation"], row["epoch"]) == (LANE, gid, 1, 1)
    assert (row["answer"], row["verdict"], row["forced"], row["reason"]) == (right, right, False, None)
    assert (row["state"], row["outcome"]) == ("done", PAST[right])
    assert (row["db_user"], bool(row["os_user"]), bool(row["host"])) == ("surelane", True, True)
    assert row["at"] < row["ended_at"]
    assert row["evidence"]["complete"] is decided
    assert row["evidence"]["tables"] == ["public.counter"]


@pytest.mark.parametrize("decided", [True, False], ids=["decided", "not decided"])
def test_the_other_answer_needs_force_and_a_reason(doubt: Doubt, decided: bool) -> None:
    gid = doubt.prepare(decided=decided)
    wrong = "rollback" if decided else "commit"
    for options in (("--force",), ("--force", "--reason", " ")):
        assert doubt(wrong, gid, *options).status == ExitStatus.USAGE
    ended = doubt(wrong, gid, *FORCE)
    assert ended.status == 0
    assert "forced" in ended.out
    assert ("status 6" in ended.out) is decided
    assert applied(doubt) == (EPOCH if decided else 2 * EPOCH)
    (row,) = doubt.answers()
    assert (row["answer"], row["forced"], row["reason"]) == (wrong, True, FORCE[-1])
    assert row["verdict"] == ("commit" if decided else "rollback")


def test_an_answer_as_json(doubt: Doubt) -> None:
    gid = doubt.prepare(decided=True)
    found = doubt("commit", gid, "--json").json
    asked = {"id": 1, "gid": gid, "answer": "commit", "verdict": "commit", "forced": False, "before": False}
    assert found == asked | {"consequence": None}
    gid = doubt.foreign()
    found = doubt("rollback", gid, "--json", *FORCE).json
    assert (found["forced"], found["consequence"]) == (
        True,
        consequence(OperatorAnswer.ROLLBACK, InDoubtVerdict.FOREIGN),
    )


def test_foreign_ones_are_left_alone(doubt: Doubt) -> None:
    """Another program's, and another lane's; their names may be anything."""
    doubt.foreign(FOREIGN)
    for answer in ("commit", "rollback"):
        assert "another program" in refused(doubt, answer, FOREIGN)
    neighbour = "surelane:orders-2:1:0"
    doubt.foreign(neighbour)
    assert "lane orders-2" in refused(doubt, "rollback", neighbour)
    assert {one["verdict"] for one in doubt("list", "--json").json["transactions"]} == {"foreign"}
    assert doubt("rollback", FOREIGN, *FORCE).status == 0
    assert doubt("commit", neighbour, *FORCE).status == 0
    assert [row["gid"] for row in doubt.answers()] == [FOREIGN, neighbour]
    assert [row["lane"] for row in doubt.answers()] == [LANE, LANE]
    assert (doubt.answers()[0]["generation"], doubt.answers()[1]["generation"]) == (None, 1)
    assert "rolled back (answer 1" in refused(doubt, "rollback", FOREIGN)


@pytest.mark.parametrize("gid", ["surelane:orders:1:1", "surelane:orders-2:1:0"])
def test_while_its_lane_runs_the_answer_is_to_wait(doubt: Doubt, gid: str) -> None:
    """No force changes that; the lane of a foreign one may run, too."""
    doubt.prepare(decided=False)
    doubt.foreign("surelane:orders-2:1:0")
    lane = gid.split(":")[1]
    with doubt.target.engine.connect() as connection:
        assert try_lock(connection, lane)
        connection.commit()
        shown = {one["gid"]: one["verdict"] for one in doubt("list", "--json").json["transactions"]}
        assert shown[gid] == ("in progress" if lane == LANE else "foreign")
        for answer in ("commit", "rollback"):
            assert f"lane {lane} runs" in refused(doubt, answer, gid, *FORCE)
    eventually(lambda: doubt("rollback", gid, *FORCE).status == 0, why="the lock to be free")


def test_a_gid_that_is_not_prepared_says_what_became_of_it(doubt: Doubt) -> None:
    gid = doubt.prepare(decided=True)
    doubt("commit", gid)
    fates = {
        gid: "it was committed (answer 1",
        "surelane:orders:1:0": "it was committed, the ledger has its epoch",
        "surelane:orders:1:7": "rolled back, or never prepared",
        "surelane:orders:9:1": "no generation 9",
        "surelane:nobody:1:1": "lane nobody has no generation 1",
        "other": "none of Surelane's",
        "\udcff": "none of Surelane's",
    }
    for name, fate in fates.items():
        for call in ("explain", "commit", "rollback"):
            assert fate in refused(doubt, call, name)


def test_a_copy_of_the_checkpoint_decides_as_well(doubt: Doubt) -> None:
    gid = doubt.prepare(decided=True)
    copy = doubt.copy()
    doubt.configure(checkpoint="hdfs://bucket/orders")
    report = doubt("explain", gid)
    assert "takes Spark" in report.out
    assert "--checkpoint" in report.out
    assert verdict(doubt, gid) == "unsure"
    for answer in ("commit", "rollback"):
        assert "--checkpoint" in refused(doubt, answer, gid)
    assert verdict(doubt, gid, "--checkpoint", str(copy)) == "commit"
    assert "the copy" in refused(doubt, "rollback", gid, "--checkpoint", str(copy))
    assert doubt("commit", gid, "--checkpoint", str(copy)).status == 0


def test_a_copy_that_is_too_old_decides_nothing(doubt: Doubt) -> None:
    copy = doubt.copy()
    gid = doubt.prepare(decided=True)
    assert verdict(doubt, gid) == "commit"
    assert verdict(doubt, gid, "--checkpoint", str(copy)) == "unsure"
    assert "older than the transaction" in refused(doubt, "rollback", gid, "--checkpoint", str(copy))


def test_a_folder_that_is_no_checkpoint(doubt: Doubt, tmp_path: Path) -> None:
    assert "surelane.json" in refused(doubt, "list", "--checkpoint", str(tmp_path))


def test_without_its_checkpoint_nothing_is_concluded_from_the_lack_of_an_entry(doubt: Doubt) -> None:
    """It may be on another machine, where the entry exists."""
    gid = doubt.prepare(decided=False)
    doubt.configure(checkpoint=str(doubt.folder / "elsewhere"))
    assert verdict(doubt, gid) == "unsure"
    doubt.configure()
    doubt.identify(checkpoint="of a namesake")
    assert verdict(doubt, gid) == "unsure"
    assert "cannot be seen" not in refused(doubt, "rollback", gid)


def test_an_orphan_of_another_checkpoint(doubt: Doubt) -> None:
    """Its number is complete in the present checkpoint: that is another epoch's entry."""
    gid = doubt.foreign("surelane:orders:2:0")
    doubt.target.execute("insert into surelane.generation values ('orders', 2, 'older', 'two-phase', 'here', 1)")
    assert verdict(doubt, gid) == "orphan"
    assert "no process decides it any more" in refused(doubt, "commit", gid)
    assert doubt("rollback", gid).status == 0
    (row,) = doubt.answers()
    assert (row["verdict"], row["answer"], row["forced"]) == ("orphan", "rollback", False)


@contextmanager
def waiting(doubt: Doubt, *statements: str) -> Iterator[None]:
    """Sessions that run these, each after the one before it waits; they are undone."""
    threads: list[threading.Thread] = []
    connections: list[Connection] = []
    for number, statement in enumerate(statements):
        connection = doubt.target.engine.connect()
        connections.append(connection)
        pid = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
        threads.append(threading.Thread(target=_blocked, args=(connection, statement)))
        threads[-1].start()
        eventually(lambda pid=pid: _waits(doubt, pid), why=f"statement {number} to wait")
    try:
        yield
    finally:
        doubt.target.cut_connections("")
        for thread in threads:
            thread.join(30)
        for connection in connections:
            connection.invalidate()
            connection.close()


def _blocked(connection: Connection, statement: str) -> None:
    try:
        connection.exec_driver_sql(statement)
    except Exception:  # noqa: BLE001  # its session is ended at the end of the test
        return


def _waits(doubt: Doubt, pid: int) -> bool:
    return bool(doubt.target.execute("select 1 from pg_locks where not granted and pid = :pid", pid=pid))


BLOCKED = (
    "update public.counter set hits = 0 where id = 3",  # a row that the epoch wrote
    "alter table public.counter add more int",  # the table
    "select * from public.counter",  # nothing of the epoch's: it waits behind the one before it
)


@pytest.mark.parametrize("restarted", [False, True], ids=["same server", "after a restart of the server"])
def test_the_sessions_it_blocks(
    doubt: Doubt,
    target_server: Postgres,
    restarted: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By what they wait for: the server itself calls every prepared transaction 0.

    The session that asks needs a role that sees others' statements.
    """
    seeing = {"url": doubt.target.url_as(SUPERUSER)}
    doubt.configure(target=seeing)
    doubt.target.execute("insert into public.counter values (3, 1)")
    gid, other = doubt.prepare(decided=True), doubt.foreign()
    if restarted:
        target_server.stop()
        target_server.start()
    with waiting(doubt, *BLOCKED):
        mine, foreign = doubt("list", "--json").json["transactions"]
        assert (mine["gid"], foreign["gid"]) == (gid, other)
        assert (mine["tables"], foreign["tables"]) == (["public.counter"], ["public.stock"])
        assert {"locktype": "relation", "mode": "RowExclusiveLock", "place": "public.counter"} in mine["locks"]
        assert foreign["blocks"] == []
        assert [(one["mode"], one["behind"], one["query"]) for one in mine["blocks"]] == [
            ("ShareLock", False, BLOCKED[0]),
            ("AccessExclusiveLock", False, BLOCKED[1]),
            ("AccessShareLock", True, BLOCKED[2]),
        ]
        assert "3 sessions" in doubt("list").out
        said = doubt("explain", gid).out
        assert "wants AccessExclusiveLock on public.counter: alter table" in said
        assert "behind one of these" in said
        with monkeypatch.context() as patched:
            patched.setattr("app.cli.indoubt_view.age", lambda _: "a while")
            for call, text in ((("list",), list_text), (("explain", gid), explain_text)):
                out = doubt(*call).out
                show(doubt(*call, "--json").json, text, as_json=False)
                assert capsys.readouterr().out == out
        doubt.configure(target=seeing, guard={"redact": ["hits"]})
        assert "alter table" not in doubt("explain", gid).out + doubt("list", "--json").out


def test_an_answer_lets_them_go(doubt: Doubt) -> None:
    gid = doubt.prepare(decided=False)
    with doubt.target.engine.connect() as connection:
        pid = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
        waiter = threading.Thread(target=_blocked, args=(connection, "lock table public.counter in share mode"))
        waiter.start()
        eventually(lambda: _waits(doubt, pid), why="the session to wait")
        assert doubt("rollback", gid).status == 0
        waiter.join(30)
        assert not waiter.is_alive()


@pytest.mark.parametrize("sent", [True, False], ids=["after the answer", "before the answer"])
@pytest.mark.parametrize("answer", ["commit", "rollback"])
@pytest.mark.parametrize("foreign", [True, False], ids=["foreign", "the lane's"])
def test_a_death_over_an_answer_is_seen_and_the_next_try_settles_it(
    doubt: Doubt, dies: Callable[..., None], sent: bool, answer: str, foreign: bool
) -> None:
    gid = doubt.foreign() if foreign else doubt.prepare(decided=answer == "commit")
    call = (answer, gid, *(FORCE if foreign else ()))
    dies(sent=sent)
    with pytest.raises(Death):
        doubt(*call)
    (row,) = doubt.answers()
    assert (row["state"], row["ended_at"]) == ("intended", None)
    assert doubt("list", "--json").json["unfinished"][0]["gid"] == gid
    assert "give it again" in doubt("list").out
    again = doubt(*call)
    assert again.status == 0
    assert ("before" in again.out) is sent
    first, *more = doubt.answers()
    if sent:
        assert (first["state"], first["outcome"], more) == ("done", f"found {PAST[answer]} afterwards", [])
    else:
        assert (first["state"], [one["state"] for one in more]) == ("failed", ["done"])
    assert doubt.target.prepared() == []
    assert doubt("list", "--json").json["unfinished"] == []


def test_a_death_over_an_answer_and_then_the_other_answer(doubt: Doubt, dies: Callable[..., None]) -> None:
    """It is refused, and says what the first one came to."""
    gid = doubt.prepare(decided=True)
    dies(sent=True)
    with pytest.raises(Death):
        doubt("commit", gid)
    ended = doubt("rollback", gid, *FORCE)
    assert ended.status == ExitStatus.REFUSED
    assert "committed already: answer 1" in ended.err
    assert [(row["answer"], row["state"]) for row in doubt.answers()] == [("commit", "done")]


def test_another_session_was_quicker(doubt: Doubt, dies: Callable[..., None]) -> None:
    """An answer that was begun, and the transaction ended the other way, by hand."""
    gid = doubt.prepare(decided=True)
    dies(sent=False)
    with pytest.raises(Death):
        doubt("commit", gid)
    doubt.target.server.execute("rollback prepared %s", gid, database=doubt.target.database)
    assert "was rolled back" in doubt("commit", gid).err
    (row,) = doubt.answers()
    assert (row["state"], row["outcome"]) == ("failed", "ended by another session: was rolled back")


def test_only_its_owner_may_end_it(doubt: Doubt) -> None:
    """Or a superuser, as Postgres has it; the try is on record."""
    gid = doubt.foreign(user=SUPERUSER)
    ended = doubt("rollback", gid, *FORCE)
    assert ended.status == ExitStatus.REFUSED
    assert "42501" in ended.err
    assert doubt.target.prepared() == [gid]
    (row,) = doubt.answers()
    assert row["state"] == "failed"
    assert "42501" in row["outcome"]


def test_a_target_that_is_not_migrated_or_away(doubt: Doubt) -> None:
    gid = doubt.prepare(decided=True)
    doubt.target.execute("drop table surelane.indoubt_answer")
    for call in (("list",), ("commit", gid)):
        ended = doubt(*call)
        assert ended.status == ExitStatus.TARGET
        assert "surelane migrate" in ended.err
    assert doubt.target.prepared() == [gid]
    doubt.configure(target={"url": "postgresql://me:hunter2@127.0.0.1:1/shop"})
    ended = doubt("list")
    assert ended.status == ExitStatus.ENVIRONMENT
    assert "hunter2" not in ended.err


def test_each_partition_s_lane_has_its_own(doubt: Doubt) -> None:
    """`order: partition`: the lanes share one checkpoint; the lane without a partition is another one."""
    whole = doubt.prepare(decided=True)
    part = doubt.foreign("surelane:orders.1:1:1")
    doubt.target.execute(
        "insert into surelane.generation values ('orders.1', 1, 'none', 'two-phase', 'here', 1)",
    )
    doubt.configure(
        source={"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC.topic], "order": "partition"},
    )
    shown = {one["gid"]: one for one in doubt("list", "--json").json["transactions"]}
    assert (shown[whole]["verdict"], shown[part]["verdict"]) == ("foreign", "commit")
    assert shown[part]["evidence"]["span"] == {"start": {}, "end": {}}, "the checkpoint plans nothing of partition 1"
    assert doubt("commit", part).status == 0


def test_past_answers(doubt: Doubt, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest first, forced and failed ones, those to other programs' transactions, too."""
    assert doubt("answers").out == "no answers are on record\n"
    gid, other = doubt.prepare(decided=True), doubt.foreign()
    assert doubt("rollback", other, "--force", "--reason", "agreed [bold]\x1b[31m").status == 0
    assert doubt("commit", gid).status == 0
    head, newest, oldest, total = doubt("answers").out.splitlines()
    assert head.split()[:2] == ["id", "at"]
    for words in (gid, "commit", "done", "@"):
        assert words in newest
    for words in (other, "foreign", "rollback, forced", "agreed [bold]\\u001b[31m"):
        assert words in oldest
    assert total == "2 of 2"
    out, found = doubt("answers").out, doubt("answers", "--json").json
    show(found, answers_text, as_json=False)
    assert capsys.readouterr().out == out
    found = doubt("answers", "--json", "--limit", "1").json
    assert (found["lane"], found["total"]) == (LANE, 2)
    (answer,) = found["answers"]
    assert (answer["gid"], answer["answer"], answer["verdict"], answer["forced"]) == (gid, "commit", "commit", False)
    assert (answer["state"], answer["outcome"], answer["reason"]) == ("done", "committed", None)
    assert answer["evidence"]["complete"] is True
    assert answer["ended_at"] >= answer["at"]
    (answer,) = doubt("answers", other, "--json").json["answers"]
    assert answer["gid"] == other
    assert doubt("answers", "surelane:orders:9:9").out == "no answers are on record\n"
    assert doubt("answers", "--limit", "0").status == ExitStatus.USAGE


def test_the_record_cannot_be_changed(doubt: Doubt) -> None:
    doubt("commit", doubt.prepare(decided=True))
    for statement in (
        "update surelane.indoubt_answer set reason = 'other'",
        "update surelane.indoubt_answer set state = 'failed'",
        "insert into surelane.indoubt_answer (lane, gid, answer, verdict, forced, evidence, os_user, host, state) "
        "values ('orders', 'g', 'commit', 'commit', false, '{}', 'me', 'here', 'done')",
        "insert into surelane.indoubt_answer (lane, gid, answer, verdict, forced, evidence, os_user, host) "
        "values ('orders', 'g', 'commit', 'rollback', false, '{}', 'me', 'here')",
    ):
        with pytest.raises(Exception, match=r"SL001|answer|violates"):
            doubt.target.execute(statement)
