"""The local stack with its real servers: what is written at the source arrives in the topic; nothing is left behind."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import psycopg2
import psycopg2.errors
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tools.devstack import Endpoints, Stack

#: Long enough for a busy machine; a message is there within a tenth of a second otherwise.
ARRIVAL_SECONDS = 180.0

Change = dict[str, object]


@dataclass
class Reader:
    """Reads the topic from its beginning and keeps what it saw."""

    consumer: Consumer
    changes: list[Change]

    def until(self, wanted: Callable[[list[Change]], bool], reason: str) -> list[Change]:
        """Read on until the changes seen are as wanted."""
        end = time.monotonic() + ARRIVAL_SECONDS
        while not wanted(self.changes):
            assert time.monotonic() < end, f"gave up waiting for {reason}; seen: {self.changes}"
            message = self.consumer.poll(0.5)
            if message is None:
                continue
            assert message.error() is None
            if value := message.value():  # a tombstone has none
                self.changes.append(json.loads(value))
        return self.changes


def reader(endpoints: Endpoints) -> Reader:
    assert endpoints.kafka is not None
    assert endpoints.topic is not None
    settings = {"bootstrap.servers": endpoints.kafka, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([endpoints.topic])
    return Reader(consumer, [])


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    stack = Stack(f"test-{uuid.uuid4().hex[:8]}")
    try:
        yield stack
    finally:
        stack.down(wipe=True)


def write(stack: Stack, *statements: str) -> None:
    """One transaction at the source."""
    connection = psycopg2.connect(stack.source.url("shop"))
    try:
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        connection.close()


def rows(changes: list[Change], table: str) -> list[object]:
    """The row images after each change of that table."""
    return [change["after"] for change in changes if _table(change) == table]


def _table(change: Change) -> object:
    source = change.get("source")
    return source["table"] if isinstance(source, dict) else None


def pids(stack: Stack) -> dict[str, int | None]:
    return {part.name: part.pid for part in stack.status()}


def test_what_is_written_at_the_source_arrives_in_one_topic(stack: Stack) -> None:
    endpoints = stack.up()
    assert all(part.running for part in stack.status())
    write(stack, "CREATE TABLE item (id int PRIMARY KEY, price numeric, note text)")
    write(stack, "INSERT INTO item VALUES (1, 1.50, 'ä')", "INSERT INTO item VALUES (2, 2e30, NULL)")
    seen = reader(endpoints).until(lambda seen: _ends(seen) == 1, "the end of the transaction")
    assert [change.get("status", change.get("op")) for change in seen] == ["BEGIN", "c", "c", "END"]
    assert rows(seen, "item") == [
        {"id": 1, "price": "1.50", "note": "ä"},
        {"id": 2, "price": "2000000000000000000000000000000", "note": None},
    ]
    assert endpoints.kafka is not None
    topics = AdminClient({"bootstrap.servers": endpoints.kafka}).list_topics(timeout=10).topics
    assert len(topics["shop.cdc"].partitions) == 1
    assert not [name for name in topics if name.startswith("cdc")], "every topic of Debezium is routed to one"


def _ends(seen: list[Change]) -> int:
    return sum(change.get("status") == "END" for change in seen)


def test_a_table_made_later_is_captured_too_and_so_is_a_truncate(stack: Stack) -> None:
    endpoints = stack.up()
    write(stack, "CREATE TABLE later (id int PRIMARY KEY)")
    write(stack, "INSERT INTO later VALUES (7)")
    write(stack, "TRUNCATE later")
    seen = reader(endpoints).until(
        lambda seen: any(change.get("op") == "t" for change in seen), "the truncate of a table made later"
    )
    assert rows(seen, "later") == [{"id": 7}, None]


def test_up_again_leaves_what_runs_alone_and_starts_what_died(stack: Stack) -> None:
    first = stack.up()
    before = pids(stack)
    assert stack.up() == first
    assert pids(stack) == before
    stack.kafka.kill()
    stack.target.stop("immediate")
    assert stack.up() == first
    after = pids(stack)
    assert all(after.values())
    assert {name for name in after if after[name] != before[name]} == {"kafka", "target"}


def test_down_leaves_no_process_and_up_again_keeps_the_data(stack: Stack) -> None:
    first = stack.up()
    write(stack, "CREATE TABLE kept (id int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
    reader(first).until(lambda seen: bool(rows(seen, "kept")), "the row before the stop")
    before = pids(stack)
    stack.down()
    assert not any(part.running for part in stack.status())
    assert not [pid for pid in before.values() if pid is not None and _alive(pid)]
    assert not _processes_with(str(stack.data_dir))
    assert stack.up() == first, "the addresses are remembered"
    write(stack, "INSERT INTO kept VALUES (2)")
    seen = reader(first).until(lambda seen: {"id": 2} in rows(seen, "kept"), "the row after the start")
    assert rows(seen, "kept") == [{"id": 1}, {"id": 2}], "nothing is captured twice after a stop in good order"


def test_the_target_has_the_roles_of_a_production(stack: Stack) -> None:
    endpoints = stack.up()
    stack.target.execute("CREATE TABLE IF NOT EXISTS theirs (id int)", database="shop")
    assert endpoints.target_url is not None
    connection = psycopg2.connect(endpoints.target_url)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute("INSERT INTO theirs VALUES (1)")
            cursor.execute(f"SET ROLE {endpoints.target_role}")
            cursor.execute("INSERT INTO theirs VALUES (1)")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute("CREATE TABLE mine (id int)")
            cursor.execute("SHOW max_prepared_transactions")
            assert cursor.fetchall() == [("64",)]
    finally:
        connection.close()


def test_the_command_prints_json_and_nothing_else(stack: Stack) -> None:
    endpoints = stack.up()
    command = [sys.executable, "-m", "tools.cli", "stack", "up", "--json", "--name", stack.name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    assert list(printed) == ["kafka", "connect", "topic", "source_url", "target_url", "target_role", "data_dir"]
    assert printed["target_url"] == endpoints.target_url


def test_wipe_leaves_nothing(stack: Stack) -> None:
    stack.up()
    stack.down(wipe=True)
    assert not stack.data_dir.exists()
    assert not _processes_with(str(stack.data_dir))


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _processes_with(word: str) -> list[list[str]]:
    """Command lines of living processes in which that word stands."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(word in part for part in line)]
