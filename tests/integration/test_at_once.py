"""Epochs of a few changes: merge, ledger row and pre-commit in one round trip; and step by step where that fails."""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.db.joined import TransactionBlock, flush
from app.db.sqlstate import sqlstate
from app.dispatch import lending
from app.lane.lane import APART_EPOCHS
from app.ledger.store import Ledger
from app.model.epoch import EpochRecord
from app.model.offsets import Offsets, Span, TopicPartition
from app.model.statement import Statement
from app.stage.load import INSERT_BYTES
from tests.fix_bare_lane import MakeBareLane
from tests.fix_lane import MODES, MakeLane
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Topic
from tests.messages import INT, TEXT, TIMESTAMPTZ, Debezium, Message, Table
from tests.oracle import Reader, questions

FLAT = Table("flat", {"id": INT, "v": TEXT})
PARENT = Table("parent", {"id": INT})
CHILD = Table("child", {"id": INT, "parent": INT}, constraints=("foreign key (parent) references parent",))
EPOCH_MESSAGES = 10


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each epoch was sent, as often as it was."""
    ways: list[str] = []

    def note(way: str) -> None:
        send: Callable[..., Any] = getattr(Ledger, way)

        def noted(*arguments: Any) -> Any:
            ways.append(way)
            return send(*arguments)

        monkeypatch.setattr(Ledger, way, noted)

    for way in ("apply", "apply_exactly"):
        note(way)
    return ways


def changes(first: int) -> list[Message]:
    """An epoch of inserts, an update, and the delete of a row that no target has ever had."""
    d = Debezium()
    rows = [{"id": first + n, "v": "a"} for n in range(EPOCH_MESSAGES - 3)]
    gone = {"id": first + EPOCH_MESSAGES, "v": "b"}
    made = [d.create(FLAT, row) for row in rows]
    return [*made, d.update(FLAT, {"id": first, "v": "c"}), d.create(FLAT, gone), d.delete(FLAT, gone)]


@pytest.mark.parametrize("truncate_bytes", [1, lending.TRUNCATE_BYTES], ids=["TRUNCATE", "DELETE"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_few_changes_are_written_at_once(
    mode: str,
    truncate_bytes: int,
    lane: MakeLane,
    target: Target,
    topic: Topic,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In every mode, with a reader that sees whole epochs only, however the rows of the epoch before are removed."""
    monkeypatch.setattr(lending, "TRUNCATE_BYTES", truncate_bytes)
    target.create(FLAT)
    made = lane(mode, epoch={"max_messages": EPOCH_MESSAGES})
    with Reader(target, topic) as reader:
        for first in range(0, 500, 100):
            topic.send(changes(first))
        made.run_until_caught_up()
    questions(target, topic, reader=reader, exactly_once=made.exactly_once)
    assert set(sent) == ({"apply_exactly"} if truncate_bytes > 1 else {"apply_exactly", "apply"})


def test_times_of_a_domain_that_refuses_null(lane: MakeLane, target: Target, topic: Topic, sent: list[str]) -> None:
    """A time that was not staged as a number is none of the domain's values."""
    target.execute("create domain moment as timestamptz not null check (value is not null)")
    timed = Table("timed", {"id": INT, "at": replace(TIMESTAMPTZ, sql="moment")})
    target.create(timed)
    d, made = Debezium(), lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES})
    begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    rows = [{"id": n, "at": begin + datetime.timedelta(seconds=n)} for n in range(EPOCH_MESSAGES)]
    topic.send([d.create(timed, row) for row in rows])
    made.run_until_caught_up()
    questions(target, topic)
    assert set(sent) == {"apply_exactly"}


def test_many_changes_are_written_step_by_step(lane: MakeLane, target: Target, topic: Topic, sent: list[str]) -> None:
    target.create(FLAT)
    d, made = Debezium(), lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES})
    topic.send([d.create(FLAT, {"id": n, "v": "x" * (INSERT_BYTES // EPOCH_MESSAGES)}) for n in range(EPOCH_MESSAGES)])
    made.run_until_caught_up()
    questions(target, topic)
    assert set(sent) == {"apply"}


def test_an_archive_pre_commits_before_the_target(
    lane: MakeLane, target: Target, topic: Topic, sent: list[str]
) -> None:
    target.create(FLAT)
    made = lane("ledger", archived=True, epoch={"max_messages": EPOCH_MESSAGES})
    topic.send(changes(0))
    made.run_until_caught_up()
    questions(target, topic, archive=made.archive)
    assert set(sent) == {"apply"}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_what_needs_another_order(mode: str, lane: MakeLane, target: Target, topic: Topic, sent: list[str]) -> None:
    """Children leave a parent that is deleted: deletes first fail, upserts first do not. The epochs behind it are
    written step by step, and after some of them at once again."""
    target.create(PARENT, CHILD)
    made, d = lane(mode, epoch={"max_messages": 2}), Debezium()
    topic.send([d.create(PARENT, {"id": 1}), d.create(PARENT, {"id": 2})])
    topic.send([d.create(CHILD, {"id": 1, "parent": 1}), d.create(CHILD, {"id": 2, "parent": 2})])
    topic.send([d.update(CHILD, {"id": 1, "parent": 2}), d.delete(PARENT, {"id": 1})])
    topic.send([d.create(PARENT, {"id": n}) for n in range(10, 10 + 2 * (APART_EPOCHS + 3))])
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once)
    moved = sent.index("apply")
    assert sent[moved - 1] == "apply_exactly", "tried at once first"
    apart = sent[moved:].index("apply_exactly")
    assert apart == 1 + 1 + APART_EPOCHS, "two plans of that epoch, and the epochs behind it"
    assert set(sent[moved + apart :]) == {"apply_exactly"}
    plans = [row.plan for row in target.execute("select plan from surelane.ledger where epoch >= 0")]
    assert plans.count("upserts-first") == 1


@pytest.fixture
def held(target: Target, bare_lane: MakeBareLane) -> tuple[Ledger, EpochRecord]:
    """The ledger of a lane that has applied an epoch, and its newest row."""
    target.create(FLAT)
    lane, d = bare_lane(name=target.lane), Debezium()
    lane.apply([d.create(FLAT, {"id": n, "v": "a"}) for n in range(3)])
    ledger = Ledger(SCHEMA, target.lane)
    with target.as_lane.begin() as connection:
        last = ledger.last(connection)
    assert last is not None
    return ledger, last


def send(
    connection: Connection, to: tuple[Ledger, EpochRecord], statements: Sequence[Statement], *, newer: int = 0
) -> None:
    """`newer`: than the lane's generation."""
    ledger, last = to
    with connection.begin():
        ledger.apply_exactly(connection, last.generation + newer, last, statements)
        flush(connection)


@pytest.mark.parametrize(
    "statement",
    [
        Statement("update public.flat set v = 'b'"),
        Statement("update public.flat set v = 'b'", 3),
        Statement("update public.flat set v = 'b' where id > 0", 3, "select from public.flat where v = 'it''s'"),
        Statement("set constraints all immediate"),
    ],
    ids=["any number", "as expected", "fewer, with nothing left", "no rows"],
)
def test_a_statement_that_does_what_it_should(
    statement: Statement, target: Target, held: tuple[Ledger, EpochRecord]
) -> None:
    with target.as_lane.connect() as connection:
        send(connection, held, [statement, Statement("insert into public.flat values (9, 'c')", 1)])
    assert target.execute("select v from public.flat where id = 9")[0].v == "c"


@pytest.mark.parametrize(
    "statement",
    [
        Statement("update public.flat set v = 'b' where id < 9", 2),
        Statement("update public.flat set v = 'b' where id < 9", 4),
        Statement("update public.flat set v = 'b' where id < 9", 4, "select from public.flat where id = 2"),
        Statement("update public.flat set v = 'b' where id < 9", 2, "select where false"),
    ],
    ids=["more", "fewer", "fewer, and some are left", "more, with nothing left"],
)
def test_a_statement_that_does_something_else(
    statement: Statement, target: Target, held: tuple[Ledger, EpochRecord]
) -> None:
    """All of its transaction is undone."""
    with target.as_lane.connect() as connection:
        with pytest.raises(DBAPIError) as refused:
            send(connection, held, [Statement("insert into public.flat values (9, 'c')", 1), statement])
        assert sqlstate(refused.value) == "P0001"
    assert [row.v for row in target.execute("select v from public.flat")] == ["a"] * 3


def test_the_server_reports_how_long_it_took(target: Target, held: tuple[Ledger, EpochRecord]) -> None:
    ledger, last = held
    with target.as_lane.connect() as connection:
        block = TransactionBlock(connection)
        block.begin()
        ledger.apply_exactly(connection, last.generation, last, [Statement("select pg_sleep(0.2)", 1)])
        block.end("commit")
        assert 0.2 <= ledger.exact_seconds(connection) < 60
        assert ledger.exact_seconds(connection) == 0


def test_a_lane_that_is_elsewhere(target: Target, held: tuple[Ledger, EpochRecord]) -> None:
    """Another writer's, or at another row: nothing is executed."""
    ledger, last = held
    elsewhere = replace(last.span, end=Offsets.of({TopicPartition("other", 0): 7}))
    assert isinstance(elsewhere, Span)
    one = [Statement("delete from public.flat", 3)]
    with target.as_lane.connect() as connection:
        for to, newer in (((ledger, last), 1), ((ledger, replace(last, span=elsewhere)), 0)):
            with pytest.raises(DBAPIError) as refused:
                send(connection, to, one, newer=newer)
            assert sqlstate(refused.value) == "P0001"
        assert len(target.rows("public.flat")) == 3
        send(connection, held, one)
    assert not target.rows("public.flat")
