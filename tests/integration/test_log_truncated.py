"""A log that lost its end and has grown past it again: its offsets mean other messages than those that were applied."""

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from app.config.settings import CommitMode, SourceSettings
from app.errors import ExitStatus, LogTruncated, Unreachable
from app.kafka import gather
from app.kafka.batch import Batch
from app.kafka.block_reader import BlockReader
from app.kafka.broker import Broker
from app.kafka.exact_reader import ExactReader
from app.kafka.spans import SpanReader
from app.model.last import LastMessage, from_nested
from app.model.offsets import Offsets, Position, Span, TopicPartition
from tests.fix_lane import MODES, LaneUnderTest, MakeLane
from tests.fix_recover import forget
from tests.fix_runbook import MakeOperator, printed, wanted
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message
from tests.runbook import commands, of
from tests.waiting import eventually
from tests.workload import COUNTER
from tools.devstack import Kafka

PAGE = "log-truncated.md"
STOPPED = "Stopped with status 6"
KEPT, LOST, MORE = 10, 5, 10
_DEBEZIUM = Debezium()
_LAST = "select last_message from surelane.ledger where lane = :lane order by generation desc, epoch desc limit 1"


def counters(first: int, count: int) -> list[Message]:
    return [_DEBEZIUM.update(COUNTER, {"id": n % 4, "hits": n}) for n in range(first, first + count)]


class Log:
    """The log of a topic's partition 0, whose end can get lost."""

    def __init__(self, kafka: Kafka, topic: Topic, copy: Path) -> None:
        self.kafka, self.topic, self._copy = kafka, topic, copy
        self._folder = kafka.data_dir / "log" / f"{topic.name}-0"

    def keep(self) -> None:
        """What is there now will be all that there is after `lose`."""
        self.kafka.stop()
        shutil.copytree(self._folder, self._copy)
        self.kafka.start()
        eventually(self._is_led, why="the leader of the new term to be known")

    def lose(self) -> None:
        """Bring the broker back without it; a producer that had written it is not used again."""
        self.kafka.stop()
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)
        self.kafka.start()
        eventually(self._is_led, why="the leader of the new term to be known")
        kept = self.topic.sent[:KEPT]
        self.topic.restart()
        self.topic.sent += kept

    def _is_led(self) -> bool:
        try:
            return self.topic.end >= 0
        except KafkaException:
            return False


@pytest.fixture
def log(kafka: Kafka, topic: Topic, target: Target, tmp_path: Path) -> Iterator[Log]:
    """With KEPT messages that will stay, and LOST that will not."""
    target.create(COUNTER)
    topic.send(counters(0, KEPT))
    made = Log(kafka, topic, tmp_path / "log")
    made.keep()
    topic.send(counters(100, LOST))
    yield made
    kafka.start()


def truncated(lane: LaneUnderTest) -> LogTruncated:
    """How the lane ends."""
    with pytest.raises(LogTruncated) as refused:
        lane.run_until_caught_up()
    return refused.value


def last(target: Target) -> dict[TopicPartition, LastMessage]:
    ((found,),) = target.execute(_LAST, lane=target.lane)
    return from_nested(found)


def test_a_log_that_grew_past_the_ledgers_end(
    log: Log, lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic
) -> None:
    """Nothing is applied, and an operator can go on."""
    made = operator(lane(CommitMode.TWO_PHASE))
    made.lane.run_until_caught_up()
    position, rows = target.position(), target.rows("public.counter")
    log.lose()
    topic.send(counters(200, MORE))
    assert topic.end > position[TopicPartition(topic.name, 0)]
    error = truncated(made.lane)
    assert error.exit_status is ExitStatus.DIVERGED
    assert printed(error.hint) == wanted(PAGE, STOPPED)
    assert (target.position(), target.rows("public.counter")) == (position, rows)
    assert made.surelane("recover", "--from-ledger").status == ExitStatus.DIVERGED

    values = {"position": str(position), "onward": str(position), "n": str(MORE - LOST), "why": "a test"}
    assert made.statuses(PAGE, STOPPED, **values) == [ExitStatus.DIVERGED, 0, 0, 0]
    assert dict(target.position()) == topic.ends
    ((rewritten,),) = target.execute("select rewritten from surelane.gap")
    assert list(rewritten) == [f"{topic.name}[0]"]
    newest = 200 + MORE - 1
    assert target.rows("public.counter")[(newest % 4,)]["hits"] == newest
    made.lane.run_until_caught_up()


def test_a_log_that_is_shorter(log: Log, lane: MakeLane, operator: MakeOperator, target: Target, topic: Topic) -> None:
    """The lane goes on at its end."""
    made = operator(lane(CommitMode.TWO_PHASE))
    made.lane.run_until_caught_up()
    log.lose()
    topic.send(counters(200, 2))
    assert f"the log ends at {KEPT + 2}" in str(truncated(made.lane))
    onward = f"{topic.name}[0]@{KEPT + 2}"
    values = {"position": str(target.position()), "onward": onward, "n": "0", "why": "a test"}
    assert made.statuses(PAGE, STOPPED, **values) == [ExitStatus.DIVERGED, 0, 0, 0]
    topic.send(counters(300, 1))
    made.lane.run_until_caught_up()
    assert target.rows("public.counter")[(300 % 4,)]["hits"] == 300


def test_lost_while_the_lane_runs(log: Log, lane: MakeLane, target: Target, topic: Topic) -> None:
    """The broker comes back without its last writes: the lane ends with the same error, and applies nothing more."""
    running = lane(CommitMode.TWO_PHASE)
    running.start()
    running.until_caught_up(topic)
    position = target.position()
    log.lose()
    topic.send(counters(200, MORE))
    error = running.join()
    assert isinstance(error, LogTruncated), error
    assert error.exit_status is ExitStatus.DIVERGED
    assert printed(error.hint) == wanted(PAGE, STOPPED)
    assert target.position() == position


def read_again(reader: ExactReader[Batch], span: Span) -> None:
    """Once more where there was no answer for 30 s, as a lane does."""
    with suppress(Unreachable):
        reader.read(span)
    reader.read(span)


@pytest.mark.parametrize("make", [SpanReader, lambda source: BlockReader(source, gather.loaded())])
def test_a_consumer_with_a_leader_epoch(
    make: Callable[[SourceSettings], ExactReader[Batch]], log: Log, topic: Topic
) -> None:
    """It does not read on behind what was lost, whether it begins there or has read until there."""
    tp, end = TopicPartition(topic.name, 0), KEPT + LOST
    source = SourceSettings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,))
    here, before = Offsets.of({tp: end}), Offsets.of({tp: 0})
    with closing(make(source)) as running, closing(make(source)) as started:
        running.read(Span(start=before, end=here))
        read = running.last(tp, end)
        assert read is not None
        assert read.leader_epoch is not None
        log.lose()
        topic.send(counters(200, MORE))
        behind = Span(start=here, end=Offsets.of({tp: KEPT + MORE}))
        started.go_to(here, {tp: read.leader_epoch})
        for reader in (started, running):
            with pytest.raises(LogTruncated):
                read_again(reader, behind)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_each_epoch_writes_what_identifies_its_last_message(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    target.create(COUNTER)
    made = lane(mode)
    tp = TopicPartition(topic.name, 0)
    for first in (0, KEPT):
        sent = topic.send(counters(first, KEPT))
        made.run_until_caught_up()
        found, message = last(target)[tp], sent[-1].message
        assert found.offset == sent[-1].position.offset
        assert (found.leader_epoch, found.timestamp_ms is None) == (0, False)
        same = LastMessage.of(found.offset, message.key, message.value, timestamp_ms=None, leader_epoch=None)
        assert found.digest == same.digest


def test_deleted_by_retention(lane: MakeLane, target: Target, topic: Topic, kafka: Kafka) -> None:
    """There is nothing to compare, and the lane goes on; a new leader has taken over meanwhile."""
    target.create(COUNTER)
    made = lane(CommitMode.TWO_PHASE)
    topic.send(counters(0, KEPT))
    made.run_until_caught_up()
    forget(kafka, topic.name, KEPT)
    kafka.restart()
    topic.send(counters(KEPT, KEPT))
    made.run_until_caught_up()
    assert dict(target.position()) == topic.ends


def test_removed_by_compaction(lane: MakeLane, target: Target, kafka: Kafka) -> None:
    """The segment that is written is never compacted, so each message begins a new one."""
    target.create(COUNTER)
    name = f"cdc-{uuid.uuid4().hex[:10]}"
    kafka.create_topic(name, 1, cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.001")
    topic = Topic(kafka, name, 1)
    made = lane(CommitMode.TWO_PHASE, topics=(topic,))
    topic.send(counters(0, KEPT))
    made.run_until_caught_up()
    removed = Position(topic.name, 0, KEPT - 1)
    with Broker(made.settings.source) as broker:
        for number in range(KEPT, KEPT + 8):
            topic.send(counters(number, 1))
        eventually(lambda: broker.message(removed) is None, why="the topic to be compacted")
    made.run_until_caught_up()
    assert dict(target.position()) == topic.ends


def test_compaction_hides_no_truncation(log: Log, topic: Topic) -> None:
    """Where no message can be compared the leader epoch decides."""
    source = SourceSettings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,))
    with Broker(source) as broker:
        before, lost = Position(topic.name, 0, KEPT - 1), Position(topic.name, 0, KEPT + LOST - 1)
        terms = [broker.messages(position, 1)[0].leader_epoch for position in (before, lost)]
        log.lose()
        topic.send(counters(200, MORE))
        broker.check_term(before, terms[0])
        with pytest.raises(LogTruncated):
            broker.check_term(lost, terms[1])


def test_a_row_of_an_older_version(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(COUNTER)
    made = lane(CommitMode.TWO_PHASE)
    topic.send(counters(0, KEPT))
    made.run_until_caught_up()
    target.execute("update surelane.ledger set last_message = null")
    topic.send(counters(KEPT, KEPT))
    made.run_until_caught_up()
    assert last(target)[TopicPartition(topic.name, 0)].offset == 2 * KEPT - 1


def test_every_command_of_the_page_is_played_above() -> None:
    assert len(commands(PAGE)) == len(of(PAGE, STOPPED))
