"""An epoch of a backlog is begun before Spark has planned it, and pre-committed once it is planned as expected."""

import signal
from collections.abc import Iterator

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from app.failpoint import EARLY_NAMES, EXPECTED_NAMES
from app.model.offsets import Offsets, Span
from app.worker.epoch_forecast import EpochForecast
from tests.fix_lane import Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import INT, TEXT, Debezium, Message, Table
from tests.oracle import questions
from tests.waiting import eventually

(EARLY,), (EXPECTED,) = EARLY_NAMES, EXPECTED_NAMES
FLAT = Table("flat", {"id": INT, "v": TEXT})
#: messages of an epoch
SIZE = 20
ONE_PHASE = [CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE]
d = Debezium()


def rows(count: int, v: str = "a") -> Iterator[Message]:
    return (d.create(FLAT, {"id": number % 30, "v": f"{v}{number}"}) for number in range(count))


def backlog(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, epochs: int = 5) -> LaneUnderTest:
    target.create(FLAT)
    topic.send([*rows(epochs * SIZE + SIZE // 2)])
    return lane(mode, epoch={"max_messages": SIZE})


def checked(made: LaneUnderTest, target: Target, topic: Topic) -> None:
    """Start it again, until it has caught up."""
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic, exactly_once=made.exactly_once)
    assert target.prepared() == []


def test_it_is_merged_while_the_query_starts(lane: MakeLane, target: Target, topic: Topic, hold: Hold) -> None:
    made = backlog(CommitMode.TWO_PHASE, lane, target, topic)
    held = hold(EXPECTED)
    made.start()
    held.reached()
    assert target.prepared() == []
    last = target.ledger()
    assert last is not None
    assert (sum(last.read.values()), target.execute("select count(*) as number from flat")[0].number) == (0, 0)
    held.release()
    checked(made, target, topic)


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_kill_before_the_plan(
    at: int, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    made = backlog(CommitMode.TWO_PHASE, lane, target, topic)
    process = lane_process(made, failpoint=f"{EXPECTED}=kill@{at}").start()
    assert process.wait() == -signal.SIGKILL
    assert target.prepared() == [], "it is pre-committed only when it is planned"
    again = lane_process(made).start()
    again.until(lambda: made.caught_up(topic), why="the rest")
    assert again.stop() == ExitStatus.OK, again.tail()
    questions(target, topic)
    assert target.prepared() == []


def test_another_plan(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was begun is rolled back, and the lane waits for plans from then on."""
    made = backlog(CommitMode.TWO_PHASE, lane, target, topic)
    asked: list[Span | None] = []
    right = EpochForecast.certain

    def wrong(forecast: EpochForecast, begin: Offsets) -> Span | None:
        found = right(forecast, begin)
        asked.append(found)
        return found and Span(start=found.start, end=Offsets.of({tp: one - 1 for tp, one in found.end.items()}))

    monkeypatch.setattr(EpochForecast, "certain", wrong)
    made.start()
    checked(made, target, topic)
    assert len([one for one in asked if one is not None]) == 1
    (suspects,) = target.execute("select count(*) as number from surelane.suspect")
    assert suspects.number == 0


def test_a_planned_epoch_is_replayed_while_the_query_starts(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, hold: Hold
) -> None:
    made = backlog(CommitMode.TWO_PHASE, lane, target, topic)
    process = lane_process(made, failpoint="after-pre-commit=kill@2").start()
    assert process.wait() == -signal.SIGKILL
    held = hold(EARLY)
    made.start()
    held.reached()
    assert len(target.prepared()) == 1
    held.release()
    checked(made, target, topic)


@pytest.mark.parametrize("mode", ONE_PHASE, ids=str)
def test_a_backlog_is_applied_while_the_query_starts(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, hold: Hold
) -> None:
    made = backlog(mode, lane, target, topic)
    held = hold("after-pre-commit")
    made.start()
    held.reached()
    assert made.checkpoint_files.planned() == []
    last = target.ledger()
    assert last is not None
    assert sum(last.read.values()) == SIZE
    held.release()
    checked(made, target, topic)


@pytest.mark.parametrize("mode", list(CommitMode), ids=str)
def test_a_stop_in_a_backlog(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    made = backlog(mode, lane, target, topic, epochs=40)
    for _ in range(3):
        made.start()
        before = target.ledger()
        eventually(lambda: target.ledger() != before or made.error, why="an epoch")  # noqa: B023
        made.stop()
        assert target.prepared() == []
    made.start()
    checked(made, target, topic)
