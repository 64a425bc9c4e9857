"""A lane's quarantine and the topic that its dead letters go to, without a lane."""

from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from app.config.settings import Settings, SourceSettings
from app.kafka.broker import Broker
from app.ledger.store import Ledger
from app.metrics.lane_metrics import LaneMetrics
from app.model.message import RawMessage
from app.model.offsets import Position
from app.poison.attempts import Attempts
from app.poison.guard import Guard, Limits
from app.quarantine.quarantine import Entry, Quarantine
from app.worker.dead_letter_sender import DeadLetterSender
from app.worker.lane_writer import LaneWriter
from tests.fix_target import SCHEMA, Target
from tests.waiting import eventually
from tools.devstack import Kafka


def letters(kafka: Kafka, topic: str) -> list[RawMessage]:
    """Everything in partition 0 of a topic."""
    with Broker(SourceSettings(bootstrap_servers=kafka.bootstrap, topics=(topic,))) as broker:
        return broker.messages(Position(topic, 0, 0), 10_000)


class Post:
    """One lane's dead letters; `run` is a life of the process that sends them."""

    def __init__(self, kafka: Kafka, target: Target, topic: str) -> None:
        self.kafka, self.target, self.topic = kafka, target, topic
        self.options: dict[str, str] = {}
        self.redact: list[str] = []
        self.quarantine = Quarantine(SCHEMA, target.lane)
        self.registry = CollectorRegistry()
        engine, self._ledger = target.as_lane, Ledger(SCHEMA, target.lane)
        guard = Guard(Attempts(engine, SCHEMA, target.lane), Limits(max_attempts=3, max_losses=5))
        self._writer = LaneWriter(
            name=target.lane,
            engine=engine,
            ledger=self._ledger,
            partition=None,
            guard=guard,
            quarantine=self.quarantine,
        )
        self._writer.generation = self.claim()
        self._running: list[DeadLetterSender] = []

    def claim(self) -> int:
        """A new generation, as a new writer does."""
        with self.target.engine.begin() as connection:
            return self._ledger.claim(connection, checkpoint="none", delivery="test", at_least=0).generation

    def keep(self, *entries: Entry) -> None:
        """Put entries into quarantine, committed."""
        with self.target.engine.begin() as connection:
            self.quarantine.add(connection, 1, 5, entries)

    def start(self) -> DeadLetterSender:
        """Start the thread."""
        settings = Settings.of(
            {
                "lane": self.target.lane,
                "source": {"bootstrap_servers": self.kafka.bootstrap, "topics": ["elsewhere"]},
                "target": self.target.section,
                "guard": {"dead_letter": {"topic": self.topic, "options": self.options}, "redact": self.redact},
            }
        )
        dead_letter = settings.guard.dead_letter
        assert dead_letter is not None
        metrics = {self.target.lane: LaneMetrics(self.target.lane, self.registry)}
        made = DeadLetterSender(settings, dead_letter, {self.target.lane: self._writer}, metrics)
        made.start()
        self._running.append(made)
        return made

    def run(self) -> None:
        """From start to end."""
        self.start()
        self.stop()

    def stop(self) -> None:
        """What was started."""
        while self._running:
            self._running.pop().stop()

    @property
    def letters(self) -> list[RawMessage]:
        """What the topic has."""
        return letters(self.kafka, self.topic)

    @property
    def offsets(self) -> list[int]:
        """Where the letters' messages came from."""
        return [int(dict(one.headers)["__connect.errors.offset"] or b"") for one in self.letters]

    @property
    def unmarked(self) -> list[int]:
        """Offsets of the entries that count as unsent."""
        rows = self.target.execute(
            'select "offset" from surelane.quarantine where lane = :lane and dead_lettered_at is null order by id',
            lane=self.target.lane,
        )
        return [row.offset for row in rows]

    def metric(self, name: str) -> float:
        """A number of this lane."""
        return self.registry.get_sample_value(f"surelane_{name}", {"lane": self.target.lane}) or 0.0

    def until(self, condition: Callable[[], object], why: str) -> None:
        """Wait for it."""
        eventually(condition, 60.0, why)


@pytest.fixture
def post(kafka: Kafka, target: Target) -> Iterator[Post]:
    """Dead letters of the test's lane, for a topic that is there."""
    kafka.start()  # in case a test before left it stopped
    topic = f"dead-{target.lane}"
    kafka.create_topic(topic, 1)
    made = Post(kafka, target, topic)
    yield made
    made.stop()
