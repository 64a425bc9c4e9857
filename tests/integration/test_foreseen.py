"""An epoch that is noticed as soon as Spark has planned it: it is on record before its messages are read."""

import itertools
import signal

import pytest

from app.errors import ExitStatus
from app.failpoint import FORESEEN_NAMES
from app.model.offsets import Offsets, Span, TopicPartition
from app.poison.attempts import Attempts
from app.poison.guard import Guard, Limits
from tests.fix_lane import Hold, MakeLane, MakeProcess
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Topic
from tests.messages import INT, TEXT, Debezium, Message, Table
from tests.oracle import questions
from tests.waiting import eventually

(FORESEEN,) = FORESEEN_NAMES
FLAT = Table("flat", {"id": INT, "v": TEXT})
d = Debezium()
ATTEMPT = "select epoch, stage, finished from surelane.attempt"
SUSPECTS = "select count(*) as number from surelane.suspect"


def row(number: int) -> Message:
    return d.create(FLAT, {"id": number, "v": "a"})


def suspects(target: Target) -> int:
    return target.execute(SUSPECTS)[0].number


@pytest.mark.parametrize("mode", ["two-phase", "ledger", "at-least-once"])
def test_it_is_on_record_before_it_begins(mode: str, lane: MakeLane, target: Target, topic: Topic, hold: Hold) -> None:
    target.create(FLAT)
    made = lane(mode)
    topic.send([row(1)])
    made.run_until_caught_up()
    held = hold(FORESEEN)
    made.start()
    numbers = itertools.count(2)
    eventually(lambda: held.file.exists() or not topic.send([row(next(numbers))]), why="an epoch is foreseen")
    (attempt,) = target.execute(ATTEMPT)
    assert (attempt.stage, attempt.finished) == ("epoch", False)
    assert len(target.execute("select from flat")) < len(topic.sent)
    held.release()
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)
    (attempt,) = target.execute(ATTEMPT)
    assert attempt.finished
    assert suspects(target) == 0


def test_a_kill_before_it_begins(lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """It is not known why the process died: the epoch is tried again."""
    target.create(FLAT)
    made = lane("two-phase")
    topic.send([row(1)])
    made.run_until_caught_up()
    process = lane_process(made, failpoint=f"{FORESEEN}=kill").start()
    process.until_running()
    numbers = itertools.count(2)
    eventually(lambda: not process.alive or not topic.send([row(next(numbers))]), why="an epoch is foreseen")
    assert process.wait() == -signal.SIGKILL
    (attempt,) = target.execute(ATTEMPT)
    assert not attempt.finished
    last = lane_process(made, until_caught_up=True).start()
    assert last.wait() == ExitStatus.OK, last.tail()
    questions(target, topic)
    assert suspects(target) == 0


def test_a_writer_that_ends_instead(target: Target) -> None:
    """It leaves no attempt in progress: the next start would suspect what was never tried."""
    tp = TopicPartition("t", 0)
    start, span = Offsets.of({tp: 5}), Span(start=Offsets.of({tp: 5}), end=Offsets.of({tp: 9}))
    guard = Guard(Attempts(target.as_lane, SCHEMA, target.lane), Limits(max_attempts=3, max_losses=5))
    guard.open(1, start, None)
    guard.foresee(7, span)
    (attempt,) = target.execute(ATTEMPT)
    assert (attempt.epoch, attempt.finished) == (7, False)
    guard.close()
    (attempt,) = target.execute(ATTEMPT)
    assert attempt.finished
    later = Guard(Attempts(target.as_lane, SCHEMA, target.lane), Limits(max_attempts=3, max_losses=5))
    later.open(2, start, None)
    assert not later.is_suspicious
    later.close()
