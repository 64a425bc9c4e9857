"""An epoch begins as soon as Spark has planned it, and is pre-committed before Spark calls the lane with it."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from app.failpoint import EARLY_NAMES
from app.model.gid import Gid
from tests.fix_lane import STOP_SECONDS, Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic, sending_until
from tests.messages import INT, TEXT, Debezium, Message, Table
from tests.oracle import questions
from tests.waiting import eventually

(EARLY,) = EARLY_NAMES
FLAT = Table("flat", {"id": INT, "v": TEXT})
d = Debezium()
GENERATION = "select generation from surelane.lane"
ATTEMPT = "select epoch, stage, finished from surelane.attempt"
every_mode = pytest.mark.parametrize("mode", list(CommitMode), ids=str)


def row(number: int) -> Message:
    return d.create(FLAT, {"id": number, "v": "a"})


def suspects(target: Target) -> int:
    return target.execute("select count(*) as number from surelane.suspect")[0].number


def begun(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> LaneUnderTest:
    """A lane that has applied a message: its next start finds a checkpoint and goes on."""
    target.create(FLAT)
    made = lane(mode)
    topic.send([row(1)])
    made.run_until_caught_up()
    return made


def entries(made: LaneUnderTest, folder: str) -> set[int]:
    place = Path(made.settings.checkpoint.removeprefix("file://"))
    return {int(one.name) for one in place.rglob(f"{folder}/*") if one.name.isdecimal()}


@every_mode
def test_it_is_applied_while_spark_plans(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, hold: Hold
) -> None:
    made = begun(mode, lane, target, topic)
    held = hold(EARLY)
    made.start()
    eventually(sending_until(topic, row, held.file.exists), why="an epoch is begun early")
    (planned,) = entries(made, "offsets") - entries(made, "commits")
    prepared = [gid.epoch for one in target.prepared() if (gid := Gid.parse(one)) is not None]
    last = target.ledger()
    assert last is not None
    if mode is CommitMode.TWO_PHASE:
        assert (prepared, last.epoch) == ([planned], planned - 1)
    else:
        assert (prepared, last.epoch >= planned) == ([], True)
    held.release()
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)
    (attempt,) = target.execute(ATTEMPT)
    assert attempt.finished
    assert suspects(target) == 0


@every_mode
def test_a_kill_before_spark_calls(
    mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    made = begun(mode, lane, target, topic)
    process = lane_process(made, failpoint=f"{EARLY}=kill@3").start()
    eventually(sending_until(topic, row, lambda: not process.alive), why="an epoch is begun early")
    assert process.wait() == -signal.SIGKILL
    last = lane_process(made, until_caught_up=True).start()
    assert last.wait() == ExitStatus.OK, last.tail()
    questions(target, topic, exactly_once=made.exactly_once)
    assert (suspects(target), target.prepared()) == (0, [])


@every_mode
def test_spark_never_calls(
    mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """Its JVM dies while it plans what the lane has pre-committed."""
    made = begun(mode, lane, target, topic)
    file = tmp_path / EARLY
    process = lane_process(made, failpoint=f"{EARLY}=wait:{tmp_path}").start()
    process.until(sending_until(topic, row, file.exists), why="an epoch is begun early")
    assert process.jvm is not None
    process.jvm.kill()
    (before,) = target.execute(GENERATION)
    file.unlink()

    def released(is_done: Callable[[], bool]) -> bool:
        """The next worker waits there, too."""
        file.unlink(missing_ok=True)
        return is_done()

    def is_next() -> bool:
        last = target.ledger()
        return last is not None and last.generation > before.generation

    process.until(sending_until(topic, row, lambda: released(is_next)), why="another worker applies messages")
    process.until(lambda: released(lambda: made.caught_up(topic)), why="the lane goes on")
    process.terminate()
    eventually(lambda: released(lambda: not process.alive), STOP_SECONDS, "its end")
    assert process.wait() == ExitStatus.OK, process.tail()
    questions(target, topic, exactly_once=made.exactly_once)
    assert target.prepared() == []
