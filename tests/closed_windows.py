"""Windows that the watermark closes, by an aggregate of Spark and by timers of `transformWithState`. Which messages
come too late depends on where epochs end, so the batch asks the ledger."""

import datetime
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from tests import messages as m
from tests.messages import Table
from tests.queries import Shop

QUERY = "closed"
#: less than the delay of some of the shop's messages, more than that of others
DELAY = datetime.timedelta(minutes=10)
TABLE = Table(
    "closed",
    {"minute": m.TIMESTAMPTZ, "customer": m.BIGINT, "changes": m.BIGINT, "amount": m.numeric(18, 2)},
    ("minute", "customer"),
    "reports",
)
#: no filter: Spark's optimizer may have the watermark see only what passes it
_CONFIG: Mapping[str, Any] = {
    "changes": {"public.orders": {"watermark": f"{int(DELAY.total_seconds())} seconds"}},
    "sql": "select window.start as minute, coalesce(after.customer, -1) as customer, count(*) as changes,"
    " sum(after.amount) as amount from changes_of_orders group by window(ts, '1 minute'), coalesce(after.customer, -1)",
    "table": "reports.closed",
    "output": "append",
    "max_messages": 40,
}
AGGREGATE, TIMERS = "aggregate", "timers"
#: configurations of the query
WAYS: Mapping[str, Mapping[str, Any]] = {
    AGGREGATE: _CONFIG,
    TIMERS: {
        **{name: value for name, value in _CONFIG.items() if name != "sql"},
        "function": "tests.closed_windows:by_timers",
    },
}
#: which time makes a message too late, once the watermark of the epoch before has reached it: an aggregate looks at the
#: window's end, `transformWithState` at the message's own time
_LATE_BY = {AGGREGATE: "ended", TIMERS: "ts"}
#: the watermark of an epoch comes from the epochs before it; too late is what was closed before the last of these
_BATCH = """
with epochs as (
    select distinct on (epoch) epoch, (start_position -> :topic ->> '0')::bigint as first,
        (end_position -> :topic ->> '0')::bigint as behind
    from surelane.ledger where lane = :lane and epoch >= 0 order by epoch, generation desc
), read as (
    select epoch, ts, date_trunc('minute', ts) + interval '1 minute' as ended,
        case when op = 'd' then -1 else customer end as customer, case when op <> 'd' then amount end as amount
    from epochs left join seen on "offset" >= first and "offset" < behind
), newest as (
    select epoch, max(max(ts)) over (order by epoch) - cast(:delay as interval) as mark from read group by epoch
), marks as (
    select epoch, lag(mark) over (order by epoch) as mark, lag(mark, 2) over (order by epoch) as before from newest
), batch as (
    select ended - interval '1 minute' as minute, customer, count(*) as changes, sum(amount)::numeric(18, 2) as amount
    from read join marks using (epoch)
    where ts is not null and (before is null or {late_by} > before) and ended <= (select max(mark) from marks)
    group by ended, customer
), late as (select 1 from read join marks using (epoch) where {late_by} <= before),
    empty as (select 1 from epochs where first = behind)
"""
_DIFFERENCE = """
select 'missing' as what, * from (select * from batch except select * from reports.closed) as missing
union all select 'wrong', * from (select * from reports.closed except select * from batch) as wrong
"""
_COUNTED = " select (select count(*) from batch), (select count(*) from late), (select count(*) from empty)"
_COUNT = StructType([StructField("changes", LongType()), StructField("amount", DecimalType(18, 2))])


class Windowing(StatefulProcessor):
    """Counts the changes of a minute and a customer, and gives them when the watermark has passed the minute's end."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("window", _COUNT)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        del timerValues
        before = self._state.get()
        changes, amount = before if before is not None else (0, None)
        if before is None:
            self._handle.registerTimer(key[0])
        for row in rows:
            changes += 1
            amount = amount if row["amount"] is None else row["amount"] + (amount or Decimal(0))
        self._state.update((changes, amount))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        del timerValues
        assert expiredTimerInfo.getExpiryTimeInMs() == key[0]
        found = self._state.get()
        assert found is not None, "it has a timer"
        self._state.clear()
        yield Row(ended=key[0], customer=key[1], changes=found[0], amount=found[1])

    def close(self) -> None:
        """Nothing is open."""


def by_timers(changes: DataFrame) -> DataFrame:
    """The windows, by `transformWithState`."""
    rows = changes.selectExpr(
        "unix_millis(date_trunc('minute', ts)) + 60000 as ended",
        "coalesce(after.customer, -1) as customer",
        "after.amount as amount",
        "ts",
    )
    shape = StructType([StructField("ended", LongType()), StructField("customer", LongType()), *_COUNT.fields])
    closed = rows.groupBy("ended", "customer").transformWithState(Windowing(), shape, "Append", "EventTime")
    return closed.selectExpr("timestamp_millis(ended - 60000) as minute", "customer", "changes", "amount")


class ClosedWindows:
    """A shop, and its windows by Postgres."""

    def __init__(self, shop: Shop, lane: str, way: str = AGGREGATE) -> None:
        self._shop, self._target = shop, shop.target
        self._batch = _BATCH.format(late_by=_LATE_BY[way])
        self._names = {"lane": lane, "topic": shop.topic.name, "delay": f"{DELAY.total_seconds()} seconds"}

    def prepare(self) -> None:
        self._shop.prepare()
        self._target.create(TABLE)
        self._shop.fill_seen()

    def send(self, count: int) -> None:
        """So many generated changes; what reads them must not run."""
        self._shop.send(count)
        self._shop.fill_seen()

    def difference(self) -> list[tuple[Any, ...]]:
        """Rows that the table lacks or should not have, for what the ledger has: one look of a reader."""
        return [tuple(row) for row in self._target.execute(self._batch + _DIFFERENCE, **self._names)]

    def counted(self) -> tuple[int, int, int]:
        """Closed windows, messages that came too late, and epochs without messages."""
        (row,) = self._target.execute(self._batch + _COUNTED, **self._names)
        closed, late, empty = tuple(row)
        return closed, late, empty
