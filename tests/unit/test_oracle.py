"""The questions that every run is asked can be answered wrongly: each of them notices what it is there for."""

import threading

import pytest
from sqlalchemy import text

from app.ledger.store import Ledger
from app.model.counts import Counts
from app.model.epoch import EpochRecord
from app.model.offsets import Offsets, Position, Span, TopicPartition
from tests import messages as m
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Sent
from tests.messages import Debezium, Message, Table
from tests.oracle import Cursor, Reader, difference, fold, questions
from tests.waiting import eventually

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
TP = TopicPartition("made-up", 0)
d = Debezium()


class MadeUpTopic:
    """As much of a topic as the oracle looks at."""

    def __init__(self, messages: list[Message]) -> None:
        self.sending = threading.RLock()
        self.sent = [
            Sent(message=message, position=Position(*TP, offset), number=offset)
            for offset, message in enumerate(messages)
        ]
        self.ends = {TP: len(messages)}


def row(number: int, value: str = "a") -> dict[str, object]:
    """A row of FLAT."""
    return {"id": number, "v": value}


@pytest.fixture
def topic() -> MadeUpTopic:
    """Four messages, which leave rows 2 and 3."""
    return MadeUpTopic([d.create(FLAT, row(1)), d.create(FLAT, row(2)), d.create(FLAT, row(3)), d.delete(FLAT, row(1))])


def apply(target: Target, end: int, counts: Counts, *statements: str) -> None:
    """What a lane does, by hand."""
    with target.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
        span = Span(start=Offsets.of({TP: 0}), end=Offsets.of({TP: end}))
        epoch = len(target.epochs())
        Ledger(SCHEMA, target.lane).record(
            connection, EpochRecord(lane=target.lane, generation=1, epoch=epoch, span=span, counts=counts)
        )


@pytest.fixture
def done(target: Target, topic: MadeUpTopic) -> Target:
    """A target that has everything."""
    target.create(FLAT)
    apply(target, 4, Counts(consumed=4, applied=3, compacted=1), "insert into flat values (2, 'a'), (3, 'a')")
    return target


def test_the_fold_is_what_the_messages_say_one_after_the_other(topic: MadeUpTopic) -> None:
    assert fold(topic.sent) == {"public.flat": {(2,): row(2), (3,): row(3)}}
    assert fold([]) == {}
    cursor = Cursor()
    assert cursor.move(topic.sent, Offsets.of({TP: 1})) == {"public.flat": {(1,): row(1)}}
    assert len(cursor.move(topic.sent, Offsets.of({TP: 3}))["public.flat"]) == 3
    assert len(cursor.move(topic.sent, Offsets.of({TP: 4}))["public.flat"]) == 2


def test_a_difference_names_keys() -> None:
    same = {(1,): row(1)}
    assert difference("t", same, same) is None
    assert difference("t", {(1,): row(1) | {"own": 5}}, same) is None, "a column that only the target has"
    assert "1 missing" in (difference("t", {}, same) or "")
    assert "1 too many" in (difference("t", same, {}) or "")
    assert "1 different; (1,): found" in (difference("t", {(1,): row(1, "b")}, same) or "")
    assert "1 different" in (difference("t", {(1,): {"id": 1}}, same) or "")


def test_a_good_end_passes(done: Target, topic: MadeUpTopic) -> None:
    questions(done, topic)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("delete from flat where id = 3", "1 missing"),
        ("insert into flat values (9, 'a')", "1 too many"),
        ("update flat set v = 'b' where id = 2", "1 different"),
        ("update surelane.ledger set end_position = jsonb_set(end_position, '{made-up,0}', '3')", "the ledger ends"),
        ("update surelane.ledger set consumed = 3, applied = 2", "4 messages were sent"),
        ("update surelane.ledger set consumed = 5, applied = 4", "4 messages were sent"),
        ("update surelane.ledger set applied = 2, duplicate = 1", "4 messages were sent"),
    ],
)
def test_every_bad_end_is_noticed(statement: str, words: str, done: Target, topic: MadeUpTopic) -> None:
    done.execute(statement)
    with pytest.raises(AssertionError, match=words):
        questions(done, topic)  # pyright: ignore[reportArgumentType]


def test_a_prepared_transaction_that_is_left_is_noticed(done: Target, topic: MadeUpTopic) -> None:
    with done.engine.connect() as connection:
        connection.begin_twophase("surelane:another:1:1").prepare()
        with pytest.raises(AssertionError, match="surelane:another:1:1"):
            questions(done, topic)  # pyright: ignore[reportArgumentType]


def test_a_reader_sees_whole_epochs_and_nothing_else(target: Target, topic: MadeUpTopic) -> None:
    target.create(FLAT)
    reader = Reader(target, topic)  # pyright: ignore[reportArgumentType]
    with reader:
        apply(target, 2, Counts(consumed=2, applied=2), "insert into flat values (1, 'a'), (2, 'a')")
        eventually(lambda: len(reader.positions) == 1, why="the reader to see the first epoch")
        apply(
            target,
            4,
            Counts(consumed=2, applied=2),
            "insert into flat values (3, 'a')",
            "delete from flat where id = 1",
        )
        eventually(lambda: len(reader.positions) == 2, why="the reader to see the second epoch")
    questions(target, topic, reader=reader)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into flat values (3, 'a')",
        "delete from flat where id = 1",
        "update surelane.ledger set end_position = jsonb_set(end_position, '{made-up,0}', '3')",
    ],
)
def test_a_reader_notices_part_of_an_epoch_and_data_without_its_ledger_row(
    statement: str, target: Target, topic: MadeUpTopic
) -> None:
    target.create(FLAT)
    reader = Reader(target, topic)  # pyright: ignore[reportArgumentType]
    apply(target, 2, Counts(consumed=2, applied=2), "insert into flat values (1, 'a'), (2, 'a')")
    reader.look()
    assert reader.mismatch is None
    target.execute(statement)
    reader.look()
    with pytest.raises(AssertionError, match="a reader saw"):
        reader.check()


def test_a_reader_that_never_looked_is_no_witness(target: Target, topic: MadeUpTopic) -> None:
    with pytest.raises(AssertionError, match="never looked"):
        Reader(target, topic).check()  # pyright: ignore[reportArgumentType]


def test_waiting_gives_up_and_says_what_for() -> None:
    with pytest.raises(AssertionError, match="waiting for Godot"):
        eventually(lambda: False, timeout=0.05, why="Godot")


@pytest.mark.parametrize(("looks", "found"), [(8, True), (9, False)])
def test_waiting_is_longer_where_looking_takes_long(looks: int, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks of a second each, which count as half of one; no more than twice the limit in all."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    asked: list[float] = []

    def slow() -> bool:
        clock[0] += 1.0
        asked.append(clock[0])
        return len(asked) > looks

    if found:
        assert eventually(slow, timeout=3.5, why="a slow answer")
        return
    with pytest.raises(AssertionError, match="8 s waiting for a slow answer"):
        eventually(slow, timeout=3.5, why="a slow answer")
