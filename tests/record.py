"""Records what Debezium really writes: `python -m tests.record` makes tests/recorded/debezium-*.json anew.

`tests/integration/test_recorded.py` applies it. It needs no source and no connector, so that a message which takes a
signal, a heartbeat and an incremental snapshot to make is tested in two seconds.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg2
from confluent_kafka import Consumer

from tests.type_table import Modes
from tools.devstack import Stack

FOLDER = Path(__file__).resolve().parent / "recorded"
SECONDS = 60.0
SIGNALS = "debezium_signal"
_LARGE = "(select string_agg(md5('{0}' || i), '') from generate_series(1, 66) i)"
_COLUMNS = (
    "name text, big text, photo bytea, numbers int[], words text[], amount numeric(12,2), at timestamptz, day date"
)
DDL = (
    f"create table customer (id int primary key, {_COLUMNS})",
    f"create table watched (id int primary key, {_COLUMNS})",
    "create table scratch (id int primary key, v text)",
)
AT_THE_SOURCE = (
    *(
        f"alter table {table} alter {column} set storage external"
        for table in ("customer", "watched")
        for column in ("big", "photo", "numbers", "words")
    ),
    "alter table watched replica identity full",
    f"create table {SIGNALS} (id varchar(42) primary key, type varchar(32) not null, data varchar(2048))",
)


def _row(number: int) -> str:
    large = _LARGE.format(number)
    numbers = "(select array_agg(i) from generate_series(1, 520) i)"
    return (
        f"({number}, 'ä \\ \" {number}', {large}, convert_to({large}, 'UTF8'), {numbers}, array[{large}, null],"
        " 12.50, '2024-02-29 12:34:56.789+00', '1969-12-31')"
    )


BEFORE = (f"insert into customer values {_row(1)}, {_row(2)}",)
AFTER = (
    f"insert into customer values {_row(3)}",
    "update customer set name = 'the large values are left out' where id in (1, 3)",
    "update customer set big = 'small', photo = '\\x00', numbers = '{}', words = null where id = 2",
    f"insert into watched values {_row(1)}",
    "update watched set name = 'the large values are there' where id = 1",
    "update watched set id = 2 where id = 1",
    "update customer set id = 4 where id = 2",
    "delete from customer where id = 3",
    "insert into scratch values (1, 'a'), (2, 'b')",
    "truncate scratch",
    "insert into scratch values (3, 'c')",
    "select pg_logical_emit_message(true, 'note', 'in a transaction')",
    "select pg_logical_emit_message(false, 'note', 'in none')",
    f"insert into {SIGNALS} values ('1', 'execute-snapshot',"
    ' \'{"data-collections": ["public.customer"], "type": "incremental"}\')',
)
CONNECTOR = {
    "signal.data.collection": f"public.{SIGNALS}",
    "heartbeat.interval.ms": "300",
    "transforms.one.regex": r"(__debezium-heartbeat\.)?cdc(\.(public\..*|transaction|message))?",
}
#: by the end of the file's name
CONVERTERS = {
    "bare": {},
    "schema": Modes(decimal="precise", interval="string").connector,
}


def record(stack: Stack, name: str) -> None:
    """One file."""
    database = f"recorded_{name}"
    stack.source.create_database(database)
    stack.kafka.create_topic(database)
    connection = psycopg2.connect(stack.source.url(database), options="-c timezone=UTC")
    connection.autocommit = True
    with connection.cursor() as cursor:
        for statement in (*DDL, *AT_THE_SOURCE, *BEFORE):
            cursor.execute(statement)
        stack.capture(database, database, {**CONNECTOR, **CONVERTERS[name]})
        for statement in AFTER:
            cursor.execute(statement)
        messages = _messages(stack, database)
        rows = {}
        for table in ("customer", "watched", "scratch"):
            cursor.execute(f"select t::text from {table} t order by 1")
            rows[table] = [text for (text,) in cursor.fetchall()]
    connection.close()
    stack.release(database)
    origin = "written by Debezium's connector for Postgres, see tests/record.py"
    content = {"origin": origin, "ddl": DDL, "messages": messages, "rows": rows}
    (FOLDER / f"debezium-{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _messages(stack: Stack, topic: str) -> Sequence[tuple[str | None, str | None]]:
    """Keys and values, up to a heartbeat after the end of the incremental snapshot."""
    consumer = Consumer(
        {"bootstrap.servers": stack.kafka.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[tuple[str | None, str | None]] = []
    closed, deadline = False, time.monotonic() + SECONDS
    while True:
        assert time.monotonic() < deadline, f"no end after {len(found)} messages"
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        key, value = message.key(), message.value()
        found.append((_text(key), _text(value)))
        closed = closed or b"snapshot-window-close" in (value or b"")
        if closed and b"serverName" in (key or b""):
            consumer.close()
            return found


def _text(part: bytes | str | None) -> str | None:
    return part.decode() if isinstance(part, bytes) else part


def main() -> None:
    """All files."""
    stack = Stack("recording")
    try:
        stack.up(target=False, capture=False)
        for name in CONVERTERS:
            record(stack, name)
    finally:
        stack.down(wipe=True)


if __name__ == "__main__":
    main()
