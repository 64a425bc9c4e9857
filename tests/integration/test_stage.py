"""Spans staged by Spark's tasks: what a receipt says, what lanes make of it, and what the death of a task costs."""

import random
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import psutil
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Connection, Row
from sqlalchemy.engine import make_url

from app.apply.rules import TargetRules
from app.apply.table_plans import TablePlans
from app.config.settings import CommitMode, SourceSettings
from app.db.engine import make_engine
from app.db.sql import run
from app.decode.debezium import WORTH_COMPILING, DebeziumJson
from app.decode.decoding import Decoding
from app.dispatch import lane_stage
from app.dispatch.lane_stage import LaneStage, StagedSpan
from app.dispatch.lending import Lending
from app.dispatch.pool import Pool, StageAttempt
from app.epoch import staging_copy
from app.kafka.block_reader import BlockReader
from app.kafka.spans import ListBatch, SpanReader
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.model.row_layout import SEPARATOR, Layout, RowKind
from app.source import waiting
from app.spark.session import ComingSession
from app.stage import span_reading
from app.stage.load import INSERT_BYTES, INSERT_ROWS
from app.stage.receipt import Declined, Receipt, Wanted, last_messages
from app.stage.request import Clearing, KnownTerms, Range, Request, Tables, ranges_of
from app.stage.request import Table as RequestTable
from app.stage.span_reading import WORTH_BLOCKS, SpanReading
from app.stage.stager import ArrangedSpan, StageConfig, Stager
from tests.fix_lane import MODES, LaneProcess, MakeLane, MakeProcess
from tests.fix_target import OWNER, Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import INT, TEXT, Debezium, Message, Table
from tests.oracle import Reader, questions
from tests.poison import row
from tests.processes import is_python
from tests.waiting import eventually
from tests.workload import TABLES, Shop, changes_of_few
from tools.devstack import Kafka, Postgres

FLAT = Table("flat", {"id": INT, "v": TEXT})
EPOCH_MESSAGES = 200
_REFERENCE = "foreign key (parent) references parent"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[StagedSpan]:
    """What lanes in this process took of tasks."""
    spans: list[StagedSpan] = []
    take = LaneStage.take

    def noticed(self: LaneStage, span: Span, given: Sequence[RawMessage] = ()) -> StagedSpan | None:
        found = take(self, span, given)
        spans.extend([found] if found else [])
        return found

    monkeypatch.setattr(LaneStage, "take", noticed)
    return spans


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_every_mode_applies_what_tasks_have_staged(
    mode: str, lane: MakeLane, target: Target, topic: Topic, taken: list[StagedSpan]
) -> None:
    """With a restart between, and a reader that sees whole epochs only."""
    target.create(FLAT)
    chance, made = random.Random(3), lane(mode, epoch={"max_messages": EPOCH_MESSAGES})
    with Reader(target, topic) as reader:
        for _ in range(2):
            topic.send(changes_of_few(FLAT, chance, 11 * EPOCH_MESSAGES))
            made.run_until_caught_up()
    questions(target, topic, reader=reader, exactly_once=made.exactly_once)
    assert sum(one.receipt.messages for one in taken) >= 20 * EPOCH_MESSAGES


def test_epochs_that_end_where_source_transactions_do(
    lane: MakeLane, target: Target, topic: Topic, taken: list[StagedSpan]
) -> None:
    """The task finds the end, and has the rows behind it for the next epoch."""
    target.create(FLAT)
    chance, d = random.Random(4), Debezium()
    made = lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES, "align": "source-transaction"})
    with Reader(target, topic) as reader:
        for _ in range(2):
            for count in (10, 150, 700, 3, 90) * 3:
                begin = d.begin()
                changes = [d.update(FLAT, {"id": chance.randrange(60), "v": str(n)}) for n in range(count)]
                topic.send([begin, *changes, d.end()])
            made.run_until_caught_up()
    questions(target, topic, reader=reader)
    assert sum(one.receipt.messages for one in taken) >= topic.end - 2 * EPOCH_MESSAGES
    assert [one for one in taken if one.receipt.held], "epochs that were cut"


def test_several_topics_of_one_lane(
    lane: MakeLane, target: Target, new_topic: NewTopic, taken: list[StagedSpan]
) -> None:
    """The task asks the broker what is unread, and stages what may be applied."""
    parent, child = Table("parent", {"id": INT}), Table("child", {"id": INT, "parent": INT}, constraints=(_REFERENCE,))
    target.create(parent, child)
    parents, children, d = new_topic(), new_topic(), Debezium()
    for first in range(0, 20 * EPOCH_MESSAGES, EPOCH_MESSAGES):
        numbers = range(first, first + EPOCH_MESSAGES)
        parents.send([d.create(parent, {"id": n}) for n in numbers])
        children.send([d.create(child, {"id": n, "parent": n}) for n in numbers])
    made = lane("two-phase", topics=(parents, children), epoch={"max_messages": EPOCH_MESSAGES})
    made.run_until_caught_up()
    questions(target, parents, children)
    assert sum(one.receipt.messages for one in taken) >= 30 * EPOCH_MESSAGES
    assert [one for one in taken if one.receipt.waiting], "children that wait for their parents"


def test_a_lane_for_each_partition(
    lane: MakeLane, target: Target, new_topic: NewTopic, taken: list[StagedSpan]
) -> None:
    target.create(FLAT)
    topic, d = new_topic(partitions=4), Debezium()
    topic.send([replace(d.create(FLAT, {"id": n, "v": "a"}), partition=n % 4) for n in range(4 * EPOCH_MESSAGES)])
    made = lane("two-phase", topics=(topic,), source={"order": "partition"}, epoch={"max_messages": EPOCH_MESSAGES})
    made.run_until_caught_up()
    assert len(target.rows("public.flat")) == sum(one.receipt.messages for one in taken) == 4 * EPOCH_MESSAGES


def test_a_shop_with_everything(lane: MakeLane, target: Target, topic: Topic, taken: list[StagedSpan]) -> None:
    """What the target does not take as it is staged is sent in its order by the driver."""
    target.create(*TABLES)
    shop, made = Shop(5), lane("two-phase", epoch={"max_messages": 50})
    with Reader(target, topic) as reader:
        topic.send(shop.messages(3000))
        made.run_until_caught_up()
    questions(target, topic, reader=reader)
    assert taken


def test_tasks_that_are_killed_at_random(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Python's daemon, its workers, the processes that stage: what is lost is staged again, by the same driver."""
    target.create(*TABLES)
    chance, shop, made = random.Random(11), Shop(6), lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES})
    with Reader(target, topic) as reader:
        process = lane_process(made).start()
        topic.send(shop.messages(EPOCH_MESSAGES))
        process.until(lambda: made.caught_up(topic), why="the first messages")
        worker, killed = process.worker, 0
        assert worker is not None
        for _ in range(12):
            topic.send(shop.messages(5 * EPOCH_MESSAGES))
            victims = eventually(lambda: _pythons(process), why="processes of tasks")
            victim = chance.choice(victims)
            with suppress(psutil.NoSuchProcess):
                victim.kill()
                killed += 1
        process.until(lambda: made.caught_up(topic), why="the rest")
        assert process.worker == worker, "the driver has not died"
        eventually(lambda: len(_pythons(process)) >= 3, why="another process that stages")
        assert process.stop() == 0
    assert killed >= 6
    questions(target, topic, reader=reader)
    assert not target.execute("select * from surelane.quarantine")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_backlog_that_is_read_in_blocks_by_processes_that_are_killed(
    mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Stage processes, and the lane with all that belongs to it."""
    target.create(FLAT)
    chance, made = random.Random(11), lane(mode, epoch={"max_messages": WORTH_BLOCKS}, stage={"tasks": 1})
    with Reader(target, topic) as reader:
        process = lane_process(made).start()
        for round_ in range(4):
            topic.send(changes_of_few(FLAT, chance, 3 * WORTH_BLOCKS))
            goal = 3 * WORTH_BLOCKS * round_ + chance.randrange(2 * WORTH_BLOCKS)
            process.until(lambda goal=goal: sum(target.position().values()) >= goal, why=f"offset {goal}")
            victims = eventually(lambda: _pythons(process), why="processes of tasks")
            if round_ % 2:
                process.kill()
                before = len(process.events("start"))
                process.start()
                process.until(lambda before=before: len(process.events("start")) > before, why="its next start")
            else:
                with suppress(psutil.NoSuchProcess):
                    chance.choice(victims).kill()
        process.until(lambda: made.caught_up(topic), why="all of it")
        assert process.stop() == 0
    questions(target, topic, reader=reader)
    assert not target.execute("select * from surelane.quarantine")


@pytest.mark.parametrize("compiled", [True, False])
def test_compiled_code_is_loaded_where_it_may_be(
    compiled: bool, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """`source.compiled`: the rows are the same."""
    target.create(FLAT)
    chance, made = random.Random(4), lane("two-phase", source={"compiled": compiled}, stage={"tasks": 1})
    topic.send(changes_of_few(FLAT, chance, WORTH_COMPILING + 2 * EPOCH_MESSAGES))
    process = lane_process(made).start()
    process.until(lambda: made.caught_up(topic), why="enough to be worth it")
    for _ in range(3):  # the first of them asks for it
        topic.send(changes_of_few(FLAT, chance, EPOCH_MESSAGES))
        process.until(lambda: made.caught_up(topic), why="some more")
    if compiled:
        process.until(lambda: _has_compiler(process), why="the compiler in a process that stages")
    assert _has_compiler(process) == compiled
    assert process.stop() == 0
    questions(target, topic)


def test_no_process_connects(lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state says so, and the lane waits, as for a server."""
    target.create(FLAT)
    topic.send(changes_of_few(FLAT, random.Random(1), 20))
    made = lane("two-phase")
    with monkeypatch.context() as patched:
        patched.setattr(Pool, "_keep", lambda *_: None)
        patched.setattr(lane_stage, "PATIENCE_SECONDS", 0.5)
        patched.setattr(waiting, "NO_PROCESS_SECONDS", 0.5)
        made.start()
        failed = "select last_error from surelane.lane_state where last_error like :like"
        eventually(lambda: target.execute(failed, like="no stage process has connected%resident jobs%"), why="a word")
        assert made.running
    made.give_up()
    made.run_until_caught_up()
    questions(target, topic)


def test_each_span_is_staged_once(
    lane: MakeLane, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the first one, which is asked for while Spark plans it: the lane looks for requested releases in between."""
    begun: list[tuple[Range, ...]] = []
    begin = Pool.begin

    def noticed(self: Pool, name: str, ranges: tuple[Range, ...], *others: Any) -> StageAttempt:
        begun.append(ranges)
        return begin(self, name, ranges, *others)

    monkeypatch.setattr(Pool, "begin", noticed)
    target.create(FLAT)
    topic.send(changes_of_few(FLAT, random.Random(5), 600))
    lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}).run_until_caught_up()
    assert len(begun) == len(set(begun)) == 600 // EPOCH_MESSAGES
    questions(target, topic)


def test_long_spans_are_read_in_blocks(new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as there is one partition; the messages are the same whichever reader has them."""
    topic, d = new_topic(2), Debezium()
    made: list[str] = []

    class Blocks(BlockReader):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append("blocks")

    class Messages(SpanReader[ListBatch]):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append("messages")

    for name, one in (("WORTH_BLOCKS", 100), ("BlockReader", Blocks), ("SpanReader", Messages)):
        monkeypatch.setattr(span_reading, name, one)
    monkeypatch.setattr(topic, "partitions", 1)
    topic.send([d.create(FLAT, {"id": key, "v": "a"}) for key in range(400)])
    one, other = TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)
    source = SourceSettings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,))

    def read(span: Span, lane: str = "a") -> list[int]:
        request = Request(1, lane, ranges_of(span, KnownTerms()), {})
        rows = reading.rows(request)
        assert [last.offset + 1 for last in reading.lasts(request, span.end)] == [span.end[one]]
        return rows["offset"].to_pylist()

    decoding = Decoding(DebeziumJson())
    with closing(SpanReading(source, decoding, lambda: False, lambda _: None, has_function=False)) as reading:
        assert read(Span.of(one, 0, 50)) == [*range(50)]
        assert read(Span.of(one, 50, 200)) == [*range(50, 200)]
        assert read(Span.of(one, 200, 210)) == [*range(200, 210)]
        assert made == ["messages", "blocks"]
        both = Span(start=Offsets.of({one: 210, other: 0}), end=Offsets.of({one: 400, other: 0}))
        assert read(both) == [*range(210, 400)]
        assert made == ["messages", "blocks", "messages"]
        monkeypatch.setattr(span_reading, "loaded", partial(_raise, OSError("no space left")))
        assert read(Span.of(one, 0, 200), "b") == [*range(200)]
        assert made == ["messages", "blocks", "messages", "messages"]


def test_the_archive_waits_for_no_span_ahead(lane: MakeLane, target: Target, topic: Topic) -> None:
    """One process, and an epoch with an archive; the span behind it waits for a table that the lane learns at its
    turn."""
    tables = [Table(f"flat_{number}", {"id": INT, "v": TEXT}) for number in range(5)]
    target.create(*tables)
    made, d = lane("two-phase", archived=True, epoch={"max_messages": 10}, stage={"tasks": 1}), Debezium()
    topic.send([d.create(table, {"id": key, "v": "a"}) for table in tables for key in range(10)])
    made.run_until_caught_up()
    questions(target, topic, archive=made.archive)


def _raise(error: Exception) -> NoReturn:
    raise error


class Desk:
    """A stager in this process, with tables of its own."""

    def __init__(self, target: Target, topic: Topic, *, is_successor: bool = False) -> None:
        source = SourceSettings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,))
        config = StageConfig(source, make_url(target.url), OWNER)
        self._target, self._topic = target, topic
        self.wanted: list[Wanted] = []
        self.clearing = Clearing.DELETE
        self._stager = Stager(config, lambda: False, is_successor=is_successor)

    def stage(self, first: int, end: int, tables: Tables | None = None) -> Receipt | Declined:
        tp = TopicPartition(self._topic.name, 0)
        found = self._stager.arrange(Request(1, "desk", ranges_of(Span.of(tp, first, end), KnownTerms()), tables or {}))
        if not isinstance(found, ArrangedSpan):
            return found
        wanted = found.wanted()
        receipt = self._stager.copy(found, {} if wanted is None else self._grant(wanted))
        if isinstance(receipt, Receipt):
            self._fill(receipt)
        return receipt

    def rows(self, kind: RowKind) -> Sequence[Row[Any]]:
        return self._target.execute(f"select * from stage_{kind} order by 1")

    def close(self) -> None:
        self._stager.__exit__(None, None, None)

    def _fill(self, receipt: Receipt) -> None:
        """As the lane does when it merges a few changes."""
        with self._target.as_lane.begin() as connection:
            for statement in (statement for one in receipt.staged for statement in one.statements):
                run(connection, statement)

    def _grant(self, wanted: Wanted) -> Tables:
        self.wanted.append(wanted)
        layouts = [Layout.parse(one.layout) for one in wanted.layouts]
        for layout in layouts:
            columns = ", ".join(f"{name} text" for name in layout.columns)
            self._target.execute(f"create unlogged table if not exists stage_{layout.kind} ({columns})")
            self._target.give(f"stage_{layout.kind}")
        return {one.text: RequestTable(f"stage_{one.kind}", one.columns, self.clearing) for one in layouts}


@pytest.fixture
def desk(target: Target, topic: Topic) -> Iterator[Desk]:
    made = Desk(target, topic)
    yield made
    made.close()


def test_a_receipt(desk: Desk, target: Target, topic: Topic) -> None:
    d = Debezium()
    sent = [
        d.create(FLAT, {"id": 1, "v": "a"}),
        d.update(FLAT, {"id": 1, "v": "b"}),
        d.create(FLAT, {"id": 2, "v": "c"}),
        d.delete(FLAT, {"id": 2, "v": "c"}),
        d.create(FLAT, {"id": 3, "v": None}),
        d.delete(FLAT, {"id": 4, "v": "x"}),
    ]
    topic.send(sent)
    receipt = desk.stage(0, 6)
    assert isinstance(receipt, Receipt)
    staged = {Layout.parse(one.layout).kind: one for one in receipt.staged}
    assert receipt.messages == 6
    assert {kind: (one.messages, one.rows, one.first.offset, one.key) for kind, one in staged.items()} == {
        RowKind.UPSERT: (4, 2, 0, ("id",)),
        RowKind.DELETE: (2, 2, 3, ("id",)),
    }
    assert desk.rows(RowKind.UPSERT) == [("1", "b"), ("3", None)]
    assert desk.rows(RowKind.DELETE) == [("2",), ("4",)]
    assert dict(receipt.end) == {TopicPartition(topic.name, 0): 6}
    assert (receipt.held, receipt.waiting) == (0, ())
    assert len(receipt.source_times) == 6
    (last,) = last_messages(receipt.lasts).values()
    assert last.offset == 5
    assert [one.layouts[0].first.offset for one in desk.wanted] == [0]


@pytest.mark.parametrize("deletes", [INSERT_ROWS, INSERT_ROWS + 1])
def test_deletes_beside_many_upserts(
    deletes: int, desk: Desk, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are copied, too, unless they are few."""
    copied, copy = list[int](), staging_copy.copy_lines

    def copy_lines(connection: Connection, name: str, columns: Iterable[str], lines: staging_copy.CopyLines) -> int:
        copied.append(copy(connection, name, columns, lines))
        return copied[-1]

    monkeypatch.setattr(staging_copy, "copy_lines", copy_lines)
    d, upserts = Debezium(), INSERT_BYTES // 100
    topic.send([d.create(FLAT, {"id": number, "v": "x" * 100}) for number in range(upserts)])
    topic.send([d.delete(FLAT, {"id": number, "v": "x"}) for number in range(upserts, upserts + deletes)])
    receipt = desk.stage(0, upserts + deletes)
    assert isinstance(receipt, Receipt)
    assert copied == ([upserts] if deletes == INSERT_ROWS else [upserts, deletes])
    assert [len(desk.rows(kind)) for kind in (RowKind.UPSERT, RowKind.DELETE)] == [upserts, deletes]
    assert [one.rows for one in receipt.staged] == [upserts, deletes]


@pytest.mark.parametrize("is_successor", [False, True])
def test_compiled_code_that_may_have_killed_the_process_before(
    is_successor: bool, target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not loaded before a long span."""
    expected = list[int]()
    monkeypatch.setattr(DebeziumJson, "expect", lambda _, messages: expected.append(messages))
    topic.send([Debezium().create(FLAT, {"id": number, "v": "a"}) for number in range(7)])
    with closing(Desk(target, topic, is_successor=is_successor)) as desk:
        assert isinstance(desk.stage(0, 7), Receipt)
    assert expected == ([] if is_successor else [7])


@pytest.mark.parametrize("clearing", [Clearing.DELETE, Clearing.TRUNCATE], ids=lambda way: way.name)
def test_rows_of_an_attempt_before_are_gone(clearing: Clearing, desk: Desk, target: Target, topic: Topic) -> None:
    d, desk.clearing = Debezium(), clearing
    topic.send([d.create(FLAT, {"id": number, "v": "a"}) for number in range(10)])
    assert isinstance(desk.stage(0, 7), Receipt)
    assert isinstance(desk.stage(7, 10), Receipt)
    assert [row[0] for row in desk.rows(RowKind.UPSERT)] == ["7", "8", "9"]


@pytest.mark.parametrize(
    "bad",
    [
        Message(key=b'{"id": 1}', value=b"{"),
        Message(key=b'{"id": 1}', value=b"\xff"),
        Debezium().truncate(FLAT),
        Message(key=None, value=Debezium().create(FLAT, {"id": 1, "v": "a"}).value),
    ],
    ids=["not JSON", "not UTF-8", "truncate", "no key"],
)
def test_what_is_declined(bad: Message, desk: Desk, target: Target, topic: Topic) -> None:
    """Nothing of it is staged, and no table is asked for."""
    d = Debezium()
    topic.send([d.create(FLAT, {"id": 1, "v": "a"}), bad, d.create(FLAT, {"id": 2, "v": "b"})])
    assert isinstance(desk.stage(0, 3), Declined)
    assert not desk.wanted
    assert isinstance(desk.stage(2, 3), Receipt), "it goes on"


def test_offsets_that_are_not_there(desk: Desk, target: Target, topic: Topic) -> None:
    topic.send([Debezium().create(FLAT, {"id": 1, "v": "a"})])
    found = desk.stage(5, 6)
    assert isinstance(found, Declined)
    assert "MessagesGone" in found.because or "LogTruncated" in found.because
    assert isinstance(desk.stage(0, 1), Receipt)


@pytest.fixture(scope="module")
def pool(spark: SparkSession, kafka: Kafka, target_server: Postgres) -> Iterator[Pool]:
    """One task that runs the user's function `obey`."""
    config = StageConfig(
        SourceSettings(bootstrap_servers=kafka.bootstrap, topics=("unread",)),
        make_url(target_server.url("postgres")).set(drivername="postgresql+psycopg2"),
        None,
        function="tests.transforms:obey",
    )
    with closing(Pool(ComingSession.of(spark), config, 1, 60.0)) as made:
        made.start()
        eventually(lambda: [one for one in made.processes if one.hello.watches], 60, "a task")
        yield made


@pytest.mark.parametrize("deed", ["kill", "segfault", "exit"])
def test_a_message_that_ends_a_process_of_its_own(deed: str, pool: Pool) -> None:
    cause = pool.tried(_raw(row(1, deed)))
    assert cause is not None
    expected = {"kill": signal.SIGKILL.name, "segfault": signal.SIGSEGV.name, "exit": "status 3"}[deed]
    assert expected in cause


@pytest.mark.parametrize("v", ["good", "raise"])
def test_a_message_that_a_process_of_its_own_survives(v: str, pool: Pool) -> None:
    assert pool.tried(_raw(row(1, v))) is None


def _raw(message: Message) -> RawMessage:
    return RawMessage(
        position=Position("made-up", 0, 0), key=message.key, value=message.value, headers=(), timestamp_ms=None
    )


def test_tables_of_lost_processes_are_dropped(lane: MakeLane, target: Target) -> None:
    """With the next one that is made; one that a session has locked later. However many are lost, few are there."""
    target.create(FLAT)
    settings = lane("two-phase", topics=(), source={"topics": ["any"]}).settings
    engine, schema = make_engine(target.url, OWNER), settings.target.db_schema
    rules, text = (
        TargetRules(settings.target, settings.source.modes),
        SEPARATOR.join([RowKind.UPSERT, "", "public", "flat", "id"]),
    )
    shapes = TablePlans(engine, schema, settings.lane, rules, lambda *_: {})
    lending = Lending(engine, schema, settings.lane)
    shape = shapes.shape(Layout.parse(text), Position("any", 0, 0))
    assert shape is not None
    locked = lending.lend(text, shape)
    with engine.begin() as other:
        other.exec_driver_sql(f"lock table {locked.shape.staging.name} in row exclusive mode")
        lending.lose(locked)
        for _ in range(5):
            lending.lose(lending.lend(text, shape))
            assert len(_staging_tables(target)) == 3, "the driver's own, the locked one, and the one that was made last"
    kept = lending.lend(text, shape)
    names = [one.staging.name.rpartition(".")[2].strip('"') for one in (shape, kept.shape)]
    assert _staging_tables(target) == sorted(names)
    lending.close()


def _staging_tables(target: Target) -> Sequence[str]:
    named = "select relname from pg_class where relname like 'stage_%' and relkind = 'r' order by 1"
    return [row.relname for row in target.execute(named)]


def _pythons(process: LaneProcess) -> list[psutil.Process]:
    """Of the lane, but for the driver: the fork server, its forks, and what waits for them under the JVM."""
    found = [] if process.worker is None else process.worker.children(recursive=True)
    return [one for one in found if is_python(one)]


def _has_compiler(process: LaneProcess) -> bool:
    """Whether a process of the lane has loaded what runs compiled code."""
    processes = [one for one in (process.worker, *_pythons(process)) if one is not None]
    return any("llvmlite" in file.path for one in processes for file in one.memory_maps())


def test_a_nul_character_gets_into_no_statement(desk: Desk, target: Target, topic: Topic) -> None:
    """It would end the text of all statements that are sent together. COPY says what is wrong."""
    d = Debezium()
    topic.send([d.create(FLAT, {"id": 1, "v": "a"}), d.create(FLAT, {"id": 2, "v": "a\0b"})])
    found = desk.stage(0, 2)
    assert isinstance(found, Declined)
    assert "22021" in found.because
    few = desk.stage(0, 1)
    assert isinstance(few, Receipt)
    assert few.staged[0].statements
