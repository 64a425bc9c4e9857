"""Schemas and changes that hypothesis makes up, through the real chain: source, Debezium, Kafka, lane, target.

One connector, one topic and one running lane serve all examples: each has tables of its own. The lane is held while a
batch of an example is written, so that it comes in one epoch, whatever the speed of the machine; then every table has
to be the same at both sides, and nothing may be in quarantine or prepared. What fails is printed as SQL.
"""

import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg2
import psycopg2.extensions
import pytest
from confluent_kafka import Consumer
from hypothesis import given, settings

from app.errors import EnvironmentMissing
from tests.fix_lane import Hold, LaneUnderTest, MakeLane
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.generated import PRELUDE, History, Transaction, histories, quoted
from tests.type_table import Modes
from tests.waiting import eventually
from tools.devstack import Stack

#: a row of this table says that everything before it has arrived
END = "the end"
EXAMPLES, MANY = 20, 100
SECONDS = 30.0
CONFIG = {"target": {"on_truncate": "apply"}, "guard": {"breaker": None}}


class Database:
    """One connection to a source or a target, with settings that are the same at both sides."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg2.connect(url, options="-c timezone=UTC")

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        """In one transaction; gives the rows of the last one."""
        with self._connection, self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def run(self, transaction: Transaction) -> None:
        """What is refused is taken back: a statement, or all of it when it is to be committed."""
        try:
            with self._connection.cursor() as cursor:
                for statement in transaction.statements:
                    _try(cursor, statement)
            self._connection.commit() if transaction.commit else self._connection.rollback()
        except psycopg2.Error:
            self._connection.rollback()


def _try(cursor: psycopg2.extensions.cursor, statement: str) -> None:
    cursor.execute("savepoint here")
    try:
        cursor.execute(statement)
    except psycopg2.Error:
        cursor.execute("rollback to here")


class Ends:
    """Waits until an end is in the topic."""

    def __init__(self, topic: Topic) -> None:
        settings = {"bootstrap.servers": topic.kafka.bootstrap, "group.id": uuid.uuid4().hex}
        self._consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic.name])
        self._seen = 0

    def until(self, number: int) -> None:
        """`number` is there."""
        eventually(lambda: self._reads(number), SECONDS, f"end {number} in the topic")

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()

    def _reads(self, number: int) -> bool:
        for message in self._consumer.consume(1000, 0.01):
            body = json.loads(message.value() or b"{}")
            body = body.get("payload", body)
            if "op" in body and body["source"]["table"] == END:
                self._seen = body["after"]["id"]
        return self._seen >= number


class Chain:
    """From a captured source to a target, for one example after the other."""

    def __init__(
        self,
        source: Database,
        target: Database,
        ends: Ends,
        hold: Hold,
        start: Callable[[], LaneUnderTest],
        capture_failure: Callable[[], str],
    ) -> None:
        self._source, self._target, self._ends, self._hold, self._start = source, target, ends, hold, start
        self._capture_failure = capture_failure
        self._end = 0
        self._lane: LaneUnderTest | None = None
        #: what the connector has ended with, for good, and the example that made it
        self._broken = ""

    def check(self, history: History) -> None:
        """Raises AssertionError with what reproduces it."""
        assert not self._broken, self._broken
        known = len(self._target.execute("select 1 from surelane.quarantine"))
        try:
            self._play(history)
            wrong = [f"refused: {row}" for row in self._refused(known)] + self._differences(history)
        except Exception as error:
            self._end_lane()
            self._broken = (failure := self._capture_failure()) and f"{failure}\n{history.script}"
            raise AssertionError(f"{error}\n{history.script}") from error
        assert wrong == [], "\n".join([*wrong, history.script])

    def _play(self, history: History) -> None:
        self._target.execute(*(table.at_the_target for table in history.tables))
        self._source.execute(*(statement for table in history.tables for statement in table.at_the_source))
        for batch in history.batches:
            with self._held():
                for transaction in batch:
                    self._source.run(transaction)
                self._ends.until(self._next_end())
            self._arrived()
        eventually(lambda: not self._target.execute("select 1 from pg_prepared_xacts"), SECONDS, "nothing prepared")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The lane stands before an epoch of its own, and what is written meanwhile comes in the next one."""
        if self._lane is None:
            self._lane = self._start()
        held = self._hold("epoch-start")
        self._next_end()
        eventually(lambda: held.file.exists() or self._failed(), SECONDS, "the lane to be held")
        try:
            yield
        finally:
            held.release()

    def _end_lane(self) -> None:
        """The next example has a lane of its own, from then on."""
        lane, self._lane = self._lane, None
        if lane is not None and lane.running:
            lane.stop()

    def _next_end(self) -> int:
        self._end += 1
        self._source.execute(f'insert into "{END}" values ({self._end})')
        return self._end

    def _arrived(self) -> None:
        here = f'select 1 from "{END}" where id = {self._end}'
        eventually(lambda: self._target.execute(here) or self._failed(), SECONDS, f"end {self._end} at the target")

    def _failed(self) -> bool:
        if self._lane is not None and not self._lane.running:
            raise AssertionError(f"the lane has ended: {self._lane.error}")
        return False

    def _refused(self, known: int) -> list[tuple[object, ...]]:
        order = "order by id offset"
        return self._target.execute(f"select source_table, key, error from surelane.quarantine {order} {known}")

    def _differences(self, history: History) -> list[str]:
        wrong: list[str] = []
        for table in history.tables:
            here, there = (side.execute(table.content) for side in (self._source, self._target))
            wrong += [f"{table.name}: not at the target: {row}" for row in here if row not in there]
            wrong += [f"{table.name}: not at the source: {row}" for row in there if row not in here]
        return wrong


def failure_of(stack: Stack, connector: str) -> str:
    """What the connector has ended with."""
    try:
        stack.connect.is_running(connector)
    except EnvironmentMissing as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Way:
    """How everything is set."""

    mode: str
    modes: Modes

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.mode}-{'schema' if self.modes.schema else 'bare'}"


_PLAIN = Modes(decimal="string", interval="string", schema=False)
WAYS = (
    Way("two-phase", _PLAIN),
    Way("ledger", replace(_PLAIN, schema=True)),
    Way("at-least-once", replace(_PLAIN, time_precision="isostring", binary="hex")),
)


@pytest.fixture
def chain(
    way: Way, capturing: Stack, new_topic: NewTopic, lane: MakeLane, target: Target, hold: Hold, tmp_path: Path
) -> Iterator[Chain]:
    """Captured and without tables; the lane is started by the first example, and anew after one that ended it."""
    name = f"generated_{uuid.uuid4().hex[:8]}"
    topic = new_topic(name=f"cdc.{name}")
    capturing.source.create_database(name)
    number = itertools.count(1)

    def start() -> LaneUnderTest:
        begin = {"modes": way.modes.lane, "start": {topic.name: {0: topic.end}}}
        again = f"{target.lane}-{next(number)}"
        made = lane(way.mode, topics=(topic,), lane=again, source=begin, checkpoint=str(tmp_path / again), **CONFIG)
        made.start()
        return made

    with (
        Database(capturing.source.url(name)) as source,
        Database(target.server.url(target.database)) as copy,
        closing(Ends(topic)) as ends,
    ):
        for side in (source, copy):
            side.execute(*PRELUDE, f"create table {quoted(END)} (id int primary key)")
        capturing.capture(name, topic.name, way.modes.connector)
        yield Chain(source, copy, ends, hold, start, lambda: failure_of(capturing, name))
        capturing.release(name)


@pytest.mark.parametrize(
    "way", [pytest.param(one, id=one.name, marks=[] if one is WAYS[0] else [pytest.mark.full]) for one in WAYS]
)
def test_generated_changes_arrive(chain: Chain, request: pytest.FixtureRequest) -> None:
    explored = settings().max_examples > MANY  # the profile asks for as many as there is time for

    @settings(max_examples=MANY if explored or request.config.getoption("--full-matrix") else EXAMPLES)
    @given(histories())
    def each(history: History) -> None:
        chain.check(history)

    each()
