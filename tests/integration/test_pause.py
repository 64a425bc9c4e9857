"""A lane that is paused applies nothing, locks nothing, and goes on where it was; a rate bounds what it applies."""

import time

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.commands import called, command
from tests.fix_doubt import changes
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.waiting import eventually
from tests.workload import COUNTER


@pytest.mark.parametrize(
    "mode",
    [
        CommitMode.TWO_PHASE,
        *(pytest.param(mode, marks=pytest.mark.full) for mode in (CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE)),
    ],
    ids=lambda mode: mode.value,
)
def test_paused_under_load(
    mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Again and again; a restart does not end it. While it lasts, tables can be locked, and nothing is prepared."""
    target.create(COUNTER)
    made = lane(mode, epoch={"max_messages": 30})
    process = lane_process(made).start()
    for number in range(3):
        known = len(target.epochs())
        topic.send(changes(300 * number, 150))
        process.until(lambda known=known: len(target.epochs()) > known, why="an epoch")
        found = called(made, "pause", "--reason", f"number {number}")
        assert (found["pause"]["reason"], found["running"]) == (f"number {number}", [made.name])
        before = len(target.epochs())
        assert target.prepared() == []
        assert called(made, "status")["state"] == "paused"
        with target.engine.begin() as connection:
            connection.exec_driver_sql("set local lock_timeout = '2s'")
            connection.exec_driver_sql("lock table public.counter in access exclusive mode")
        topic.send(changes(300 * number + 150, 150))
        if number == 1:
            assert process.stop() == 0
            assert "it does not run now" in command(made, "pause").out
            refused = command(made, "run", "--until-caught-up")
            assert (refused.status, "cannot catch up" in refused.err) == (ExitStatus.REFUSED, True)
            process.start()
            process.until(lambda: called(made, "status")["state"] == "paused", why="the pause after a restart")
        assert len(target.epochs()) == before
        assert called(made, "resume")["pause"]["reason"] == f"number {number}"
    process.until(lambda: made.caught_up(topic), why="the last messages")
    assert called(made, "resume")["pause"] is None
    assert called(made, "status")["state"] == "running"
    assert process.stop() == 0
    questions(target, topic)


def test_an_idle_lane(lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    target.create(COUNTER)
    made = lane("two-phase")
    process = lane_process(made).start()
    topic.send(changes(0, 3))
    process.until(lambda: made.caught_up(topic), why="the first messages")
    assert called(made, "pause")["running"] == [made.name]
    assert called(made, "pause", "--reason", "a second one")["pause"]["reason"] is None, "the first one stays"
    called(made, "resume")
    topic.send(changes(3, 3))
    process.until(lambda: made.caught_up(topic), why="the rest")
    assert process.stop() == 0
    questions(target, topic)


def test_a_rate(lane: MakeLane, target: Target, topic: Topic) -> None:
    """1,200 messages at 100 a second: between the begin of the first epoch and of the last there are 11 s."""
    target.create(COUNTER)
    made = lane("two-phase", limits={"messages_per_second": 100})
    topic.send(changes(0, 1_200))
    made.run_until_caught_up()
    epochs = sorted(target.epochs(), key=lambda row: row.applied_at)
    assert max(row.consumed for row in epochs) <= 100
    seconds = (epochs[-1].applied_at - epochs[0].applied_at).total_seconds()
    assert sum(row.consumed for row in epochs[:-1]) / seconds <= 125  # the first one may have taken longer, by 2 s
    questions(target, topic)


def test_stopped_while_it_waits_for_its_rate(lane: MakeLane, target: Target, topic: Topic) -> None:
    """A message a second, and many to come: it ends at once, and goes on without the limit."""
    target.create(COUNTER)
    made = lane("two-phase", limits={"messages_per_second": 1})
    topic.send(changes(0, 300))
    made.start()
    eventually(lambda: len(target.epochs()) >= 2, 120, "two epochs")
    begun = time.monotonic()
    made.stop()
    assert time.monotonic() - begun < 20
    assert len(target.epochs()) < 100
    made.changed(limits={"messages_per_second": None}).run_until_caught_up()
    questions(target, topic)
