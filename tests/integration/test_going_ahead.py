"""A lane that commits in one phase applies messages before Spark has planned an epoch with them."""

import itertools
import signal
from typing import Any

import pytest

from app.config.settings import CommitMode
from app.errors import ConfigInvalid, ExitStatus
from app.spark.local import LocalCheckpoint
from app.worker import streaming_run
from tests.fix_lane import Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic, sending_until
from tests.messages import INT, TEXT, Debezium, Message, Table
from tests.oracle import questions
from tests.waiting import eventually

FLAT = Table("flat", {"id": INT, "v": TEXT})
ONE_PHASE = [CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE]
#: epochs before Spark has planned so many
AHEAD = 5
d = Debezium()
modes = pytest.mark.parametrize("mode", ONE_PHASE, ids=str)


def row(number: int, v: str = "a") -> Message:
    return d.create(FLAT, {"id": number, "v": v})


def is_ahead(made: LaneUnderTest, target: Target, by: int = AHEAD) -> bool:
    """Whether the ledger has more epochs than the checkpoint."""
    if made.error is not None:
        raise made.error
    last = target.ledger()
    planned = max(made.checkpoint_files.planned(), default=0)
    return last is not None and last.epoch >= planned + by


def go_ahead(made: LaneUnderTest, target: Target, topic: Topic) -> None:
    eventually(sending_until(topic, row, lambda: is_ahead(made, target)), why="the lane goes ahead of the checkpoint")


def ahead(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, **config: Any) -> LaneUnderTest:
    """A lane that runs, and has gone ahead of its checkpoint."""
    target.create(FLAT)
    made = lane(mode, **config)
    made.start()
    go_ahead(made, target, topic)
    return made


def left_over(made: LaneUnderTest) -> list[str]:
    """Checkpoints that were put aside."""
    return [one.name for one in made.checkpoint.parent.glob(f"{made.checkpoint.name}.*")]


@modes
def test_it_goes_ahead_and_starts_again(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    made = lane(mode)
    for _ in range(2):
        made.start()
        go_ahead(made, target, topic)
        made.until_caught_up(topic)
        made.stop()
        questions(target, topic)
    topic.send([row(1, "b")])
    made.run_until_caught_up()
    questions(target, topic)
    assert left_over(made) == []


@modes
def test_it_begins_before_its_query_has_started(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_run, "FIRST_SECONDS", 240.0)
    target.create(FLAT)
    topic.send([row(number) for number in range(50)])
    made = lane(mode)
    held = hold("after-pre-commit")
    made.start()
    held.reached()
    last = target.ledger()
    assert last is not None
    assert (made.checkpoint_files.planned(), sum(last.read.values())) == ([], 50)
    held.release()
    go_ahead(made, target, topic)
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic, exactly_once=made.exactly_once)


@modes
def test_a_topic_that_is_new_at_a_start_is_planned_first(
    mode: CommitMode, lane: MakeLane, target: Target, new_topic: NewTopic, hold: Hold
) -> None:
    """Its messages may belong before those of the others."""
    old, new = new_topic(), new_topic()
    made = ahead(mode, lane, target, old, topics=(old,))
    made.until_caught_up(old)
    made.stop()
    old.send([row(1, "b")])
    new.send([row(2, "b")])
    more = made.changed(source={"topics": [old.name, new.name]})
    held = hold("after-pre-commit")
    more.start()
    held.reached()
    last = target.ledger()
    assert last is not None
    assert {tp.topic for tp in last.read} == {old.name, new.name}
    held.release()
    more.until_caught_up(old, new)
    more.stop()
    questions(target, old, new, exactly_once=made.exactly_once)


@modes
def test_two_phase_follows_the_checkpoint(lane: MakeLane, target: Target, topic: Topic, mode: CommitMode) -> None:
    """A lane that was ahead goes on in two phases, and the other way round."""
    made = ahead(mode, lane, target, topic)
    made.stop()
    two_phase = made.changed(delivery="exactly-once", commit="two-phase")
    two_phase.start()
    numbers = itertools.count(1)
    for _ in range(20):
        topic.send([row(next(numbers))])
        two_phase.until_caught_up(topic)
    two_phase.stop()
    last = target.ledger()
    assert last is not None
    assert last.epoch == max(two_phase.checkpoint_files.complete())
    one_phase = {"delivery": "at-least-once"} if mode is CommitMode.AT_LEAST_ONCE else {"commit": "ledger"}
    back = two_phase.changed(**one_phase)
    back.start()
    go_ahead(back, target, topic)
    back.until_caught_up(topic)
    back.stop()
    questions(target, topic)
    assert target.prepared() == []


@modes
@pytest.mark.parametrize("place", ["epoch-start", "after-merge", "after-pre-commit"])
def test_a_kill_ahead(
    mode: CommitMode, place: str, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    target.create(FLAT)
    made = lane(mode)
    process = lane_process(made, failpoint=f"{place}=kill@30").start()
    eventually(sending_until(topic, row, lambda: not process.alive), why=f"the kill at {place}")
    assert process.wait() == -signal.SIGKILL
    assert is_ahead(made, target), "it was ahead"
    last = lane_process(made, until_caught_up=True).start()
    assert last.wait() == ExitStatus.OK, last.tail()
    questions(target, topic, exactly_once=made.exactly_once)
    assert left_over(made) == []


@modes
def test_a_message_that_is_refused(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    target.execute("alter table flat add check (v <> 'never')")
    made = lane(mode, guard={"on_skip": "continue"})
    made.start()
    go_ahead(made, target, topic)
    topic.send([row(1, "never")])
    go_ahead(made, target, topic)
    topic.send([row(2)])
    made.until_caught_up(topic)
    made.stop()
    counted = target.ledger_sum()
    assert counted.adds_up
    assert (counted.consumed, counted.quarantined) == (len(topic.sent), 1)
    assert target.execute("select count(*) as number from flat")[0].number == len(topic.sent) - 1


@modes
def test_two_topics(mode: CommitMode, lane: MakeLane, target: Target, new_topic: NewTopic) -> None:
    topics = new_topic(), new_topic()
    made = ahead(mode, lane, target, topics[0], topics=topics)
    for number in range(50):
        topics[number % 2].send([row(number, "b")])
    go_ahead(made, target, topics[1])
    made.until_caught_up(*topics)
    made.stop()
    questions(target, *topics, exactly_once=made.exactly_once)


@modes
def test_an_aborted_and_a_committed_transaction(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    made = ahead(mode, lane, target, topic)
    for number in range(20):
        topic.send_transaction([row(number, "aborted")], abort=True)
        topic.send_transaction([row(number, "b")])
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


@modes
def test_spark_is_never_far_behind(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """It plans few messages at a time: else it had to plan all that is applied before a backlog could be left to it."""
    made = ahead(mode, lane, target, topic, epoch={"max_messages": 10})
    files, numbers = LocalCheckpoint(made.checkpoint), itertools.count(10_000)

    def applied() -> int:
        last = target.ledger()
        assert last is not None
        return sum(last.read.values())

    first = applied()
    while applied() < first + 300:
        topic.send([row(next(numbers)) for _ in range(2)])
        made.until_caught_up(topic)
    planned = files.last_planned()
    assert planned is not None
    assert applied() - sum(files.span(planned).end.values()) < 150
    topic.send([row(number) for number in range(1, 200)])
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


@modes
def test_a_partition_that_is_new(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    made = ahead(mode, lane, target, topic)
    topic.add_partitions(2)
    eventually(sending_until(topic, row, lambda: made.error is not None), why="the lane has found it")
    assert isinstance(made.error, ConfigInvalid)
    last = target.ledger()
    assert last is not None
    assert len(last.read) == 1, "nothing of it was applied"
