"""What a retry can mend is mended without anybody's help, and nothing is lost or done twice on the way."""

import shutil

import pytest

from app.config.settings import CommitMode
from app.db.engine import SESSION
from tests import messages as m
from tests.fix_lane import MODES, Hold, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.waiting import eventually
from tests.workload import TABLES, Shop

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


def test_a_lock_of_somebody_else_is_waited_for_and_tried_again(
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
