"""A shop whose orders are queried: generated changes, three queries over them, and what Postgres computes of the same
changes."""

import datetime
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from app.config.queries import QuerySettings
from app.spark.state_options import ENCODING, state_options
from tests import messages as m
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table

ORDERS = Table(
    "orders", {"id": m.BIGINT, "customer": m.BIGINT, "amount": m.numeric(12, 2), "note": m.TEXT, "at": m.TIMESTAMPTZ}
)
WINDOW = Table(
    "by_minute",
    {"minute": m.TIMESTAMPTZ, "customer": m.BIGINT, "orders": m.BIGINT, "amount": m.numeric(18, 2)},
    ("minute", "customer"),
    "reports",
)
PAIRS = Table("pairs", {"made": m.BIGINT, "gone": m.BIGINT, "id": m.BIGINT}, ("made", "gone"), "reports")
COUNTS = Table("counts", {"customer": m.BIGINT, "changes": m.BIGINT}, ("customer",), "reports")

#: what the lane's tests add to their configuration
QUERIES: Mapping[str, Any] = {
    "by_minute": {
        "changes": ["public.orders"],
        "sql": "select window.start as minute, after.customer as customer, count(*) as orders,"
        " sum(after.amount) as amount from changes_of_orders where op in ('c', 'u')"
        " group by window(ts, '1 minute'), after.customer",
        "table": "reports.by_minute",
    },
    "pairs": {
        "changes": {"public.orders": {"watermark": "1 hour"}},
        "function": "tests.queries:pairs",
        "table": "reports.pairs",
    },
    "counts": {
        "changes": ["public.orders"],
        "function": "tests.queries:counts",
        "table": "reports.counts",
    },
}
#: each change of a row, for sinks other than a table
LINES: Mapping[str, Any] = {
    "changes": ["public.orders"],
    "sql": "select coalesce(after.id, before.id) as id, after.customer as customer, after.amount as amount,"
    " after.note as note, after.at as at, offset, op = 'd' as gone from changes_of_orders",
}
#: the same by Postgres, of the table `seen` (see `Shop.batch`)
BATCHES = {
    "by_minute": "select date_trunc('minute', ts) as minute, customer, count(*) as orders, sum(amount) as amount"
    " from seen where op in ('c', 'u') group by 1, 2",
    "pairs": 'select a."offset" as made, b."offset" as gone, a.id from seen a join seen b on a.id = b.id'
    " and b.op = 'd' and a.op = 'c' and b.ts between a.ts and a.ts + interval '1 minute'",
    "counts": "select customer, count(*) as changes from seen where op <> 'd' group by 1",
}
TABLES = {"by_minute": WINDOW, "pairs": PAIRS, "counts": COUNTS}


def pairs(changes: DataFrame) -> DataFrame:
    """Orders that were deleted within a minute: a join of two streams."""
    made = changes.where("op = 'c'").selectExpr("after.id as id", "ts as made_at", "offset as made")
    gone = changes.where("op = 'd'").selectExpr("before.id as gone_id", "ts as gone_at", "offset as gone")
    within = "id = gone_id and gone_at >= made_at and gone_at <= made_at + interval 1 minute"
    return made.join(gone, on=_condition(within)).select("made", "gone", "id")


def _condition(sql: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(sql)


class Counting(StatefulProcessor):
    """Counts the changes of a customer, without an aggregate."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", StructType([StructField("n", LongType())]))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        del timerValues
        before = self._count.get()
        now = (before[0] if before is not None else 0) + sum(1 for _ in rows)
        self._update(now)
        yield Row(customer=key[0], changes=now)

    def _update(self, count: int) -> None:
        self._count.update((count,))

    def close(self) -> None:
        """Nothing is open."""


class CountingMore(Counting):
    """The same, with another column of the state's value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        columns = [StructField("n", LongType()), StructField("more", StringType())]
        self._count = handle.getValueState("count", StructType(columns))

    def _update(self, count: int) -> None:
        self._count.update((count, "more"))


class CountingInText(Counting):
    """The same, with another type of it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", StructType([StructField("n", StringType())]))


def counts(changes: DataFrame) -> DataFrame:
    """Changes of each customer, by `transformWithState`."""
    return _counted(changes, Counting())


def counts_and_more(changes: DataFrame) -> DataFrame:
    """The same result."""
    return _counted(changes, CountingMore())


def counts_in_text(changes: DataFrame) -> DataFrame:
    """Only to be planned."""
    return _counted(changes, CountingInText())


def _counted(changes: DataFrame, counting: StatefulProcessor) -> DataFrame:
    kept = changes.where("op <> 'd'").selectExpr("after.customer as customer")
    shape = StructType([StructField("customer", LongType()), StructField("changes", LongType())])
    return kept.groupBy("customer").transformWithState(counting, shape, "Update", "None")


def with_options(spark: SparkSession, **state: Any) -> Iterator[None]:
    """Inside, the session has the options of a query with this state."""
    query = QuerySettings.model_validate({**QUERIES["by_minute"], "state": state})
    before: dict[str, str | None] = {}
    for name, value in {**state_options(query.state), ENCODING: "unsaferow"}.items():
        before[name] = spark.conf.get(name, None)
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@dataclass
class Shop:
    """Makes changes of orders, and remembers them for Postgres."""

    target: Target
    topic: Topic
    seed: int
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: op, ts_ms and row of each message
    seen: list[tuple[str, int, int, Mapping[str, Any]]] = field(default_factory=list)
    debezium: Debezium = field(default_factory=Debezium)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        #: changes that the table `seen` has
        self._filled = 0
        #: query and positions of the last look of a reader, and what it may see there
        self._asked_for: tuple[str, tuple[int, ...]] = ("", ())
        self._possible: list[list[tuple[Any, ...]]] = []

    def prepare(self) -> None:
        """The tables."""
        self.target.create(ORDERS)
        self.target.create_schema("reports")
        self.target.create(*TABLES.values())

    def send(self, count: int) -> None:
        """So many generated changes."""
        messages: list[Message] = []
        made: list[tuple[str, int, Mapping[str, Any]]] = []
        while len(messages) < count:
            # some come late, by up to half an hour
            self.debezium.ts_ms += self.random.randrange(20_000)
            late = self.random.randrange(1_800_000) if self.random.random() < 0.05 else 0
            self.debezium.ts_ms -= late
            for op, message, row in self._change():
                messages.append(message)
                made.append((op, self._ts(message), row))
            self.debezium.ts_ms += late
        for one, (op, ts, row) in zip(self.topic.send(messages), made, strict=True):
            if op:
                self.seen.append((op, ts, one.position.offset, row))

    def forget_before(self, offset: int) -> None:
        """Leave out the changes before this offset."""
        self.seen = [one for one in self.seen if one[2] >= offset]
        self.target.execute("drop table if exists seen")
        self._filled = 0

    def fill_seen(self) -> None:
        """Have the table `seen` of the target contain all changes."""
        self.target.execute(
            'create table if not exists seen (op text, ts timestamptz, "offset" bigint, id bigint, customer bigint,'
            " amount numeric)"
        )
        with self.target.engine.begin() as connection:
            for op, ts, offset, row in self.seen[self._filled :]:
                values = (op, ts / 1000, offset, row["id"], row.get("customer"), row.get("amount"))
                connection.exec_driver_sql("insert into seen values (%s, to_timestamp(%s), %s, %s, %s, %s)", values)
        self._filled = len(self.seen)

    def batch(self, query: str) -> list[tuple[Any, ...]]:
        """The result as Postgres computes it at once of all changes."""
        self.fill_seen()
        return sorted(tuple(row) for row in self.target.execute(BATCHES[query]))

    def expected(self, query: str, *positions: int) -> list[tuple[Any, ...]]:
        """The result of the messages before a position, or of two streams before their positions, in Python."""
        before = [one for one in self.seen if one[2] < positions[0]]
        if query == "pairs":
            made = {row["id"]: (ts, offset) for op, ts, offset, row in before if op == "c"}
            deleted = [one for one in self.seen if one[0] == "d" and one[2] < positions[-1]]
            gone = [(made[row["id"]], ts, offset, row["id"]) for _, ts, offset, row in deleted if row["id"] in made]
            return sorted((at[1], offset, key) for at, ts, offset, key in gone if 0 <= ts - at[0] <= 60_000)
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for op, ts, _, row in before:
            minute = datetime.datetime.fromtimestamp(ts // 60_000 * 60, datetime.UTC)
            if query == "by_minute" and op in ("c", "u"):
                groups.setdefault((minute, row["customer"]), []).append(row["amount"])
            elif query == "counts" and op != "d":
                groups.setdefault((row["customer"],), []).append(1)
        if query == "counts":
            return sorted((*key, len(rows)) for key, rows in groups.items())
        return sorted((*key, len(rows), sum(rows)) for key, rows in groups.items())

    def half_seen(self, query: str, lane: str) -> str | None:
        """One look of a reader: what it sees that is no epoch's end; None: the result of exactly what is applied."""
        table = TABLES[query]
        position, rows = self.target.snapshot([table.full_name], lane)
        if not position:
            return None
        found = sorted(tuple(row[name] for name in table.columns) for row in rows[table.full_name].values())
        ends = tuple(position.values())
        if (query, ends) != self._asked_for:
            # which of the two streams is the first is Spark's choice
            self._possible = [self.expected(query, *order) for order in {ends, ends[::-1]}]
            self._asked_for = query, ends
        possible = self._possible
        return None if found in possible else f"at {position}: {len(found)} rows, {len(possible[0])} expected"

    def result(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of the query's table."""
        table = TABLES[query]
        names = ", ".join(f'"{name}"' for name in table.columns)
        return sorted(tuple(row) for row in self.target.execute(f"select {names} from {table.quoted}"))

    def _change(self) -> list[tuple[str, Message, Mapping[str, Any]]]:
        what = self.random.random()
        known = list(self.rows)
        if not known or what < 0.5:
            row = self._row(self.random.randrange(1_000_000))
            if row["id"] in self.rows:
                return []
            self.rows[row["id"]] = row
            return [("c", self.debezium.create(ORDERS, row), row)]
        old = self.rows[self.random.choice(known)]
        if what < 0.75:
            row = self._row(old["id"])
            self.rows[old["id"]] = row
            return [("u", self.debezium.update(ORDERS, row), row)]
        del self.rows[old["id"]]
        if what < 0.9:
            gone = self.debezium.delete(ORDERS, old)
            return [("d", gone, old), ("", self.debezium.tombstone(ORDERS, old), old)]
        row = self._row(self.random.randrange(1_000_000, 2_000_000))
        self.rows[row["id"]] = row
        return list(zip(("d", "", "c"), self.debezium.rekey(ORDERS, old, row), (old, old, row), strict=True))

    def _row(self, number: int) -> dict[str, Any]:
        at = datetime.datetime.fromtimestamp(self.debezium.ts_ms // 1000, datetime.UTC)
        return {
            "id": number,
            "customer": self.random.randrange(7),
            "amount": Decimal(self.random.randrange(100_000)) / 100,
            "note": self.random.choice([None, "", 'a "quoted" text, with \n a line']),
            "at": at,
        }

    def _ts(self, message: Message) -> int:
        import json

        return json.loads(message.value)["source"]["ts_ms"] if message.value else 0
