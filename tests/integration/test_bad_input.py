"""What a lane cannot apply: the error says what, where and what to do; nothing of the epoch is applied; and after the
fix the lane goes on at the very same place."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from app.config.settings import CommitMode
from app.errors import BadMessage, ExitStatus, SurelaneError, TargetMismatch
from tests import messages as m
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.oracle import questions

ITEM = Table("item", {"id": m.INT, "name": m.TEXT, "price": m.numeric(6, 2)})
WIDE = Table("item", {**ITEM.columns, "colour": m.TEXT})
OTHER = Table("other", {"id": m.INT, "note": m.TEXT})
DDL = "create table item (id int primary key, name varchar(10) not null, price numeric(6,2))"

d = Debezium()
STOP = {"on_skip": "stop"}


def item(number: int, **more: object) -> dict[str, object]:
    """A row of ITEM."""
    return {"id": number, "name": f"item {number}", "price": None, **more}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of bad input."""

    message: Message
    error: type[SurelaneError]
    #: what the message has to say besides lane and position
    says: tuple[str, ...]
    #: what the operator does; None: only the message itself is to blame
    fix: str | None = None


CASES = {
    "an unknown table": Case(
        message=d.create(OTHER, {"id": 1, "note": "x"}),
        error=TargetMismatch,
        says=("public.other", "does not exist", "unknown_table: ignore"),
        fix=OTHER.ddl,
    ),
    "a table without primary key": Case(
        message=d.create(Table("keyless", ITEM.columns), item(1)),
        error=TargetMismatch,
        says=("public.keyless", "no primary key", "alter table public.keyless add primary key"),
        fix="alter table keyless add primary key (id)",
    ),
    "a missing column": Case(
        message=d.create(WIDE, item(7, colour="red")),
        error=TargetMismatch,
        says=("public.item", "no column colour", 'alter table "public"."item" add column if not exists "colour"'),
        fix="alter table item add column colour text",
    ),
    "a value that is too long": Case(
        message=d.create(ITEM, item(7, name="x" * 11)),
        error=BadMessage,
        says=("public.item", "value too long", "SQLSTATE 22001"),
        fix="alter table item alter name type text",
    ),
    "a number that is too large": Case(
        message=d.create(ITEM, item(2**31, name="large")),
        error=BadMessage,
        says=("public.item", "out of range", "SQLSTATE 22003"),
        fix="alter table item alter id type bigint",
    ),
    "NOT NULL": Case(
        message=d.create(ITEM, item(7, name=None)),
        error=BadMessage,
        says=("public.item", "null value in column", "SQLSTATE 23502"),
        fix="alter table item alter name drop not null",
    ),
    "a foreign key that the source does not have": Case(
        message=d.create(Table("part", {"id": m.INT, "item": m.INT}), {"id": 1, "item": 99}),
        error=BadMessage,
        says=("public.part", "foreign key constraint", "SQLSTATE 23503"),
        fix="alter table part drop constraint part_item_fkey",
    ),
    "malformed JSON": Case(
        message=Message(key=b'{"id":7}', value=b'{"op":"c","after":{"id":7'),
        error=BadMessage,
        says=("not a Debezium change event in JSON",),
    ),
    "invalid UTF-8": Case(
        message=Message(key=b'{"id":7}', value=b'{"op":"c","after":{"id":7,"name":"\xff"}}'),
        error=BadMessage,
        says=("not a Debezium change event in JSON",),
    ),
    "a NUL character": Case(
        message=d.create(ITEM, item(7, name="a\0b")),
        error=BadMessage,
        says=("public.item", "0x00"),
    ),
}
#: shared out among the cases: what becomes of bad input depends on the mode as little as possible
MODES = (CommitMode.TWO_PHASE, CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE)


@pytest.mark.costly(5)
@pytest.mark.parametrize(("name", "mode"), [(name, MODES[at % len(MODES)]) for at, name in enumerate(CASES)])
def test_the_lane_stops_before_it_says_where_and_goes_on_there_after_the_fix(
    name: str, mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    case, made = CASES[name], lane(mode, epoch={"max_messages": 4}, guard=STOP)
    target.execute(DDL)
    target.execute("create table keyless (id int, name text, price numeric(6,2))")
    target.execute("create table part (id int primary key, item int references item)")
    good = topic.send([d.create(ITEM, item(number)) for number in range(1, 5)])
    sent = topic.send([d.update(ITEM, item(1)), d.create(ITEM, item(5)), case.message, d.create(ITEM, item(6))])

    with pytest.raises(case.error) as refused:
        made.run_until_caught_up()
    words = str(refused.value)
    for word in (made.name, str(sent[2].position), "what to do", *case.says):
        assert word in words
    assert list(target.position().values()) == [len(good)]
    assert sorted(target.rows("public.item")) == [(1,), (2,), (3,), (4,)]
    assert target.prepared() == []

    if case.fix is None:
        return
    target.execute(case.fix)
    topic.send([d.update(ITEM, item(6)), d.delete(ITEM, item(2))])
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once)


def test_starting_again_without_a_fix_changes_nothing(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.execute(DDL)
    made = lane("two-phase", guard=STOP)
    topic.send([d.create(ITEM, item(1)), d.create(ITEM, item(2, name=None))])
    for _ in range(3):
        with pytest.raises(BadMessage, match=re.escape(f"{topic.name}[0]@1")):
            made.run_until_caught_up()
        assert list(target.position().values()) == [0]
        assert target.prepared() == []
    assert made.checkpoint_files.planned() == [0], "the same epoch each time"


def test_a_running_lane_that_meets_a_bad_message_stops_and_leaves_its_words(
    lane: MakeLane, target: Target, topic: Topic
) -> None:
    """In the ledger, where `status` finds them; health says no."""
    target.execute(DDL)
    made = lane("two-phase", guard=STOP)
    topic.send([d.create(ITEM, item(1))])
    made.start()
    made.until_caught_up(topic)
    assert made.health.ready().ok
    topic.send([Message(key=None, value=b"hello")])
    error = made.join()
    assert isinstance(error, BadMessage)
    assert error.exit_status is ExitStatus.BAD_MESSAGE
    assert not made.health.ready().ok
    (row,) = target.execute("select state, last_error from surelane.lane_state")
    assert tuple(row) == ("failed", str(error))
    assert target.prepared() == []


def test_an_unknown_table_can_be_ignored(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.execute(DDL)
    topic.send(
        [
            d.create(OTHER, {"id": 1, "note": "x"}),
            d.create(ITEM, item(1)),
            d.delete(OTHER, {"id": 1, "note": "x"}),
            d.truncate(OTHER),
            d.create(replace(OTHER, schema="elsewhere"), {"id": 1, "note": "x"}),
        ]
    )
    lane("two-phase", target={"unknown_table": "ignore"}).run_until_caught_up()
    assert sorted(target.rows("public.item")) == [(1,)]
    total = target.ledger_sum()
    assert (total.consumed, total.applied, total.filtered) == (5, 1, 4)


def _without(member: str) -> Callable[[bytes], bytes]:
    def strip(value: bytes) -> bytes:
        return json.dumps({name: part for name, part in json.loads(value).items() if name != member}).encode()

    return strip


def test_messages_of_an_incomplete_connector_still_mean_what_they_say(
    lane: MakeLane, target: Target, topic: Topic
) -> None:
    """Without `before`, `ts_ms` and `transaction`, which transformations may take away."""
    target.execute(DDL)
    sent = [
        d.create(ITEM, item(1)),
        d.update(ITEM, item(1, name="new")),
        d.create(ITEM, item(2)),
        d.delete(ITEM, item(2)),
    ]
    for member in ("before", "ts_ms", "transaction"):
        sent = [replace(one, value=_without(member)(one.value or b"")) for one in sent]
    topic.send(sent)
    lane("ledger").run_until_caught_up()
    questions(target, topic)
