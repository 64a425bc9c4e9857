"""With `--queries`: the versions of the orders, which the lane keeps (docs/HISTORY.md).

They are compared with what Postgres computes of the messages in the topic: of each epoch the last change of an order.
"""

from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor  # a class, despite its lowercase name

from tools.demo.lane import LANE

TABLE = "reports.orders_history"
CONFIGURATION: dict[str, object] = {"history": {"public.orders": {"table": TABLE}}}
#: of the table `seen`: see `tools.demo.queries`
_BATCH = """
    with epochs as (
        select (start_position -> %(topic)s ->> '0')::bigint as first,
               (end_position -> %(topic)s ->> '0')::bigint as behind
        from surelane.ledger where lane = %(lane)s and epoch >= 0 and duplicate = 0
    ), changes as (
        select "offset", m ->> 'op' as op, to_timestamp((m #>> '{source,ts_ms}')::numeric / 1000) as ts,
               coalesce(m #>> '{after,id}', m #>> '{before,id}')::bigint as id, m -> 'after' as after
        from (select "offset", coalesce(message -> 'payload', message) as m from seen) as messages
        where m #>> '{source,table}' = 'orders'
    ), last as (
        select distinct on (first, id) changes.*
        from changes join epochs on "offset" >= first and "offset" < behind order by first, id, "offset" desc
    ), followed as (
        select *, lead("offset") over next as closed_offset, lead(ts) over next as ended
        from last window next as (partition by id order by "offset")
    )
    select r.id, r.customer, r.status, r.total, r.placed_at, ts,
           case when ended is not null then greatest(ts, ended) end, "offset", closed_offset
    from followed cross join jsonb_populate_record(null::orders, after) as r where op <> 'd'
"""
_VERSIONS = """
    select id, customer, status, total, placed_at, valid_from, valid_to, opened_offset, closed_offset
    from reports.orders_history
"""
#: versions that the page shows
_SHOWN = 12
#: of the order that has most
_EXAMPLE = """
    select id, customer, status, total, opened_offset,
           extract(epoch from valid_to - valid_from)::float8
    from reports.orders_history
    where id = (select id from reports.orders_history group by id order by count(*) desc, id limit 1)
    order by opened_offset limit %(shown)s
"""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of an order."""

    order: int
    customer: str
    status: str
    total: str
    #: offset of the message that made it
    opened: int
    #: None: it is the current one
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class HistoryResult:
    """The versions, beside what they should be."""

    versions: int
    orders: int
    #: versions that the changes give and the table has not, or the other way round
    differing: int
    #: of one order
    example: tuple[Version, ...]


def history_result(cursor: Cursor, topic: str) -> HistoryResult:
    """Compare; the lane has ended, and the table `seen` has the changes of orders."""
    cursor.execute(_BATCH, {"topic": topic, "lane": LANE})
    wanted = set(cursor.fetchall())
    cursor.execute(_VERSIONS)
    found = set(cursor.fetchall())
    cursor.execute(_EXAMPLE, {"shown": _SHOWN})
    example = tuple(
        Version(order=order, customer=customer, status=status, total=str(total), opened=opened, seconds=seconds)
        for order, customer, status, total, opened, seconds in cursor.fetchall()
    )
    return HistoryResult(
        versions=len(found), orders=len({row[0] for row in found}), differing=len(wanted ^ found), example=example
    )
