"""What a retry can mend is mended without anybody's help, and nothing is lost or done twice on the way."""

import gc
import shutil
import weakref
from typing import Any

import pytest
from sqlalchemy import make_url

from app.config.settings import CommitMode
from app.db.engine import SESSION
from app.errors import ServerExhausted, TargetMismatch, Unreachable
from app.worker import retry_loop as service
from app.worker.streaming_run import StreamingRun
from tests import messages as m
from tests.fix_bare_lane import MakeBareLane
from tests.fix_doubt import changes
from tests.fix_lane import MODES, Hold, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.waiting import eventually
from tests.workload import COUNTER, TABLES, Shop

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_checkpoint_that_cannot_be_written_for_a_while(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, hold: Hold
) -> None:
    """The target has the epoch, or has it prepared; the storage of the checkpoint is full or away."""
    target.create(*TABLES)
    shop, made = Shop(seed=6), lane(mode, epoch={"max_messages": 100})
    topic.send(shop.messages(150))
    held = hold("after-pre-commit", at=2)
    made.start()
    held.reached()
    commits, aside = made.checkpoint / "commits", made.checkpoint / "commits-aside"
    shutil.move(commits, aside)
    commits.write_text("not a directory")
    held.release()
    eventually(lambda: _state(target) == "failed", why="the lane to notice")
    commits.unlink()
    shutil.move(aside, commits)
    topic.send(shop.messages(50))
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic, exactly_once=made.exactly_once)
    assert len({row.generation for row in target.epochs()}) == 2, "each attempt is a generation of its own"


def _state(target: Target) -> str | None:
    states = target.execute("select state from surelane.lane_state")
    return states[0].state if states else None


@pytest.mark.parametrize("point", ["after-begin", "after-ledger"])
def test_a_connection_cut_in_the_middle_of_an_epoch(
    point: str, lane: MakeLane, target: Target, topic: Topic, hold: Hold
) -> None:
    target.create(FLAT)
    d, made = Debezium(), lane("two-phase")
    topic.send([d.create(FLAT, {"id": 1, "v": "a"})])
    held = hold(point)
    made.start()
    held.reached()
    assert target.cut_connections() > 0
    held.release()
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


def raising(target: Target, body: str) -> None:
    """What the target does with each row of `flat`."""
    target.execute(f"""
        create function public.refuse() returns trigger language plpgsql as $$ begin {body} return new; end $$;
        create trigger refuse before insert or update on public.flat for each row execute function public.refuse()
    """)


def test_a_message_that_exceeds_temp_file_limit_stops_the_lane(target: Target, bare_lane: MakeBareLane) -> None:
    """It does so each time."""
    target.create(FLAT)
    raising(target, "perform x from generate_series(1, 200000) x order by random() limit 1 offset 199999;")
    login = make_url(target.url).username
    target.execute(f"alter role {login} in database \"{target.database}\" set temp_file_limit = '64kB'")
    target.execute(f"alter role {login} in database \"{target.database}\" set work_mem = '64kB'")
    with pytest.raises(TargetMismatch) as stopped:
        bare_lane().apply([Debezium().create(FLAT, {"id": 1, "v": "a"})])
    for word in ("SQLSTATE 53400", "SET temp_file_limit"):
        assert word in str(stopped.value)
    target.execute(f'alter role {login} in database "{target.database}" reset temp_file_limit')
    lane = bare_lane()
    lane.apply([Debezium().create(FLAT, {"id": 1, "v": "a"})])
    lane.check()


def test_a_server_that_stays_out_of_memory_stops_the_lane(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried again, and given up; where it passes, the lane goes on."""
    monkeypatch.setattr(service, "BACKOFF_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(service, "MAX_ATTEMPTS_EXHAUSTED", 3, raising=False)
    target.create(FLAT)
    raising(target, "raise exception using errcode = '53200', message = 'out of memory';")
    made = lane("ledger")
    topic.send([Debezium().create(FLAT, {"id": 1, "v": "a"})])
    made.start()
    error = made.join(timeout=60)
    assert isinstance(error, ServerExhausted)
    assert "max_locks_per_transaction" in str(error)
    generations = target.execute("select count(*) from surelane.generation")[0][0]
    assert generations == 3
    target.execute("drop trigger refuse on public.flat")
    made.run_until_caught_up()
    questions(target, topic)


def test_a_full_disk_is_waited_for(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it takes."""
    monkeypatch.setattr(service, "BACKOFF_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(service, "MAX_ATTEMPTS_EXHAUSTED", 2, raising=False)
    monkeypatch.setattr(service, "MAX_ATTEMPTS_WITHOUT_PROGRESS", 2)
    target.create(FLAT)
    raising(target, "raise exception using errcode = '53100', message = 'no space left on device';")
    made = lane("ledger")
    topic.send([Debezium().create(FLAT, {"id": 1, "v": "a"})])
    made.start()
    attempts = "select 1 from surelane.generation having count(*) > 4"
    eventually(lambda: target.execute(attempts), why="more attempts than others get")
    target.execute("drop trigger refuse on public.flat")
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


def test_a_lock_of_another_session_is_waited_for_and_tried_again(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane does not hang behind a forgotten session: it gives up, says so, and comes back."""
    monkeypatch.setitem(SESSION, "lock_timeout", "300ms")
    target.create(FLAT)
    d, made = Debezium(), lane("ledger")
    topic.send([d.create(FLAT, {"id": 1, "v": "a"})])
    with target.engine.connect() as forgotten:
        forgotten.exec_driver_sql("lock table flat in access exclusive mode")
        made.start()
        eventually(lambda: _state(target) == "failed", why="the lane to give up waiting")
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


def test_a_run_that_ended_is_forgotten(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Py4J keeps the query's callback until the JVM collects the query: connections must not wait for that."""
    runs: list[weakref.ref[StreamingRun]] = []

    def opened(*arguments: Any) -> StreamingRun:
        run = StreamingRun(*arguments)
        runs.append(weakref.ref(run))
        return run

    def check(run: StreamingRun) -> None:
        if len(runs) == 1:
            raise Unreachable("the first run's server")
        assert run is runs[-1]()

    target.create(COUNTER)
    topic.send(changes(0))
    made = lane("two-phase")
    with monkeypatch.context() as patched:
        patched.setattr(service, "StreamingRun", opened)
        patched.setattr(StreamingRun, "_check_tables", check)
        made.run_until_caught_up()
        made.run_until_caught_up()
    gc.collect()
    assert [run() for run in runs] == [None] * 3, "failed, resolved, and nothing to do"
