"""With `--queries`: orders by window and customer, a rollup of the orders and their history, beside the lane.

The query runs in a process of its own, which is killed with the lane. At the end its rows are compared with what
Postgres computes at once of the messages in the topic, and the rollup with what the source computes of its rows; the
history with the messages, too (`tools.demo.history`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg2
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from sqlalchemy import Engine

from app.config.settings import Settings
from app.ledger.store import Ledger
from tools.demo import history
from tools.demo.failure import DemoFailed
from tools.demo.history import HistoryResult, history_result
from tools.devstack import Stack
from tools.devstack.roles import OWNER, make_roles
from tools.devstack.stack import DATABASE

QUERY = "orders_by_window"
#: of the query's SQL; short, so that a short demo has several windows
WINDOW_SECONDS = 5
CONFIGURATION: dict[str, object] = {
    "queries": {
        QUERY: {
            "changes": ["public.orders"],
            "sql": "select window.start as start, after.customer as customer, count(*) as orders from changes_of_orders"
            " where op in ('c', 'r') group by window(ts, '5 seconds'), after.customer",
            "table": "reports.orders_by_window",
        }
    },
    "target": history.CONFIGURATION,
    "rollups": {
        "orders_of_customer": {
            "of": "public.orders",
            "table": "reports.orders_of_customer",
            "by": ["customer"],
            "aggregates": {
                "orders": "count",
                "total": "sum(total)",
                "largest": "max(total)",
                "newest": "max(placed_at)",
            },
        }
    },
}
_SCHEMA = "reports"
_TABLE = (
    "create table reports.orders_by_window (start timestamptz, customer text, orders bigint not null,"
    " primary key (start, customer))"
)
#: the messages, for the batches
_SEEN = 'create temporary table seen ("offset" bigint, message jsonb)'
_BATCH = """
    select date_bin(make_interval(secs => %s), to_timestamp((m #>> '{source,ts_ms}')::numeric / 1000),
                    timestamptz '2000-01-01') as start, m #>> '{after,customer}' as customer, count(*) as orders
    from (select coalesce(message -> 'payload', message) as m from seen) as messages
    where m #>> '{source,table}' = 'orders' and m ->> 'op' in ('c', 'r') group by 1, 2
"""
_RESULT = "select start, customer, orders from reports.orders_by_window"
_WINDOWS = "select extract(epoch from start), sum(orders) from reports.orders_by_window group by 1 order by 1"
_ROLLUP = "select customer, orders, total, largest, newest from reports.orders_of_customer order by 1"
_ROWS = "select customer, count(*), sum(total), max(total), max(placed_at) from orders group by 1 order by 1"
#: seconds without a message until the topic was read to its end
_IDLE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """What the query, the rollup and the history made, beside what they should be."""

    rows: int
    #: rows that the batch has and the query has not, or the other way round
    differing: int
    orders: int
    #: groups of the rollup, and how many are not as at the source
    groups: int
    groups_differing: int
    #: start of each window in seconds since 1970, and its orders
    windows: tuple[tuple[float, float], ...]
    history: HistoryResult


def prepare_reports(stack: Stack) -> None:
    """Make the query's table, and let the lane make a rollup and a history of the orders: its login is a replica's, so
    it has to own the table."""
    stack.target.execute("create schema reports", database=DATABASE)
    stack.target.execute(_TABLE, database=DATABASE)
    make_roles(stack.target.url(DATABASE), schema=_SCHEMA)
    stack.target.execute(f"grant create on schema reports to {OWNER}", database=DATABASE)
    stack.target.execute(f"alter table orders owner to {OWNER}", database=DATABASE)


def query_end(settings: Settings, target: Engine) -> int:
    """Where the query's ledger ends; 0 before its first epoch."""
    ledger = Ledger(settings.target.db_schema, settings.of_query(QUERY).lane)
    with target.connect() as connection:
        last = ledger.last(connection)
    return 0 if last is None else max(last.span.end.values(), default=0)


def query_result(stack: Stack, settings: Settings, end: int) -> QueryResult:
    """Compare; lane and query have ended. `end`: of the topic."""
    topic = settings.source.topics[0]
    with psycopg2.connect(stack.target.url(DATABASE)) as connection, connection.cursor() as cursor:
        cursor.execute(_SEEN)
        for row in _messages(settings.source.bootstrap_servers, topic, end):
            cursor.execute("insert into seen values (%s, %s)", row)
        cursor.execute(_BATCH, (WINDOW_SECONDS,))
        wanted = set(cursor.fetchall())
        cursor.execute(_RESULT)
        found = set(cursor.fetchall())
        cursor.execute(_WINDOWS)
        windows = tuple((float(start), float(orders)) for start, orders in cursor.fetchall())
        cursor.execute(_ROLLUP)
        groups = cursor.fetchall()
        versions = history_result(cursor, topic)
    with psycopg2.connect(stack.source.url(DATABASE)) as connection, connection.cursor() as cursor:
        cursor.execute(_ROWS)
        rows = cursor.fetchall()
    return QueryResult(
        rows=len(found),
        differing=len(wanted ^ found),
        orders=sum(int(orders) for _, orders in windows),
        groups=len(groups),
        groups_differing=len(set(groups) ^ set(rows)),
        windows=windows,
        history=versions,
    )


def _messages(bootstrap: str, topic: str, end: int) -> Iterator[tuple[int, str]]:
    """Changes of orders in the topic, with their offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo-batch", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        at = 0
        while at < end:
            message = consumer.poll(_IDLE_SECONDS)
            if message is None:
                raise DemoFailed(f"the topic could not be read beyond offset {at} of {end}")
            at, value = (message.offset() or 0) + 1, message.value()
            if value is not None and b'"orders"' in value:
                yield at - 1, json.dumps(json.loads(value))
    finally:
        consumer.close()
