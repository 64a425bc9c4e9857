"""Every type of Postgres through the real chain: source, Debezium, Kafka, lane, target.

One wide table a group of types, one connector and one lane for each combination of modes. Every value travels as a row
of the snapshot (r), as an insert (c) and as an update (u), and has to be the same text at both sides; what Debezium
loses has to arrive as `tests/type_table.py` says.
"""

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2
import psycopg2.extensions
import pytest
from confluent_kafka import Consumer

from app.config.settings import SourceSettings as Settings
from app.decode import scan_loader as scanner
from app.decode.debezium import DebeziumJson
from app.kafka.spans import SpanReader
from app.model.offsets import Span, TopicPartition
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.type_table import DOCUMENT, GROUPS, MATRIX, PRELUDE, SAMPLE, Case, Loss, Modes, document
from tools.devstack import Stack

ARRIVAL_SECONDS = 120.0
#: a row of this table says that all the others were sent
END = "the end"
#: with fraction or exponent
NUMBER = re.compile(r"(?<![0-9])-?[0-9]++(\.[0-9]++([eE][+-]?[0-9]++)?|[eE][+-]?[0-9]++)")
#: first id of the rows of each kind
FIRST = {"r": 1000, "c": 2000, "u": 3000}
MISSING = "no row"

#: table, op and row of changes
Messages = list[tuple[str, str, Mapping[str, object]]]


@dataclass(frozen=True)
class Cell:
    """One value on its way."""

    table: str
    column: str
    id: int
    case: Case
    value: str
    loss: Loss | None

    @property
    def sent(self) -> str:
        """SQL of what is written at the source."""
        return "null" if self.loss and self.loss.unsent else self.value

    @property
    def compared(self) -> str:
        """SQL of what both sides have to agree on."""
        return ((self.loss and self.loss.equal) or "{v}").replace("{v}", f'"{self.column}"')

    def expected(self, at_the_source: str | None) -> str | None:
        """What has to be at the target."""
        if self.loss is None or self.loss.unsent or self.loss.equal:
            return at_the_source
        return self.loss.arrives


def column_of(number: int, case: Case) -> str:
    return f"c{number:02} {re.sub(r'[^a-z0-9]+', '_', case.sql).strip('_')}"


def cells(modes: Modes, op: str) -> Iterator[Cell]:
    """Every value of every type; a column with few values has NULL in the last rows."""
    for group, cases in GROUPS.items():
        longest = max(len(case.values) for case in cases)
        for number, case in enumerate(cases):
            for row in range(longest + 1):
                value = case.values[row] if row < len(case.values) else "null"
                loss = case.loss(modes, value, op) if value != "null" else None
                yield Cell(group, column_of(number, case), FIRST[op] + row, case, value, loss)


def ddl() -> list[str]:
    """The tables of both databases."""
    tables = [f'create table "{END}" (id int primary key)']
    for group, cases in GROUPS.items():
        columns = [f'"{column_of(number, case)}" {case.sql}' for number, case in enumerate(cases)]
        tables.append(f'create table "{group}" (id int primary key, {", ".join(columns)})')
    return tables


def rows(modes: Modes, op: str) -> Mapping[tuple[str, int], list[Cell]]:
    """The cells by row."""
    found: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells(modes, op):
        found.setdefault((cell.table, cell.id), []).append(cell)
    return found


def inserts(modes: Modes, op: str) -> list[str]:
    return [
        f'insert into "{table}" values ({", ".join([str(number), *(cell.sent for cell in row)])})'
        for (table, number), row in rows(modes, op).items()
    ]


def updates(modes: Modes) -> list[str]:
    """Rows that have nothing, and get their values."""
    made: list[str] = []
    for (table, number), row in rows(modes, "u").items():
        made.append(f'insert into "{table}" (id) values ({number})')
        values = ", ".join(f'"{cell.column}" = {cell.sent}' for cell in row)
        made.append(f'update "{table}" set {values} where id = {number}')
    return made


class Source:
    """A database of the source's server."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.stack, self.name, self.url = stack, name, stack.source.url(name)
        stack.source.create_database(name)

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        """In one transaction; gives the rows of the last one."""
        connection = psycopg2.connect(self.url)
        try:
            with connection, connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()


@pytest.fixture
def source(capturing: Stack) -> Iterator[Source]:
    """A database that no connector captures yet."""
    made = Source(capturing, f"types_{uuid.uuid4().hex[:8]}")
    yield made
    capturing.release(made.name)


def messages_until_the_end(topic: Topic) -> Messages:
    """Table, op and row of every change in the topic, once the last one is there."""
    settings = {"bootstrap.servers": topic.kafka.bootstrap, "group.id": uuid.uuid4().hex}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic.name])
    deadline, found = time.monotonic() + ARRIVAL_SECONDS, Messages()
    while not any(table == END for table, _, _ in found):
        assert time.monotonic() < deadline, f"no end after {len(found)} messages"
        message = consumer.poll(0.5)
        if message is None or message.error() or not (value := message.value()):
            continue
        body = json.loads(value)
        body = body.get("payload", body)
        if "op" in body:
            found.append((body["source"]["table"], body["op"], body["after"] or {}))
    consumer.close()
    return found


def send(source: Source, topic: Topic, modes: Modes) -> None:
    """Everything, by snapshot and by streaming, up to the end."""
    source.execute(*PRELUDE, *ddl())
    source.execute(*inserts(modes, "r"))
    source.stack.capture(source.name, topic.name, modes.connector)
    source.execute(*inserts(modes, "c"))
    source.execute(*updates(modes))
    source.execute(f'insert into "{END}" values (1)')


@pytest.mark.parametrize(
    "modes",
    [pytest.param(one, id=one.name, marks=[] if one in SAMPLE else [pytest.mark.full]) for one in MATRIX],
)
def test_every_value_arrives_as_it_was(
    modes: Modes, source: Source, new_topic: NewTopic, lane: MakeLane, target: Target
) -> None:
    topic = new_topic(name=f"types.{source.name}")
    send(source, topic, modes)
    messages = messages_until_the_end(topic)
    for statement in (*PRELUDE, *ddl()):
        target.execute(statement)
    lane("ledger", topics=(topic,), source={"modes": modes.lane}).run_until_caught_up()
    refused = target.execute("select distinct source_table, split_part(error, '[SQL', 1) from surelane.quarantine")
    wrong = [f"refused: {row}" for row in refused]
    wrong += differences(modes, source, target, messages)
    wrong += decoded_otherwise(topic)
    assert wrong == [], "\n".join(wrong)


def decoded_otherwise(topic: Topic) -> list[str]:
    """Where compiled code gives other rows than Python."""
    settings = Settings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,))
    reader = SpanReader(settings)
    batches = reader.read(Span.of(TopicPartition(topic.name, 0), 0, topic.end))
    reader.close()
    one = DebeziumJson(scanner=scanner.loading().result()).decode(batches).to_pylist()
    other = DebeziumJson(worth_compiling=None).decode(batches).to_pylist()
    pairs = [(left, right) for left, right in zip(one, other, strict=True) if left != right]
    return [f"{short(left)} is {short(right)} in Python" for left, right in pairs]


def differences(modes: Modes, source: Source, target: Target, messages: Messages) -> list[str]:
    """What is not as it should be, one line a value."""
    wire = {(table, row.get("id"), op): row for table, op, row in messages}
    wrong: list[str] = []
    with reading(source.url) as here, reading(target.server.url(target.database)) as there:
        for op in FIRST:
            for row in rows(modes, op).values():
                wanted, found = texts(here, row), texts(there, row)
                for cell in row:
                    expected = cell.expected(wanted[cell.column])
                    if found[cell.column] != expected:
                        sent = wire.get((cell.table, cell.id, op), {}).get(cell.column, "nothing")
                        wrong.append(
                            f"{op} {cell.case.sql}: {short(expected)} arrives as {short(found[cell.column])}"
                            f" (sent as {short(sent)})"
                        )
    return wrong


@contextmanager
def reading(url: str) -> Iterator[psycopg2.extensions.cursor]:
    """A cursor with settings that are the same at both sides."""
    connection = psycopg2.connect(url, options="-c timezone=UTC")
    try:
        yield connection.cursor()
    finally:
        connection.close()


def texts(cursor: psycopg2.extensions.cursor, row: Sequence[Cell]) -> Mapping[str, str | None]:
    """The values of one row as text, or what Debezium leaves of them."""
    expressions = [f"({cell.compared})::text" for cell in row]
    cursor.execute(f'select {", ".join(expressions)} from "{row[0].table}" where id = {row[0].id}')
    found = cursor.fetchone() or [MISSING] * len(row)
    return {cell.column: value for cell, value in zip(row, found, strict=True)}


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}... ({len(text)} characters)"


def test_the_document_is_made_of_the_table() -> None:
    assert DOCUMENT.read_text() == document(), "run python -m tests.type_table"
