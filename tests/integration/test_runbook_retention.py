"""ops/runbooks/retention-exceeded.md, command by command: Kafka has deleted what a lane, or a copy, still needs."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg2
import pytest
from sqlalchemy.exc import DBAPIError

from app.config.settings import CommitMode
from app.errors import Diverged, ExitStatus, MessagesGone
from app.model.offsets import TopicPartition
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_recover import forget, new_database
from tests.fix_runbook import MakeOperator, Operator, printed, wanted
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message
from tests.oracle import questions
from tests.runbook import commands, of
from tests.waiting import eventually
from tests.workload import COUNTER
from tools.devstack import Kafka, Stack
from tools.devstack.postgres import SUPERUSER
from tools.devstack.postgres_binaries import bin_dir

PAGE = "retention-exceeded.md"
STOPPED = "Stopped with status 6"
EPOCH = 10
_DEBEZIUM = Debezium()


def counters(first: int, count: int) -> list[Message]:
    return [_DEBEZIUM.update(COUNTER, {"id": n % 4, "hits": n}) for n in range(first, first + count)]


def gone(lane: LaneUnderTest) -> MessagesGone:
    """What the lane says."""
    with pytest.raises(MessagesGone) as refused:
        lane.run_until_caught_up()
    assert refused.value.exit_status is ExitStatus.DIVERGED
    assert f"lane {lane.name}, as in ops/runbooks/{PAGE}" in str(refused.value)
    assert printed(refused.value.hint) == wanted(PAGE, STOPPED)
    return refused.value


@pytest.mark.parametrize(
    "mode",
    [CommitMode.TWO_PHASE, CommitMode.AT_LEAST_ONCE, pytest.param(CommitMode.LEDGER, marks=pytest.mark.full)],
    ids=lambda mode: mode.value,
)
def test_a_gap_is_accepted(
    mode: CommitMode, lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic, kafka: Kafka
) -> None:
    """Everything but what is missing is applied, once; by whom and why is on record."""
    target.create(COUNTER)
    topic.send(counters(0, EPOCH))
    made = operator(lane(mode))
    made.lane.run_until_caught_up()
    topic.send(counters(EPOCH, EPOCH))
    first, last = EPOCH, EPOCH + 4
    forget(kafka, topic.name, last + 1)
    assert f"{topic.name}[0] {first} to {last}, at most 5 messages" in str(gone(made.lane))
    values = {
        "topic": topic.name,
        "first": str(first),
        "last": str(last),
        "m": "5",
        "position": f"{topic.name}[0]@{first}",
        "onward": f"{topic.name}[0]@{last + 1}",
        "n": "5",
        "why": "test data",
    }
    assert made.statuses(PAGE, "Keep what is left", **values) == [ExitStatus.DIVERGED]
    refused = made.surelane("recover", "--from-ledger")
    assert (refused.status, PAGE in refused.err) == (ExitStatus.DIVERGED, True)
    assert made.surelane("recover", "gap", "--accept").status == ExitStatus.USAGE
    assert made.statuses(PAGE, STOPPED, **values) == [ExitStatus.DIVERGED, 0, 0, 0]
    topic.sent[:] = [one for one in topic.sent if not first <= one.position.offset <= last]
    made.questions()
    record = {"from": values["position"], "to": values["onward"], "position": f"{topic.name}[0]@{topic.end}"}
    assert made.statuses(PAGE, "What is on record", **(values | record)) == [0]
    with pytest.raises(DBAPIError, match="nothing of it changes"):
        target.execute("delete from surelane.gap")
    again = made.surelane("recover", "gap", "--accept", "--reason", "again")
    assert (again.status, "nothing is missing" in again.err) == (ExitStatus.REFUSED, True)


def test_what_may_be_in_a_prepared_transaction_is_no_gap(
    lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic, kafka: Kafka
) -> None:
    """Its loss cannot be accepted before a start has settled it."""
    target.create(COUNTER)
    topic.send(counters(0, EPOCH))
    made = operator(lane(CommitMode.TWO_PHASE))
    made.lane.run_until_caught_up()
    with target.engine.connect() as connection:
        transaction = connection.begin_twophase(f"surelane:{made.lane.name}:1:7")
        connection.exec_driver_sql("insert into public.counter values (99, 0)")
        transaction.prepare()
        connection.invalidate()
    topic.send(counters(EPOCH, EPOCH))
    forget(kafka, topic.name, EPOCH + 1)
    refused = made.surelane("recover", "gap", "--accept", "--reason", "a test")
    assert (refused.status, "may be in there" in refused.err) == (ExitStatus.REFUSED, True)
    assert target.execute("select from surelane.gap") == []


def lose_entry(made: Operator, topic: Topic, kafka: Kafka) -> None:
    """The target has an epoch, its entry is lost, and Kafka has not its messages, but others behind them."""
    topic.send(counters(0, EPOCH))
    made.lane.run_until_caught_up()
    made.lane.checkpoint_files.forget_commit(0)
    forget(kafka, topic.name, EPOCH - 1)
    topic.send(counters(EPOCH, EPOCH))


def test_only_the_checkpoint_asks_for_it(
    lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic, kafka: Kafka
) -> None:
    """The target has the last epoch, its entry is lost, and Kafka has not its messages: another page leads out."""
    target.create(COUNTER)
    made = operator(lane(CommitMode.TWO_PHASE))
    lose_entry(made, topic, kafka)
    with pytest.raises(Diverged, match="The target needs none of them") as refused:
        made.lane.run_until_caught_up()
    page = "checkpoint-lost.md"
    assert printed(refused.value.hint) == wanted(page, STOPPED)
    assert made.statuses(page, STOPPED, n=str(EPOCH)) == [0, 0, 0]
    made.questions()


def test_a_lane_that_goes_ahead_does_not_ask_for_it(
    lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic, kafka: Kafka
) -> None:
    target.create(COUNTER)
    made = operator(lane(CommitMode.LEDGER))
    lose_entry(made, topic, kafka)
    made.lane.run_until_caught_up()
    made.questions()


def test_a_snapshot_that_is_ahead(
    lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target was put back from a copy that is too old; a newer one leads back, and nothing is lost."""
    target.create(COUNTER)
    url = target.server.url(target.database, SUPERUSER)
    snapshots = {"driver": "dump", "directory": "snapshots", "url": url, "bin_dir": str(bin_dir())}
    made = operator(lane(CommitMode.TWO_PHASE, snapshots=snapshots))
    monkeypatch.chdir(made.lane.config_file.parent)
    for name in ("old", "new"):
        topic.send(counters(topic.end, EPOCH))
        made.lane.run_until_caught_up()
        assert made.surelane("snapshot", "create", "--name", name).status == 0
    topic.send(counters(topic.end, EPOCH))
    undo = []
    copies = {name: new_database(target, name, undo) for name in ("old", "new")}
    for name, copy in copies.items():
        to = target.server.url(copy.database, SUPERUSER)
        assert made.surelane("snapshot", "restore", name, "--to", to).status == 0
    forget(kafka, topic.name, EPOCH + 5)

    first = back(made, copies["old"])
    missing = {"first": str(EPOCH), "last": str(EPOCH + 4), "m": "5"}
    assert first.statuses(PAGE, "Keep what is left", **missing) == [ExitStatus.DIVERGED]
    plan = first.surelane("recover", "plan", "--snapshot", "old")
    assert (plan.status, f"ops/runbooks/{PAGE}" in plan.out) == (ExitStatus.DIVERGED, True)
    assert first.statuses(PAGE, "A snapshot that is ahead", snapshot="new") == [0, 0]
    second = back(made, copies["new"])
    assert second.surelane("recover", "--from-ledger").status == 0
    second.lane.run_until_caught_up()
    questions(copies["new"], topic)
    for one in undo:
        one()


def back(made: Operator, copy: Target) -> Operator:
    """The configuration names another target."""
    lane = made.lane.changed(target={"url": copy.url})
    return replace(made, lane=LaneUnderTest(lane.raw, lane.config_file, copy, made.lane._spark), target=copy)  # pyright: ignore[reportPrivateUsage]


SOURCE = (
    "create table item (id int primary key, name text)",
    "insert into item values (1, 'a'), (2, 'a'), (3, 'a')",
    "create schema debezium",
    "create table debezium.signal (id varchar(42) primary key, type varchar(32) not null, data varchar(2048))",
)


@pytest.fixture
def source(capturing: Stack, topic: Topic) -> Iterator[psycopg2.extensions.connection]:
    """A source whose changes Debezium sends to the topic."""
    name = topic.name.replace("-", "_")
    capturing.source.create_database(name)
    connection = psycopg2.connect(capturing.source.url(name))
    connection.autocommit = True
    for statement in SOURCE:
        connection.cursor().execute(statement)
    capturing.capture(name, topic.name, {"signal.data.collection": "debezium.signal"})
    yield connection
    connection.close()
    capturing.release(name)


def test_the_tables_are_snapshotted_anew(
    source: psycopg2.extensions.connection,
    capturing: Stack,
    lane: MakeLane,
    operator: MakeOperator,
    target: Target,
    topic: Topic,
    kafka: Kafka,
) -> None:
    """With a real Debezium: what was written in the gap comes back, what was deleted in it is named, and is deleted."""
    target.execute("create table item (id int primary key, name text)")
    made = operator(lane(CommitMode.TWO_PHASE))
    made.lane.run_until_caught_up()
    assert len(target.rows("public.item")) == 3

    def change(*statements: str) -> None:
        before = topic.end
        for statement in statements:
            source.cursor().execute(statement)
        # each statement is a transaction: a begin, a change (a delete has its tombstone), an end
        eventually(lambda: topic.end >= before + 3 * len(statements), why="Debezium to send it")

    change(
        "update item set name = 'b' where id = 1", "delete from item where id = 2", "insert into item values (4, 'a')"
    )
    forget(kafka, topic.name, topic.end)
    change("insert into item values (5, 'a')")
    gone(made.lane)
    assert made.statuses(PAGE, STOPPED, why="tables are snapshotted anew") == [ExitStatus.DIVERGED, 0, 0, 0]
    assert set(target.rows("public.item")) == {(1,), (2,), (3,), (5,)}

    made.lane.start()
    url = capturing.source.url(topic.name.replace("-", "_"))
    values = {
        "source": url,
        "id": "again-1",
        "table": "public.item",
        "key": "id='2'",
        "condition": "id = 2",
        "d": "1",
        "seconds": "2",
    }
    signal, surplus, *rest = of(PAGE, "Snapshot the tables anew")
    given = {"target": target.server.url(target.database, SUPERUSER), **values}
    assert signal.check(made, **given).status == 0
    eventually(lambda: (4,) in target.rows("public.item"), why="the rows that Debezium reads again")
    assert surplus.check(made, **given).status == ExitStatus.DIFFERENT
    assert [one.check(made, **given).status for one in rest] == [0, 0]
    made.lane.until_caught_up(topic)
    made.lane.stop()
    assert target.rows("public.item") == {
        (n,): {"id": n, "name": name} for n, name in ((1, "b"), (3, "a"), (4, "a"), (5, "a"))
    }
    assert dict(target.position()) == {TopicPartition(topic.name, 0): topic.end}
    assert (target.prepared(), target.ledger_sum().adds_up) == ([], True)


def test_every_command_of_the_page_is_played_above() -> None:
    played = ("Keep what is left", "A snapshot that is ahead", STOPPED, "Snapshot the tables anew", "What is on record")
    assert len(commands(PAGE)) == sum(len(of(PAGE, section)) for section in played)
