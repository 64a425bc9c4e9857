"""Two writers on one lane: the one that came later has it, the older is fenced and commits nothing any more.

The older is a process of its own, so that it can be frozen with all its threads and its JVM; the newer runs here.
"""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.fix_lane import Hold, LaneProcess, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.workload import TABLES, Shop

EPOCH_MESSAGES = 60
#: messages that are there when the older starts: enough for it to be busy, or for a few epochs
MANY, FEW = 900, 200
#: messages that come when the newer has the lane
LATER = 100
#: for two Sparks on a busy machine
CATCH_UP_SECONDS = 180.0

two_phase, ledger, at_least_once = CommitMode.TWO_PHASE, CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE
ONE, TWO = "one checkpoint", "two checkpoints"


class Frozen:
    """A lane process that stands still at a failpoint, JVM and all."""

    def __init__(self, process: LaneProcess, held: Path) -> None:
        self._process, self._held = process, held

    def freeze(self) -> None:
        """Wait until it is at its place, then stop the whole process group."""
        self._process.until(self._held.exists, why=f"failpoint {self._held.name}")
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had happened."""
        self._held.unlink()
        os.killpg(self._process.pid, signal.SIGCONT)


def generation(target: Target) -> int:
    """The one that may write now."""
    ((number,),) = target.execute("select generation from surelane.lane where lane = :lane", lane=target.lane)
    return number


def epochs_of(target: Target, number: int) -> int:
    """How many epochs a generation has in the ledger."""
    return len([row for row in target.epochs() if row.generation == number])


def assert_unbroken(target: Target) -> None:
    """Over all writers, each epoch starts where the one before it ended, or is that one once more."""
    for one, next_one in itertools.pairwise(target.epochs()):
        repeated = (one.start_position, one.end_position) == (next_one.start_position, next_one.end_position)
        assert next_one.start_position == one.end_position or repeated, (one, next_one)


@pytest.fixture
def shop(target: Target) -> Shop:
    """A source, its tables made at the target."""
    target.create(*TABLES)
    return Shop(seed=7)


@pytest.fixture
def two_lanes(lane: MakeLane, tmp_path: Path) -> Callable[..., tuple[LaneUnderTest, LaneUnderTest]]:
    """`two_lanes(mode, checkpoints)`: one lane, configured twice."""

    def make(mode: CommitMode, checkpoints: str) -> tuple[LaneUnderTest, LaneUnderTest]:
        epoch = {"max_messages": EPOCH_MESSAGES}
        own = {"checkpoint": str(tmp_path / "of the newer")} if checkpoints == TWO else {}
        return lane(mode, epoch=epoch), lane(mode, epoch=epoch, **own)

    return make


TwoLanes = Callable[..., tuple[LaneUnderTest, LaneUnderTest]]


@pytest.mark.parametrize(
    ("mode", "checkpoints"),
    [
        (two_phase, ONE),
        pytest.param(two_phase, TWO, marks=pytest.mark.full),
        (ledger, ONE),
        pytest.param(at_least_once, ONE, marks=pytest.mark.full),
    ],
    ids=lambda value: getattr(value, "value", value),
)
def test_a_busy_writer_is_taken_over(
    mode: CommitMode,
    checkpoints: str,
    two_lanes: TwoLanes,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
    shop: Shop,
) -> None:
    """The older ends with status 7, the newer goes on where it was; nothing is lost, nothing counts twice."""
    topic.send(shop.messages(MANY))
    of_older, newer = two_lanes(mode, checkpoints)
    with Reader(target, topic) as reader:
        older = lane_process(of_older).start()
        older.until(lambda: len(target.epochs()) > 1, why="the older's first epochs")
        newer.start()
        assert older.wait(CATCH_UP_SECONDS) == ExitStatus.FENCED, older.tail()
        topic.send(shop.messages(LATER))
        newer.until_caught_up(topic, timeout=CATCH_UP_SECONDS)
        newer.stop()
        assert_unbroken(target)
        questions(target, topic, reader=reader, exactly_once=newer.exactly_once)


def test_an_idle_writer_notices_that_it_is_fenced(
    two_lanes: TwoLanes, lane_process: MakeProcess, target: Target, topic: Topic, shop: Shop
) -> None:
    """It does not wait for messages to find out."""
    topic.send(shop.messages(FEW))
    of_older, newer = two_lanes(two_phase, ONE)
    older = lane_process(of_older).start()
    older.until(lambda: newer.caught_up(topic), why="the older to catch up")
    newer.run_until_caught_up()
    assert older.wait(CATCH_UP_SECONDS) == ExitStatus.FENCED, older.tail()
    questions(target, topic)


@pytest.mark.costly(2)
@pytest.mark.parametrize(
    ("mode", "checkpoints", "place"),
    [
        (two_phase, ONE, "after-pre-commit"),
        (two_phase, TWO, "after-merge"),
        (ledger, ONE, "after-merge"),
        *(
            pytest.param(two_phase, *rest, marks=pytest.mark.full)
            for rest in [(ONE, "after-merge"), (ONE, "before-commit"), (TWO, "after-pre-commit")]
        ),
        (at_least_once, ONE, "after-ledger"),
    ],
    ids=lambda value: getattr(value, "value", value),
)
def test_a_frozen_writer_wakes_up_too_late(
    mode: CommitMode,
    checkpoints: str,
    place: str,
    two_lanes: TwoLanes,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
    shop: Shop,
    tmp_path: Path,
) -> None:
    """A long pause (a suspended machine) in the middle of an epoch; another takes over, then the first goes on."""
    topic.send(shop.messages(FEW))
    of_older, newer = two_lanes(mode, checkpoints)
    older = lane_process(of_older, failpoint=f"{place}=wait:{tmp_path}@2")
    frozen = Frozen(older, tmp_path / place)
    with Reader(target, topic) as reader:
        older.start()
        frozen.freeze()
        number = generation(target)
        newer.start()
        newer.until_caught_up(topic, timeout=CATCH_UP_SECONDS)
        before = epochs_of(target, number)
        frozen.thaw()
        topic.send(shop.messages(LATER))
        assert older.wait(CATCH_UP_SECONDS) == ExitStatus.FENCED, older.tail()
        topic.send(shop.messages(LATER))
        newer.until_caught_up(topic, timeout=CATCH_UP_SECONDS)
        newer.stop()
        assert epochs_of(target, number) == before, "the older has committed nothing more"
        assert_unbroken(target)
        questions(target, topic, reader=reader, exactly_once=newer.exactly_once)


@pytest.mark.parametrize("mode", [two_phase, ledger], ids=lambda mode: mode.value)
def test_an_older_writer_wrote_the_checkpoint_entry_of_an_epoch_being_applied(
    mode: CommitMode, two_lanes: TwoLanes, hold: Hold, target: Target, topic: Topic, shop: Shop
) -> None:
    """What a writer that woke up leaves in a shared checkpoint; the newer gets over finding it there."""
    topic.send(shop.messages(FEW))
    _, newer = two_lanes(mode, ONE)
    held = hold("after-merge", at=2)
    with Reader(target, topic) as reader:
        newer.start()
        held.reached()
        files = newer.checkpoint_files
        files.commit_file(1).write_bytes(files.commit_file(0).read_bytes())
        held.release()
        newer.until_caught_up(topic, timeout=CATCH_UP_SECONDS)
        newer.stop()
        assert_unbroken(target)
        questions(target, topic, reader=reader)
