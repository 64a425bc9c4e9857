"""The first epoch of a lane, and those of a backlog, come before Spark has started the query."""

import itertools
import json
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Connection

from app.config.settings import CommitMode
from app.errors import Contended, ExitStatus, SparkFailed, SparkGone, Unreachable
from app.ledger.stop_orders import StopOrder, StopOrders
from app.model.offsets import Offsets
from app.spark.checkpoint import Checkpoint
from app.spark.session import ComingSession
from app.worker import streaming_run
from app.worker.epoch_gate import EpochGate
from app.worker.retry_loop import RetryLoop
from app.worker.streaming_run import StreamingRun
from tests.fix_lane import Held, Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import INT, TEXT, Debezium, Message, Table
from tests.oracle import questions
from tests.waiting import eventually

FLAT = Table("flat", {"id": INT, "v": TEXT})
d = Debezium()
#: lanes that follow their checkpoint: in two phases, or with an archive
LANES = [
    (CommitMode.TWO_PHASE, {}),
    (CommitMode.TWO_PHASE, {"archived": True}),
    (CommitMode.LEDGER, {"archived": True}),
]
lanes = pytest.mark.parametrize(("mode", "more"), LANES, ids=["two-phase", "archived", "archived-ledger"])


def rows(first: int, last: int) -> list[Message]:
    return [d.create(FLAT, {"id": number, "v": "a"}) for number in range(first, last)]


def applied(lane: MakeLane, target: Target, topic: Topic, **config: Any) -> LaneUnderTest:
    """A lane that was started with messages in its topic, has caught up, and was stopped."""
    target.create(FLAT)
    topic.send(rows(0, 50))
    made = lane("two-phase", **config)
    made.start()
    made.until_caught_up(topic)
    made.stop()
    return made


def metadata(made: LaneUnderTest, epoch: int) -> dict[str, Any]:
    """What Spark has fixed for an epoch, but for its time."""
    found = json.loads((made.checkpoint / "offsets" / str(epoch)).read_text().splitlines()[1])
    return {name: value for name, value in found.items() if name != "batchTimestampMs"}


def ends(made: LaneUnderTest, epoch: int) -> dict[str, int]:
    """Where an epoch ends, by partition."""
    (line,) = (made.checkpoint / "offsets" / str(epoch)).read_text().splitlines()[2:]
    return {f"{topic}-{number}": end for topic, of in json.loads(line).items() for number, end in of.items()}


def ended_well(made: LaneUnderTest, target: Target, topic: Topic) -> None:
    questions(target, topic, exactly_once=made.exactly_once)
    planned, complete = made.checkpoint_files.planned(), made.checkpoint_files.complete()
    assert planned == list(range(len(planned)))
    # what a lane has applied ahead of its checkpoint Spark may have planned just before the end
    assert planned == complete or (made.settings.goes_ahead and planned[:-1] == complete)
    assert target.prepared() == []


@lanes
def test_it_begins_before_its_query(
    mode: CommitMode,
    more: dict[str, Any],
    lane: MakeLane,
    target: Target,
    topic: Topic,
    hold: Hold,
    spark: SparkSession,
) -> None:
    target.create(FLAT)
    topic.send(rows(0, 50))
    made = lane(mode, **more)
    held = hold("after-pre-commit")
    made.start()
    held.reached()
    assert (made.checkpoint_files.planned(), made.checkpoint_files.complete()) == ([0], [])
    assert spark.streams.active == []
    held.release()
    made.until_caught_up(topic)
    topic.send(rows(50, 60))
    made.until_caught_up(topic)
    made.stop()
    ended_well(made, target, topic)
    assert metadata(made, 0) == metadata(made, max(made.checkpoint_files.planned()))


@pytest.mark.parametrize("count", [1, 3])
def test_the_query_plans_no_epoch_without_messages(
    count: int, lane: MakeLane, target: Target, new_topic: NewTopic, spark: SparkSession
) -> None:
    """Spark compares the text of an entry with what it would write."""
    topics = tuple(new_topic() for _ in range(count))
    target.create(FLAT)
    made = lane("two-phase", topics=topics)
    for number, one in enumerate(topics):
        one.send(rows(10 * number, 10 * number + 5))
    made.start()
    made.until_caught_up(*topics)
    idle = "Waiting for data to arrive"
    eventually(lambda: [one for one in spark.streams.active if one.status["message"] == idle], why="the query")
    topics[0].send(rows(100, 103))
    made.until_caught_up(*topics)
    made.stop()
    assert [sum(ends(made, number).values()) for number in (0, 1)] == [5 * count, 5 * count + 3]


def test_a_planned_epoch_is_replayed_before_the_query(
    lane: MakeLane,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
    hold: Hold,
    spark: SparkSession,
) -> None:
    """With the same messages, though there are more now: the query plans them, since a process has died."""
    target.create(FLAT)
    made = lane("two-phase")
    topic.send(rows(0, 50))
    assert lane_process(made, failpoint="after-pre-commit=kill").start().wait() == -signal.SIGKILL
    topic.send(rows(50, 80))
    held = hold("before-commit")
    made.start()
    held.reached()
    assert made.checkpoint_files.complete() == [0]
    assert sum(ends(made, 0).values()) == 50
    assert spark.streams.active == []
    assert target.prepared()
    held.release()
    made.until_caught_up(topic)
    made.stop()
    ended_well(made, target, topic)


@pytest.mark.parametrize("mode", [CommitMode.TWO_PHASE, CommitMode.LEDGER], ids=str)
def test_a_backlog_comes_before_the_query(
    mode: CommitMode,
    lane: MakeLane,
    target: Target,
    topic: Topic,
    hold: Hold,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also its rest, less than an epoch may be; a lane that goes ahead of its checkpoint applies that without an entry.
    The query goes on behind the last of them."""
    monkeypatch.setattr(streaming_run, "FIRST_SECONDS", 240.0)
    target.create(FLAT)
    topic.send(rows(0, 50))
    made = lane(mode, epoch={"max_messages": 20})
    held = hold("after-pre-commit", at=3)
    made.start()
    held.reached()
    planned = [0, 1] if made.settings.goes_ahead else [0, 1, 2]
    assert (made.checkpoint_files.planned(), made.checkpoint_files.complete()) == (planned, [0, 1])
    assert spark.streams.active == []
    held.release()
    made.until_caught_up(topic)
    eventually(lambda: spark.streams.active, why="the query")
    topic.send(rows(50, 60))
    made.until_caught_up(topic)
    made.stop()
    ended_well(made, target, topic)
    assert [sum(ends(made, number).values()) for number in planned] == [20, 40, 50][: len(planned)]


def test_a_small_epoch_ends_the_backlog(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a lane whose messages never end would start its query after a minute."""
    write, planned = Checkpoint.plan, list[int]()

    def plan(checkpoint: Checkpoint, epoch: int, end: Offsets) -> None:
        planned.append(epoch)
        write(checkpoint, epoch, end)
        topic.send(rows(50 + epoch, 51 + epoch))

    monkeypatch.setattr(Checkpoint, "plan", plan)
    made = applied(lane, target, topic)
    assert planned == [0]
    ended_well(made, target, topic)


def test_a_backlog_of_several_topics(lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    """An epoch takes the same fraction of each, and the query plans none without messages behind them."""
    topics = new_topic(), new_topic()
    target.create(FLAT)
    topics[0].send(rows(0, 60))
    topics[1].send(rows(100, 120))
    made = lane("two-phase", topics=topics, epoch={"max_messages": 20})
    made.start()
    made.until_caught_up(*topics)
    topics[1].send(rows(120, 123))
    made.until_caught_up(*topics)
    made.stop()
    found = [[ends(made, number)[f"{one.name}-0"] for one in topics] for number in range(5)]
    assert found == [[15, 5], [30, 10], [45, 15], [60, 20], [60, 23]]
    questions(target, *topics)


def test_a_backlog_has_a_minute(lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query plans what is left then."""
    write, planned = Checkpoint.plan, list[int]()

    def plan(checkpoint: Checkpoint, epoch: int, end: Offsets) -> None:
        planned.append(epoch)
        write(checkpoint, epoch, end)
        clock.append(streaming_run.BACKLOG_SECONDS)

    clock = [0.0]
    monkeypatch.setattr(Checkpoint, "plan", plan)
    monkeypatch.setattr(streaming_run, "time", SimpleNamespace(monotonic=lambda: clock[-1]))
    made = applied(lane, target, topic, epoch={"max_messages": 20})
    assert planned == [0]
    assert len(made.checkpoint_files.planned()) == 3
    ended_well(made, target, topic)


def test_a_pause_in_a_backlog(lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query waits for its end, and goes on behind the epochs that have passed."""
    write, paused = Checkpoint.plan, threading.Event()
    planned = list[int]()

    def plan(checkpoint: Checkpoint, epoch: int, end: Offsets) -> None:
        planned.append(epoch)
        write(checkpoint, epoch, end)
        if epoch == 1:
            paused.set()

    monkeypatch.setattr(Checkpoint, "plan", plan)
    monkeypatch.setattr(EpochGate, "is_open", property(lambda _: not paused.is_set()))
    made = applied(lane, target, topic, epoch={"max_messages": 20})
    assert planned == [0, 1]
    ended_well(made, target, topic)


def test_an_order_to_stop_in_a_backlog(
    lane: MakeLane, target: Target, topic: Topic, hold: Hold, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch ends, and no other begins; once the order is gone, the lane goes on behind it."""
    find, seen = StopOrders.find, list[StopOrder]()

    def found(orders: StopOrders, connection: Connection) -> StopOrder | None:
        order = find(orders, connection)
        seen.extend([order] if order else [])
        return order

    monkeypatch.setattr(StopOrders, "find", found)
    target.create(FLAT)
    topic.send(rows(0, 80))
    made = lane("two-phase", epoch={"max_messages": 20})
    held = hold("after-merge", at=2)
    made.start()
    held.reached()
    assert spark.streams.active == []
    values = f"('{made.settings.lane}', 'before', 'a test', now())"
    target.execute(f"insert into surelane.stop_order (lane, savepoint, ordered_by, ordered_at) values {values}")
    eventually(lambda: len(seen) > 1, why="the monitor's round with the order to end")
    held.release()
    assert made.join() is None
    assert made.checkpoint_files.complete() == [0, 1]
    assert target.execute("select count(*) as n from flat")[0].n == 40
    target.execute("delete from surelane.stop_order")
    made.run_until_caught_up()
    ended_well(made, target, topic)


def test_tables_that_move_in_a_backlog(
    lane: MakeLane, target: Target, topic: Topic, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planned then waits for the query, which has the lane opened anew."""
    runs, refused = list[StreamingRun](), list[bool]()

    def check(run: StreamingRun) -> None:
        runs.append(run)
        if len(runs) > 1 and run is runs[0]:
            refused.append(spark.streams.active == [])
            raise Contended("the tables have changed their schema")

    monkeypatch.setattr(StreamingRun, "_check_tables", check)
    made = applied(lane, target, topic, epoch={"max_messages": 20})
    assert (refused[0], refused[-1]) == (True, False), "in the backlog, and by the query"
    assert runs[-1] is not runs[0]
    ended_well(made, target, topic)


def test_a_stop_before_the_query(
    lane: MakeLane, target: Target, topic: Topic, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the epoch, which is complete then, and starts no query."""
    monkeypatch.setattr(StreamingRun, "_start_writer", None)
    target.create(FLAT)
    topic.send(rows(0, 50))
    made = lane("two-phase")
    held = hold("after-merge")
    made.start()
    held.reached()
    made.request_stop()
    held.release()
    assert made.join() is None
    assert made.caught_up(topic)
    ended_well(made, target, topic)


def test_a_pause_that_comes_meanwhile(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the plan: the query replays that, with its messages only."""
    looks, write = itertools.count(), Checkpoint.plan

    def plan(checkpoint: Checkpoint, epoch: int, end: Offsets) -> None:
        write(checkpoint, epoch, end)
        topic.send(rows(50, 60))

    monkeypatch.setattr(Checkpoint, "plan", plan)
    monkeypatch.setattr(EpochGate, "is_open", property(lambda _: next(looks) == 0))
    made = applied(lane, target, topic)
    assert next(looks) > 1
    assert sum(ends(made, 0).values()) == 50
    ended_well(made, target, topic)


@pytest.mark.parametrize("is_written", [False, True], ids=["not-written", "written"])
def test_the_decision_is_not_answered(
    is_written: bool, lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch is rolled back or committed, by what is written; what has come meanwhile is an epoch of the backlog."""
    write, seen = Checkpoint.complete, list[int]()

    def complete(checkpoint: Checkpoint, epoch: int) -> None:
        if seen or is_written:
            write(checkpoint, epoch)
        seen.append(epoch)
        if len(seen) == 1:
            topic.send(rows(50, 60))
            raise Unreachable("the file system")

    monkeypatch.setattr(Checkpoint, "complete", complete)
    made = applied(lane, target, topic)
    assert seen == ([0, 1] if is_written else [0, 0, 1])
    assert [sum(ends(made, number).values()) for number in (0, 1)] == [50, 60]
    ended_well(made, target, topic)


def test_another_process_has_planned_it(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lane is opened anew, and replays what was planned."""
    write, errors = Checkpoint.plan, list[str]()

    def plan(checkpoint: Checkpoint, epoch: int, end: Offsets) -> None:
        write(checkpoint, epoch, end)
        if errors:
            return
        topic.send(rows(50, 60))
        try:
            write(checkpoint, epoch, end)
        except SparkFailed as error:
            errors.append(error.message)
            raise

    monkeypatch.setattr(Checkpoint, "plan", plan)
    made = applied(lane, target, topic)
    assert [error.startswith("another query writes to this checkpoint") for error in errors] == [True]
    assert sum(ends(made, 0).values()) == 50
    ended_well(made, target, topic)


@pytest.mark.parametrize("mode", [CommitMode.TWO_PHASE, CommitMode.LEDGER], ids=str)
def test_a_session_that_cannot_be_made(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, spark: SparkSession
) -> None:
    """The lane is not taken over, and the process ends."""
    target.create(FLAT)
    topic.send(rows(0, 5))
    made = lane(mode)
    failed: Future[SparkSession] = Future()
    failed.set_exception(ValueError("no such option"))
    coming = ComingSession(failed, spark.sparkContext.getConf())
    with pytest.raises(SparkGone, match="no such option"):
        RetryLoop(made.settings, coming, made.health, threading.Event(), False).keep_running()
    coming.stop()
    assert target.execute("select count(*) as n from surelane.generation")[0].n == 0
    made.run_until_caught_up()
    questions(target, topic)


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("place", ["epoch-start", "after-ledger", "after-pre-commit", "before-commit", "after-commit"])
def test_a_kill_before_the_query(
    place: str, epochs: int, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """In the first epoch, and in the last one of a backlog, which is smaller."""
    target.create(FLAT)
    made = lane("two-phase", epoch={"max_messages": 50 if epochs == 1 else 30})
    topic.send(rows(0, 50))
    assert lane_process(made, failpoint=f"{place}=kill@{epochs}").start().wait() == -signal.SIGKILL
    assert made.checkpoint_files.planned() == list(range(epochs))
    topic.send(rows(50, 60))
    made.start()
    made.until_caught_up(topic)
    made.stop()
    ended_well(made, target, topic)


def test_the_jvm_ends_in_the_first_epoch(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """The worker ends with it, though the epoch does not; the next one replays."""
    target.create(FLAT)
    made = lane("two-phase")
    topic.send(rows(0, 50))
    held = Held(tmp_path, "after-merge")
    process = lane_process(made, failpoint=held.setting).start()
    process.until(held.file.exists, why="the first epoch")
    assert process.jvm is not None
    process.jvm.kill()
    process.until(lambda: process.events("worker died"), why="the worker's end")

    def is_done() -> bool:
        held.release()  # the next worker waits there, too
        return made.caught_up(topic)

    process.until(is_done, why="the next worker to catch up")
    assert process.stop() == ExitStatus.OK
    ended_well(made, target, topic)
