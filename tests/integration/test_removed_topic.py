"""A topic that source.topics names no more: refused unless that is allowed, then its position is kept until it is read
again."""

from pathlib import Path
from typing import Any

import pytest

from app.errors import ExitStatus, MessagesGone, Refused
from app.failpoint import START_NAMES
from app.model.offsets import Offsets
from tests.commands import called, command
from tests.fix_doubt import changes
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_recover import forget
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import Message
from tests.oracle import questions
from tests.poison import FLAT, row
from tests.workload import COUNTER


def rows(first: int, end: int) -> list[Message]:
    return [row(number) for number in range(first, end)]


def written(target: Target) -> list[list[Any]]:
    """All that a start writes."""
    return [list(target.execute(f"select * from surelane.{table}")) for table in ("ledger", "generation", "lane")]


def removed(target: Target) -> Offsets:
    found = target.execute("select topic, partition, next_offset from surelane.removed_topic")
    return Offsets.from_nested({row.topic: {row.partition: row.next_offset} for row in found})


@pytest.fixture
def topics(target: Target, new_topic: NewTopic) -> tuple[Topic, Topic]:
    """Of COUNTER and of FLAT."""
    target.create(COUNTER, FLAT)
    return new_topic(), new_topic()


def removing(topic: Topic) -> list[str]:
    return ["--allow-non-restored", f"topics:{topic.name}"]


@pytest.mark.costly(1)
@pytest.mark.parametrize("place", START_NAMES)
@pytest.mark.parametrize("mode", ["two-phase", pytest.param("ledger", marks=pytest.mark.full)])
def test_removed_and_added_again(
    mode: str,
    place: str,
    lane: MakeLane,
    lane_process: MakeProcess,
    target: Target,
    topics: tuple[Topic, Topic],
    tmp_path: Path,
) -> None:
    """Its process is killed while it removes the topic."""
    stays, goes = topics
    savepoints = {"directory": str(tmp_path / "savepoints")}
    made = lane(mode, topics=topics, archived=True, epoch={"max_messages": 20}, savepoints=savepoints)
    stays.send(changes(0, 60))
    goes.send(rows(0, 40))
    made.run_until_caught_up()
    called(made, "savepoint", "create", "one")
    goes.send(rows(40, 50))
    stays.send(changes(60, 30))

    less = made.changed(source={"topics": [stays.name]})
    before = written(target)
    with pytest.raises(Refused, match=f"has a position of {goes.name}"):
        less.run_until_caught_up()
    refused = command(less, "run", "--from-savepoint", "one")
    assert (refused.status, f"topics:{goes.name}" in refused.err) == (ExitStatus.REFUSED, True)
    assert "which source.topics does not name" in command(less, "doctor").out.replace("\n", " ")
    assert written(target) == before
    assert called(less, "savepoint", "check", "one", *removing(goes))["fits"]

    arguments = ["--from-savepoint", "one", *removing(goes)]
    process = lane_process(less, failpoint=f"{place}=wait:{tmp_path}", arguments=arguments).start()
    process.until((tmp_path / place).exists, why=place)
    process.kill()
    (tmp_path / place).unlink()
    assert lane_process(less, until_caught_up=True, arguments=arguments).start().wait() == 0
    stays.send(changes(90, 30))
    less.run_until_caught_up()
    assert dict(target.position()) == stays.ends
    assert removed(target) == Offsets.of(dict.fromkeys(goes.ends, 40))
    assert len(target.rows(FLAT.full_name)) == 40
    status = called(less, "status")
    assert (status["lag_messages"], list(status["position"])) == (0, [stays.name])

    goes.send(rows(50, 60))
    stays.send(changes(120, 30))
    less.changed(source={"topics": [stays.name, goes.name]}).run_until_caught_up()
    assert removed(target) == Offsets()
    questions(target, *topics, archive=made.archive)


def test_what_waits_in_quarantine(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topics: tuple[Topic, Topic]
) -> None:
    """Stays, and can be released without the topic."""
    stays, goes = topics
    target.execute("alter table public.flat add constraint good check (v <> 'bad')")
    made = lane("two-phase", topics=topics, guard={"on_skip": "park", "max_attempts": 1})
    goes.send([row(1, "bad"), row(2)])
    stays.send(changes(0, 3))
    made.run_until_caught_up()
    target.execute("alter table public.flat drop constraint good")
    less = made.changed(source={"topics": [stays.name]})
    process = lane_process(less, arguments=removing(goes)).start()
    (entry,) = called(less, "quarantine", "list")["entries"]
    assert command(less, "quarantine", "release", str(entry["id"])).status == 0
    process.until(lambda: len(target.rows(FLAT.full_name)) == 2, why="the release")
    assert process.stop() == 0
    assert called(less, "quarantine", "list", "--state", "quarantined")["entries"] == []
    goes.send(rows(3, 6))
    less.changed(source={"topics": [stays.name, goes.name]}).run_until_caught_up()
    assert dict(target.position()) == {**stays.ends, **goes.ends}
    assert len(target.rows(FLAT.full_name)) == 5


def test_added_again_after_kafka_deleted_it(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topics: tuple[Topic, Topic]
) -> None:
    """Refused as any gap is."""
    stays, goes = topics
    made = lane("two-phase", topics=topics)
    goes.send(rows(0, 10))
    stays.send(changes(0, 3))
    made.run_until_caught_up()
    less = made.changed(source={"topics": [stays.name]})
    assert lane_process(less, until_caught_up=True, arguments=removing(goes)).start().wait() == 0
    goes.send(rows(10, 20))
    forget(goes.kafka, goes.name, 15)
    again = less.changed(source={"topics": [stays.name, goes.name]})
    with pytest.raises(MessagesGone):
        again.run_until_caught_up()
    assert len(target.rows(FLAT.full_name)) == 10


def test_no_topic_stays(lane: MakeLane, target: Target, topics: tuple[Topic, Topic]) -> None:
    made = lane("ledger", topics=topics[:1])
    topics[0].send(changes(0, 3))
    made.run_until_caught_up()
    before = written(target)
    with pytest.raises(Refused, match="names none of the topics"):
        made.changed(source={"topics": [topics[1].name]}).run_until_caught_up()
    assert written(target) == before
