"""A table that is paused: its changes are parked, in order, while the lane applies those of other tables."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from app.errors import ExitStatus
from tests import messages as m
from tests.commands import called, command
from tests.fix_doubt import changes
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.oracle import questions
from tests.workload import COUNTER

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
NAME = FLAT.full_name
d = Debezium()


def rows(numbers: Iterable[int], v: str = "a") -> list[Message]:
    """Of FLAT: each is created and updated, every third is deleted, every fifth gets another key."""
    found: list[Message] = []
    for number in numbers:
        old = {"id": number, "v": v}
        found += [d.create(FLAT, old), d.update(FLAT, {"id": number, "v": f"{v}{number}"})]
        if number % 3 == 0:
            found.append(d.delete(FLAT, old))
        elif number % 5 == 0:
            found += d.rekey(FLAT, {"id": number, "v": f"{v}{number}"}, {"id": number + 10_000, "v": f"{v}{number}"})
    return found


def mixed(first: int) -> list[Message]:
    """30 changes of COUNTER between those of FLAT."""
    return [*rows(range(first, first + 15)), *changes(first, 30), *rows(range(first + 15, first + 30))]


def kept(target: Target) -> int:
    return target.execute("select count(*) from surelane.quarantine")[0][0]


def released(target: Target) -> int:
    return target.execute("select count(*) from surelane.quarantine where state = 'released'")[0][0]


@pytest.mark.parametrize("mode", ["two-phase", pytest.param("ledger", marks=pytest.mark.full)])
def test_others_go_on(mode: str, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """While another session locks the table; a kill changes nothing."""
    target.create(COUNTER, FLAT)
    made = lane(mode, epoch={"max_messages": 40}, target={"on_truncate": "apply"}, archived=True)
    process = lane_process(made).start()
    topic.send(mixed(0))
    process.until(lambda: made.caught_up(topic), why="the first messages")
    found = called(made, "pause", "--table", NAME, "--reason", "a long ALTER")
    assert (found["pause"]["taken_up"], found["running"]) == (True, [made.name])
    before = target.rows(NAME)
    with target.engine.begin() as connection:
        connection.exec_driver_sql(f"lock table {NAME} in access exclusive mode")
        topic.send(mixed(30))
        process.until(lambda: made.caught_up(topic), why="the other table's changes")
    process.kill()
    topic.send(mixed(60))
    process.start()
    process.until(lambda: made.caught_up(topic), why="those after the restart")
    assert target.rows(NAME) == before
    assert len(target.rows(COUNTER.full_name)) > 0
    status = called(made, "status")
    (shown,) = status["table_pauses"]
    assert (status["state"], shown["table"], shown["reason"]) == ("running", NAME, "a long ALTER")
    assert shown["parked"] == kept(target) > 0
    assert "messages are parked" in command(made, "status").out

    one = called(made, "quarantine", "list")["entries"][0]["id"]
    assert command(made, "quarantine", "release", str(one)).status == 0
    process.until(
        lambda: called(made, "quarantine", "show", str(one))["release"]["refused"],
        why="the refusal of a single release",
    )
    assert called(made, "resume", "--table", NAME)["parked"] == 0
    parked = kept(target)
    assert released(target) == parked
    topic.send(mixed(90))
    process.until(lambda: made.caught_up(topic), why="the table's later changes")
    assert kept(target) == parked
    assert called(made, "resume", "--table", NAME)["pause"] is None
    assert process.stop() == 0
    questions(target, topic, quarantined=parked, archive=made.archive)


def test_killed_while_it_resumes(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """Each message is applied once, and before the later changes of the table."""
    target.create(COUNTER, FLAT)
    made = lane("two-phase", guard={"on_skip": "park"})
    assert command(made, "migrate").status == 0
    assert called(made, "pause", "--table", NAME)["running"] == []
    topic.send(rows(range(150)))
    made.run_until_caught_up()
    assert target.rows(NAME) == {}
    assert called(made, "resume", "--table", NAME)["parked"] == kept(target) > 200
    topic.send(rows(range(150), "b"))
    parked = kept(target)
    process = lane_process(made, failpoint=f"table-resume=wait:{tmp_path}").start()
    process.until((tmp_path / "table-resume").exists, why="a part of the release")
    process.kill()
    assert 0 < released(target) < parked
    made.run_until_caught_up()
    assert (kept(target), released(target)) == (parked, parked)
    questions(target, topic, quarantined=parked)


def test_a_truncate(lane: MakeLane, target: Target, topic: Topic) -> None:
    """In its place among the others."""
    target.create(FLAT)
    made = lane("ledger", target={"on_truncate": "apply"})
    assert called(made, "pause", "--table", NAME)["running"] == []
    topic.send([d.create(FLAT, {"id": 1, "v": "a"}), d.truncate(FLAT), d.create(FLAT, {"id": 2, "v": "a"})])
    made.run_until_caught_up()
    assert target.rows(NAME) == {}
    called(made, "resume", "--table", NAME)
    topic.send([d.create(FLAT, {"id": 3, "v": "a"})])
    made.run_until_caught_up()
    assert sorted(target.rows(NAME)) == [(2,), (3,)]
    assert released(target) == 3


@pytest.mark.parametrize("mode", ["two-phase", pytest.param("ledger", marks=pytest.mark.full)])
def test_more_than_may_be_parked(
    mode: str, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """The lane pauses as a whole, says why, and loses nothing."""
    target.create(COUNTER, FLAT)
    made = lane(mode, epoch={"max_messages": 20}, limits={"parked_messages": 30})
    process = lane_process(made).start()
    process.until_running()
    called(made, "pause", "--table", NAME)
    for first in range(0, 120, 30):
        topic.send(mixed(first))
    process.until(lambda: called(made, "status")["state"] == "paused", why="the pause of the lane")
    assert "limits.parked_messages" in called(made, "status")["pause"]["reason"]
    assert 0 < kept(target) <= 30
    called(made, "resume")
    process.until(lambda: called(made, "status")["pause"] is not None, why="the pause again")
    assert called(made, "resume", "--table", NAME)["parked"] == 0
    process.until(lambda: made.caught_up(topic), why="the rest")
    assert called(made, "status")["state"] == "running"
    assert process.stop() == 0
    questions(target, topic, quarantined=kept(target))


def test_what_cannot_be_paused(lane: MakeLane, topic: Topic) -> None:
    made = lane("ledger", target={"tables": {"public.*": "shop.*"}})
    for name, why in ((NAME, "no route"), ("flat", "schema.table")):
        ended = command(made, "pause", "--table", name)
        assert (ended.status, why in ended.err) == (ExitStatus.REFUSED, True)
    ended = command(made.changed(source={"order": "partition"}), "pause", "--table", NAME)
    assert (ended.status, "order: total" in ended.err) == (ExitStatus.REFUSED, True)
