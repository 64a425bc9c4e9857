"""Points in time of long spans, which compiled code reads before Postgres would: the target has the same."""

import datetime
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.stage.span_reading import WORTH_BLOCKS
from tests.fix_lane import MakeLane
from tests.fix_target import OWNER, Target
from tests.fix_topic import Topic
from tests.messages import INT, TEXT, TIMESTAMP, TIMESTAMP_MS, TIMESTAMPTZ, Debezium, Message, Row, Table
from tests.oracle import questions

#: of each of so many things many rows
THINGS = 50
#: a domain that refuses NULL
MOMENT = replace(TIMESTAMPTZ, sql="moment")
#: a point in time in the key, and one of each kind beside it
TIMED = Table(
    "timed",
    {"id": INT, "at": TIMESTAMPTZ, "v": TEXT, "z": TIMESTAMPTZ, "t": TIMESTAMP, "m": TIMESTAMP_MS, "d": MOMENT},
    key=("id", "at"),
)
UTC = datetime.UTC
#: both sides of what a floating-point number has exactly
FAR = [datetime.datetime(year, 6, 5, 23, 47, 34, 740_993, UTC) for year in (1684, 1969, 2255, 2256, 9999)]


def moment(chance: random.Random) -> datetime.datetime:
    if chance.random() < 0.01:
        return chance.choice(FAR)
    seconds = datetime.timedelta(seconds=chance.randrange(10**9))
    return datetime.datetime(2000, 1, 1, tzinfo=UTC) + seconds + chance.choice([0, 1]) * datetime.timedelta(0, 0, 123)


def row(chance: random.Random, number: int) -> Row:
    local = [moment(chance).replace(tzinfo=None) for _ in range(2)]
    local[1] = local[1].replace(microsecond=local[1].microsecond // 1000 * 1000)
    values = [moment(chance), *local]
    values = [None if chance.random() < 0.02 else value for value in values]
    at = datetime.datetime(2020, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=number, microseconds=number % 7)
    named = {**dict(zip("ztm", values, strict=True)), "d": moment(chance)}
    return {"id": number % THINGS, "at": at, "v": "a\tb" if number % 5 else None, **named}


def changes(chance: random.Random) -> list[Message]:
    """So many that they are one long span: each row is written, and some are deleted or written again."""
    d, rows = Debezium(), [row(chance, number) for number in range(WORTH_BLOCKS // 2)]
    again = [
        d.delete(TIMED, one) if chance.random() < 0.1 else d.update(TIMED, {**row(chance, index), "at": one["at"]})
        for index, one in enumerate(rows)
    ]
    return [*(d.create(TIMED, one) for one in rows), *again]


@pytest.mark.parametrize(
    "tables", [{}, {"history": {"public.timed": {"table": "reports.versions"}}}], ids=["plain", "history"]
)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "not-compiled"])
def test_times_of_a_long_span(
    compiled: bool, tables: Mapping[str, Any], lane: MakeLane, target: Target, topic: Topic
) -> None:
    """In the key, too, of a domain, and where source time and position are staged with them; and of a short span."""
    target.execute("create domain moment as timestamptz not null check (value is not null)")
    target.create(TIMED)
    target.create_schema("reports")
    target.execute(f"grant create on schema reports to {OWNER}")
    chance = random.Random(5)
    topic.send(changes(chance))
    made = lane(
        "two-phase",
        epoch={"max_messages": WORTH_BLOCKS},
        source={"compiled": compiled},
        stage={"tasks": 1},
        target=tables,
    )
    made.start()
    made.until_caught_up(topic)
    read, left = staged(target)
    topic.send([Debezium().update(TIMED, row(chance, number)) for number in range(THINGS)])
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)
    if tables:
        open_ones = "select id, at, z, t, m, d from reports.versions where valid_to is null order by 1, 2"
        assert target.execute(open_ones) == target.execute("select id, at, z, t, m, d from timed order by 1, 2")
    assert bool(read) == compiled
    assert left, "some are not exact"


def staged(target: Target) -> tuple[int, int]:
    """How many times of column z are staged as numbers, and as texts: rows stay until their table is lent again."""
    found = target.execute("""
        select table_name, max(column_name) from information_schema.columns
        where table_schema = 'surelane' and column_name = 'surelane_micros_3' group by 1
    """)
    count = "select count({}), count(z) from surelane.{}"
    counts: list[Any] = [target.execute(count.format(column, f'"{table}"'))[0] for table, column in map(tuple, found)]
    return sum(one[0] for one in counts), sum(one[1] for one in counts)
