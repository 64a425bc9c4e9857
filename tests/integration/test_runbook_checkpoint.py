"""ops/runbooks/checkpoint-lost.md, command by command: the checkpoint of a real lane is gone, old, moved or damaged."""

import shutil

import pytest

from app.config.settings import CommitMode
from app.errors import Diverged, ExitStatus
from app.spark.entries import IDENTITY_FILE
from tests.fix_lane import MODES, LaneUnderTest, MakeLane
from tests.fix_runbook import MakeOperator, Operator, printed, wanted
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium
from tests.runbook import commands, of
from tests.workload import COUNTER

PAGE = "checkpoint-lost.md"
EPOCH = 10
_DEBEZIUM = Debezium()


@pytest.fixture
def stopped(lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic) -> Operator:
    """A lane that has applied two epochs, and has one waiting for it."""
    return ran(lane(CommitMode.TWO_PHASE, epoch={"max_messages": EPOCH}), operator, target, topic)


def ran(made: LaneUnderTest, operator: MakeOperator, target: Target, topic: Topic) -> Operator:
    target.create(COUNTER)
    send(topic, 2 * EPOCH)
    made.run_until_caught_up()
    send(topic, EPOCH)
    return operator(made)


def send(topic: Topic, count: int) -> None:
    first = topic.end
    topic.send(_DEBEZIUM.update(COUNTER, {"id": n % 4, "hits": n}) for n in range(first, first + count))


def epochs(target: Target) -> list[str]:
    """Where each epoch ended: nothing is applied twice."""
    return [str(row.end_position) for row in target.epochs()]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_deleted(mode: CommitMode, lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic) -> None:
    made = ran(lane(mode, epoch={"max_messages": EPOCH}), operator, target, topic)
    shutil.rmtree(made.lane.checkpoint)
    assert made.statuses(PAGE, "Look", position=str(target.position()), n=str(EPOCH)) == [0, 0]
    assert made.statuses(PAGE, "Deleted") == [0, 0]
    assert (made.lane.checkpoint_files.complete(), len(set(epochs(target)))) == ([0], 3)
    assert target.ledger_sum().consumed == topic.end
    made.questions()


def test_a_copy_of_yesterday_and_moved(stopped: Operator, target: Target, topic: Topic) -> None:
    checkpoint = stopped.lane.checkpoint
    yesterday, moved = checkpoint.with_name("yesterday"), checkpoint.with_name("moved")
    shutil.copytree(checkpoint, yesterday)
    stopped.lane.run_until_caught_up()
    shutil.rmtree(checkpoint)
    shutil.copytree(yesterday, checkpoint)
    send(topic, EPOCH)
    end = f"{topic.name}[0]@{topic.end}"
    assert stopped.statuses(PAGE, "A copy of yesterday was put back", end=end) == [0, 0]
    (aside,) = checkpoint.parent.glob("checkpoint.*")
    assert sorted(path.name for path in (aside / "offsets").glob("[0-9]*")) == ["0", "1"]

    checkpoint.rename(moved)
    stopped.lane = stopped.lane.changed(checkpoint=str(moved))
    before = stopped.lane.checkpoint_files.complete()
    send(topic, EPOCH)
    assert stopped.statuses(PAGE, "Moved") == [0, 0]
    assert stopped.lane.checkpoint_files.complete() == [*before, len(before)], "it went on with the one that was moved"
    assert target.ledger_sum().consumed == topic.end
    stopped.questions()


def test_damaged(stopped: Operator, target: Target, topic: Topic) -> None:
    """Status 6 prints the commands of the page, and they lead out of it."""
    folder = stopped.lane.checkpoint / "offsets"
    (folder / "1").write_text("v1\n{}\n")  # other bytes than its checksum says
    for who in ("the lane", f"lane {stopped.lane.name}"):
        with pytest.raises(Diverged) as refused:
            stopped.lane.run_until_caught_up()
        assert refused.value.exit_status is ExitStatus.DIVERGED
        assert f"{who}, as in ops/runbooks/{PAGE}" in str(refused.value)
        assert printed(refused.value.hint) == wanted(PAGE, "Stopped with status 6")
        (folder / ".1.crc").unlink(missing_ok=True)
    assert stopped.statuses(PAGE, "Stopped with status 6", position=str(target.position()), n=str(EPOCH)) == [0, 0, 0]
    assert target.ledger_sum().consumed == topic.end
    stopped.questions()


def test_a_checkpoint_of_an_unknown_owner(stopped: Operator) -> None:
    """Without surelane.json it may be another program's: it is not touched, and another folder is the way out."""
    (stopped.lane.checkpoint / IDENTITY_FILE).unlink()
    with pytest.raises(Diverged, match=PAGE):
        stopped.lane.run_until_caught_up()
    stopped.lane = stopped.lane.changed(checkpoint=f"{stopped.lane.checkpoint}-new")
    stopped.lane.run_until_caught_up()
    stopped.questions()


def test_of_another_lane(stopped: Operator, lane: MakeLane, target: Target, topic: Topic) -> None:
    """The first one may be running on it."""
    other = lane(CommitMode.TWO_PHASE, lane=f"{stopped.lane.name}-2")
    assert other.checkpoint == stopped.lane.checkpoint
    with pytest.raises(Diverged, match=f"is lane {stopped.lane.name}'s"):
        other.run_until_caught_up()
    assert target.ledger(other.name) is None
    stopped.lane.run_until_caught_up()
    assert stopped.lane.checkpoint_files.complete() == [0, 1, 2]
    stopped.questions()


def test_every_command_of_the_page_is_played_above() -> None:
    played = ("Look", "Deleted", "A copy of yesterday was put back", "Moved", "Stopped with status 6")
    assert len(commands(PAGE)) == sum(len(of(PAGE, section)) for section in played)
