"""Windows that the watermark closes. Which messages come too late depends on where epochs end, so the batch asks the
ledger."""

import datetime
from collections.abc import Mapping
from typing import Any

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
CONFIG: Mapping[str, Any] = {
    "changes": {"public.orders": {"watermark": f"{int(DELAY.total_seconds())} seconds"}},
    "sql": "select window.start as minute, coalesce(after.customer, -1) as customer, count(*) as changes,"
    " sum(after.amount) as amount from changes_of_orders group by window(ts, '1 minute'), coalesce(after.customer, -1)",
    "table": "reports.closed",
    "output": "append",
    "max_messages": 40,
}
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
    where ts is not null and (before is null or ended > before) and ended <= (select max(mark) from marks)
    group by ended, customer
), late as (select 1 from read join marks using (epoch) where ended <= before),
    empty as (select 1 from epochs where first = behind)
"""
_DIFFERENCE = f"""{_BATCH}
select 'missing' as what, * from (select * from batch except select * from reports.closed) as missing
union all select 'wrong', * from (select * from reports.closed except select * from batch) as wrong
"""
_COUNTED = f"{_BATCH} select (select count(*) from batch), (select count(*) from late), (select count(*) from empty)"


class ClosedWindows:
    """A shop, and its windows by Postgres."""

    def __init__(self, shop: Shop, lane: str) -> None:
        self._shop, self._target = shop, shop.target
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
        return [tuple(row) for row in self._target.execute(_DIFFERENCE, **self._names)]

    def counted(self) -> tuple[int, int, int]:
        """Closed windows, messages that came too late, and epochs without messages."""
        (row,) = self._target.execute(_COUNTED, **self._names)
        closed, late, empty = tuple(row)
        return closed, late, empty
