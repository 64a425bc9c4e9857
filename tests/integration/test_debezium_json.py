"""Debezium's messages through the whole lane, with schema envelope and without: every value arrives as it was."""

import datetime
import uuid
from decimal import Decimal

import pytest

from tests import messages as m
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.workload import TABLES, Shop

EVERY = Table(
    "every type",
    {
        "id": m.BIGINT,
        "small": m.SMALLINT,
        "whole": m.INT,
        "text": m.TEXT,
        "yes": m.BOOL,
        "one bit": m.BIT,
        "bits": m.bits(10),
        "half": m.REAL,
        "double": m.DOUBLE,
        "money": m.numeric(20, 4),
        "any": m.NUMERIC,
        "day": m.DATE,
        "at": m.TIMESTAMP,
        "at ms": m.TIMESTAMP_MS,
        "at tz": m.TIMESTAMPTZ,
        "time": m.TIME,
        "time ms": m.TIME_MS,
        "span": m.INTERVAL,
        "raw": m.BYTEA,
        "uuid": m.UUID,
        "json": m.JSONB,
        "ints": m.INTS,
        "texts": m.TEXTS,
        "point": m.POINT,
    },
)
FULL = {
    "id": 2**63 - 1,
    "small": -32768,
    "whole": 2**31 - 1,
    "text": "tab\tline\nback\\slash \\N 🦀 'quote' \"quote\"",
    "yes": True,
    "one bit": "1",
    "bits": "1000000001",
    "half": 0.5,
    "double": 0.1,
    "money": Decimal("-1234567890123456.7891"),
    "any": Decimal("12345678901234567890.123456789"),
    "day": datetime.date(1969, 12, 31),
    "at": datetime.datetime(2024, 2, 29, 23, 59, 59, 999999),
    "at ms": datetime.datetime(1900, 1, 1, 0, 0, 0, 1000),
    "at tz": datetime.datetime(2024, 12, 31, 23, 59, 59, 123456, datetime.UTC),
    "time": datetime.time(23, 59, 59, 999999),
    "time ms": datetime.time(0, 0, 0, 1000),
    "span": datetime.timedelta(days=-1, microseconds=1),
    "raw": bytes(range(256)),
    "uuid": uuid.UUID(int=1),
    "json": {"a": [1, None, "x\\y"], "b": {"c": "\t"}},
    "ints": [1, None, -3],
    "texts": ["a,b", None, '"', "\\", "{}"],
    "point": "(1.5,-2)",
}
#: texts of Debezium's own messages are as short as this
EMPTY = dict.fromkeys(FULL) | {"id": 1}


@pytest.mark.parametrize("envelope", [False, True], ids=["bare", "envelope"])
def test_every_type_arrives_as_it_was(envelope: bool, lane: MakeLane, target: Target, topic: Topic) -> None:
    """As initial snapshot, insert, update to and from null, and delete."""
    target.create(EVERY)
    d = Debezium(envelope=envelope)
    made = lane("two-phase", epoch={"max_messages": 4})
    topic.send(
        [
            d.read(EVERY, FULL),
            d.create(EVERY, EMPTY),
            d.update(EVERY, FULL | {"id": 1}, EMPTY),
            d.create(EVERY, FULL | {"id": 2}),
            d.update(EVERY, EMPTY | {"id": 2}, FULL | {"id": 2}),
            d.create(EVERY, FULL | {"id": 3}),
            d.delete(EVERY, FULL | {"id": 3}),
            d.tombstone(EVERY, FULL | {"id": 3}),
        ]
    )
    made.run_until_caught_up()
    questions(target, topic)
    assert target.rows("public.every type")[2**63 - 1,] == FULL


def test_a_workload_with_envelope(lane: MakeLane, target: Target, topic: Topic) -> None:
    """Keys are enveloped too, and every kind of message is tolerated in between."""
    target.create(*TABLES)
    shop = Shop(seed=5, envelope=True)
    topic.send([*shop.messages(200), shop.debezium.schema_change(TABLES[0]), *shop.messages(100)])
    lane("ledger", epoch={"max_messages": 150}).run_until_caught_up()
    questions(target, topic)


def test_the_schema_may_change_on_the_way(lane: MakeLane, target: Target, topic: Topic) -> None:
    """Another scale, another column, no envelope any more: each message is read by its own schema."""
    old = Table("item", {"id": m.INT, "price": m.numeric(12, 2)})
    new = Table("item", {"id": m.INT, "price": m.numeric(12, 4), "name": m.TEXT})
    target.create(Table("item", {"id": m.INT, "price": m.NUMERIC, "name": m.TEXT}))
    enveloped, bare = Debezium(envelope=True), Debezium()
    topic.send(
        [
            enveloped.create(old, {"id": 1, "price": Decimal("1.50")}),
            enveloped.create(old, {"id": 2, "price": Decimal("2.50")}),
            enveloped.update(new, {"id": 1, "price": Decimal("1.2345"), "name": "x"}),
            bare.create(new, {"id": 3, "price": Decimal("3.0001"), "name": "y"}),
            bare.create(new, {"id": 4, "price": Decimal("4.0"), "name": None}),
        ]
    )
    lane("ledger").run_until_caught_up()
    prices = {key: row["price"] for (key,), row in target.rows("public.item").items()}
    assert prices == {1: Decimal("1.2345"), 2: Decimal("2.50"), 3: Decimal("3.0001"), 4: Decimal("4.0")}
