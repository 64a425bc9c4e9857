"""Tables that change at the source while the lane runs: it follows, or stops with the DDL to run; nothing is lost."""

import datetime
from dataclasses import replace

import pytest

from app.apply.evolution import type_of
from app.config.settings import CommitMode
from app.errors import TargetMismatch
from tests import messages as m
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
NEW = {
    "a b": m.BIGINT,
    "n": m.NUMERIC,
    "d": m.DATE,
    "at": m.TIMESTAMP,
    "zoned": m.TIMESTAMPTZ,
    "yes": m.BOOL,
    "bytes": m.BYTEA,
    "j": m.JSONB,
    "u": m.UUID,
    "numbers": m.INTS,
    "texts": m.TEXTS,
}
MORE = replace(FLAT, columns={**FLAT.columns, **NEW})


@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
def test_columns_are_added_while_it_runs(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    target.give("public.flat")
    source = Debezium(envelope=True)
    made = lane(mode, target={"schema_evolution": "add-columns"})
    topic.send([source.create(FLAT, {"id": 1, "v": "before"})])
    made.start()
    made.until_caught_up(topic)
    row = {"id": 2, "v": "after", "a b": 2**40, "d": datetime.date(2020, 2, 29), "yes": True, "numbers": [1, None]}
    topic.send([source.create(MORE, row), source.update(MORE, {"id": 1, "v": "then", "texts": ["x"], "bytes": b"\0"})])
    made.until_caught_up(topic)
    made.stop()
    found = target.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute"
        " where attrelid = 'flat'::regclass and attnum > 2 order by attnum"
    )
    types = ["bigint", "numeric", "date", "timestamp without time zone", "timestamp with time zone", "boolean", "bytea"]
    assert found == list(zip(NEW, [*types, "jsonb", "uuid", "integer[]", "text[]"], strict=True))
    questions(target, topic, exactly_once=made.exactly_once)


def test_it_stops_with_the_ddl_and_goes_on_after_it(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    source = Debezium(envelope=True)
    wider = replace(FLAT, columns={**FLAT.columns, "more": m.TIMESTAMP_MS})
    topic.send([source.create(FLAT, {"id": 1, "v": "x"}), source.create(wider, {"id": 2, "v": "y", "more": None})])
    made = lane("two-phase", epoch={"max_messages": 1})
    with pytest.raises(TargetMismatch, match="has no column more") as caught:
        made.run_until_caught_up()
    ddl = str(caught.value.hint).partition(";")[0]
    assert ddl == 'alter table "public"."flat" add column if not exists "more" timestamp(3)'
    assert sorted(target.rows("public.flat")) == [(1,)]
    target.execute(ddl)
    made.run_until_caught_up()
    questions(target, topic)


def test_a_wider_number_stops_with_the_ddl_and_goes_on_after_it(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    source = Debezium(envelope=True)
    wider = replace(FLAT, columns={"id": m.BIGINT, "v": m.TEXT})
    topic.send([source.create(FLAT, {"id": 1, "v": "x"}), source.create(wider, {"id": 2**40, "v": "y"})])
    made = lane("ledger", target={"schema_evolution": "add-columns"})
    with pytest.raises(TargetMismatch, match="do not hold every value") as caught:
        made.run_until_caught_up()
    ddl = str(caught.value.hint).partition(";")[0]
    assert ddl == 'alter table "public"."flat" alter column "id" type bigint'
    target.execute(ddl)
    made.run_until_caught_up()
    questions(target, topic)


def test_what_is_missing_can_be_ignored(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    wider = replace(FLAT, columns={"id": m.BIGINT, "v": m.TEXT, "more": m.INT})
    topic.send([Debezium(envelope=True).create(wider, {"id": 1, "v": "x", "more": 1})])
    lane("two-phase", target={"schema_evolution": "ignore"}).run_until_caught_up()
    assert target.rows("public.flat") == {(1,): {"id": 1, "v": "x"}}


def test_without_a_schema_the_type_is_unknown(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    wider = replace(FLAT, columns={**FLAT.columns, "more": m.INT})
    topic.send([Debezium(envelope=False).create(wider, {"id": 1, "v": "x", "more": 1})])
    with pytest.raises(TargetMismatch, match="has no column more") as caught:
        lane("two-phase", target={"schema_evolution": "add-columns"}).run_until_caught_up()
    assert 'add column if not exists "more" ...' in str(caught.value.hint)


@pytest.mark.parametrize(
    ("source", "length", "scale", "expected"),
    [
        ("VARCHAR", "20", None, "varchar(20)"),
        ("VARCHAR", "2147483647", None, "varchar"),
        ("NUMERIC", "10", "2", "numeric(10,2)"),
        ("NUMERIC", "0", "0", "numeric"),
        ("NUMERIC", "131089", "0", "numeric"),
        ("BIGSERIAL", "19", "0", "int8"),
        ("INT4; drop table flat", None, None, None),
        ("VARCHAR", "1) collate evil", None, "varchar"),
        ("_INT4", "10", None, "int4[]"),
        ("CITEXT", None, None, "citext"),
    ],
)
def test_the_type_that_the_connector_sends(
    source: str, length: str | None, scale: str | None, expected: str | None
) -> None:
    column = {"type": source, "length": length, "scale": scale}
    parameters = {f"__debezium.source.column.{name}": value for name, value in column.items() if value is not None}
    assert type_of({"type": "string", "parameters": parameters}) == expected
