"""Answers by hand around a real lane: killed with an epoch in doubt, answered, started again."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from app.db.locks import lock_holder
from app.errors import ExitStatus
from tests.commands import Ended
from tests.fix_http import Http, Metrics
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.waiting import eventually
from tests.workload import TABLES, Shop

EPOCH_MESSAGES = 50
MESSAGES = 120
FORCE = ("--force", "--reason", "a test")
#: where it is killed, and what the evidence asks for then
PLACES = {"after-pre-commit": "rollback", "before-commit": "commit"}
OTHER = {"rollback": "commit", "commit": "rollback"}


@pytest.fixture
def made(lane: MakeLane, target: Target, topic: Topic) -> LaneUnderTest:
    """A two-phase lane with messages for a few epochs."""
    target.create(*TABLES)
    topic.send(Shop(seed=5).messages(MESSAGES))
    return lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES})


@pytest.fixture
def call(made: LaneUnderTest, surelane: Callable[..., Ended]) -> Callable[..., Ended]:
    """A verb with the lane's configuration."""
    return lambda *arguments: surelane(*arguments, "--config", str(made.config_file))


def killed_at(place: str, made: LaneUnderTest, lane_process: MakeProcess, target: Target) -> None:
    """In its second epoch; the server has noticed."""
    victim = lane_process(made, failpoint=f"{place}=kill@2").start()
    assert victim.wait() == -signal.SIGKILL, victim.tail()
    with target.engine.connect() as connection:
        eventually(lambda: lock_holder(connection, made.name) is None, why="the lane's session to be gone")


@pytest.mark.costly(1)
@pytest.mark.parametrize("place", PLACES)
def test_the_right_answer_and_the_lane_goes_on(
    place: str,
    made: LaneUnderTest,
    call: Callable[..., Ended],
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
) -> None:
    """As if its own start had given it."""
    right = PLACES[place]
    with Reader(target, topic) as reader:
        killed_at(place, made, lane_process, target)
        (gid,) = target.prepared()
        (found,) = call("indoubt", "list", "--json").json["transactions"]
        assert (found["gid"], found["verdict"], found["answer"]) == (gid, right, right)
        seen = found["evidence"]
        assert (seen["planned"], seen["complete"], seen["ledger_row"]) == (True, right == "commit", False)
        assert seen["span"]["start"] == target.position().nested()
        assert call("indoubt", OTHER[right], gid).status == ExitStatus.REFUSED
        assert target.prepared() == [gid]
        assert call("indoubt", right, gid).status == 0
        assert (seen["span"]["end"] == target.position().nested()) is (right == "commit")
        made.run_until_caught_up()
        questions(target, topic, reader=reader)
    assert target.ledger_sum().duplicate == 0


def test_rolled_back_against_the_decision_stops_the_next_start(
    made: LaneUnderTest, call: Callable[..., Ended], lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Status 6 and the plan, which leads out of it: nothing is lost while Kafka has the messages."""
    killed_at("before-commit", made, lane_process, target)
    (gid,) = target.prepared()
    ended = call("indoubt", "rollback", gid, *FORCE)
    assert ended.status == 0
    assert "status 6" in ended.out
    stopped = lane_process(made, until_caught_up=True).start()
    assert stopped.wait() == ExitStatus.DIVERGED
    assert call("recover", "--from-ledger").status == 0
    made.run_until_caught_up()
    questions(target, topic)


def test_committed_ahead_of_the_decision_is_skipped_by_the_next_start(
    made: LaneUnderTest, call: Callable[..., Ended], lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """The database is ahead: the replayed epoch is a duplicate, and nothing is applied twice."""
    with Reader(target, topic) as reader:
        killed_at("after-pre-commit", made, lane_process, target)
        (gid,) = target.prepared()
        assert call("indoubt", "commit", gid, *FORCE).status == 0
        made.run_until_caught_up()
        assert target.ledger_sum().duplicate == EPOCH_MESSAGES
        questions(target, topic, reader=reader)
    (row,) = target.execute("select verdict, answer, forced, state from surelane.indoubt_answer")
    assert tuple(row) == ("rollback", "commit", True, "done")


def test_a_running_lane_is_waited_for(
    made: LaneUnderTest,
    call: Callable[..., Ended],
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
    http: Http,
    tmp_path: Path,
) -> None:
    """An epoch that is prepared for long is seen in the metrics; no answer is taken, not even by force."""
    held = tmp_path / "before-commit"
    process = lane_process(
        "two-phase",
        failpoint=f"before-commit=wait:{tmp_path}@2",
        metrics=http.settings,
        epoch={"max_messages": EPOCH_MESSAGES},
    )
    process.start()
    process.until(held.exists, why="the second epoch")
    (gid,) = target.prepared()
    (found,) = call("indoubt", "list", "--json").json["transactions"]
    assert found["verdict"] == "in progress"
    for answer in ("commit", "rollback"):
        ended = call("indoubt", answer, gid, *FORCE)
        assert ended.status == ExitStatus.REFUSED
        assert "runs" in ended.err

    def shown(name: str) -> float:
        return Metrics(http.get("/metrics")[1]).value(f"surelane_in_doubt_{name}", lane=target.lane)

    process.until(lambda: shown("transactions") == 1, why="the count")
    process.until(lambda: shown("age_seconds") > 2, why="the age")
    held.unlink()
    process.until(lambda: dict(target.position()) == topic.ends, why="the lane to catch up")
    process.until(lambda: shown("transactions") == shown("age_seconds") == 0, why="nothing in doubt")
    assert process.stop() == ExitStatus.OK
    questions(target, topic)
