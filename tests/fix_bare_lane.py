"""A lane without Kafka and Spark, on a real target: it is fed with decoded messages, epoch by epoch."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest
from prometheus_client import CollectorRegistry

from app.apply.applier import Applier
from app.apply.shapes import Shapes
from app.commit.committer import OnePhase
from app.config.routes import Routes
from app.db.engine import make_engine
from app.lane.lane import Lane
from app.ledger.store import Ledger
from app.metrics.lane import LaneMetrics
from app.model.epoch import GENESIS, EpochRecord
from app.model.offsets import Offsets, Position, Span, TopicPartition
from tests.decoded import decoded
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Sent
from tests.messages import Message
from tests.oracle import difference, fold

#: what a made-up message's position says
TOPIC = TopicPartition("made-up", 0)
ROUTES = {"public.*": "public.*"}


class BareLane:
    """One generation of one lane; `apply` is an epoch. What was applied is in `sent`, for the oracle."""

    def __init__(self, target: Target, name: str, routes: Mapping[str, str], *, ignore_unknown: bool) -> None:
        self.target, self.name = target, name
        self.sent: list[Sent] = []
        self._engine = make_engine(target.url, application_name=f"surelane {name}")
        self._ledger = Ledger(SCHEMA, name)
        self._connection = self._engine.connect()
        self._generation = self._begin()
        shapes = Shapes(self._engine, SCHEMA, name, Routes(routes), ignore_unknown, lambda *_: {})
        shapes.reset()
        metrics = LaneMetrics(name, CollectorRegistry())
        committer, applier = OnePhase(reapplies=False), Applier(name, shapes)
        self.lane = Lane(name, self._generation, self._connection, self._ledger, committer, applier, metrics)
        self._epoch = 0

    def apply(self, messages: Iterable[Message], *, shuffle: int | None = None) -> EpochRecord:
        """One epoch with these messages; `shuffle`: in the order in which Spark's tasks might deliver them."""
        sent = self._place(messages)
        span = Span(start=self.lane.position, end=Offsets.of({TOPIC: len(self.sent) + len(sent)}))
        rows = list(sent)
        if shuffle is not None:
            random.Random(shuffle).shuffle(rows)
        self.lane.process_epoch(self._epoch, span, lambda: decoded(rows))
        self.sent += sent
        self._epoch += 1
        record = self.target.ledger(self.name)
        assert record is not None
        return record

    def check(self) -> None:
        """The target equals the oracle."""
        for table, expected in fold(self.sent).items():
            assert (text := difference(table, self.target.rows(table), expected)) is None, text

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _place(self, messages: Iterable[Message]) -> list[Sent]:
        first = len(self.sent)
        return [
            Sent(message=message, position=Position(*TOPIC, first + index), number=first + index)
            for index, message in enumerate(messages)
        ]

    def _begin(self) -> int:
        start = Offsets.of({TOPIC: 0})
        with self._connection.begin():
            generation = self._ledger.claim(self._connection, checkpoint="none", delivery="test", at_least=0)
            self._ledger.activate(self._connection, generation, "none")
            record = EpochRecord(
                lane=self.name, generation=generation, epoch=GENESIS, span=Span(start=start, end=start)
            )
            self._ledger.record(self._connection, record)
        return generation


MakeBareLane = Callable[..., BareLane]


@pytest.fixture
def bare_lane(target: Target) -> Iterator[MakeBareLane]:
    """`bare_lane(routes=..., ignore_unknown=False)`: a new lane on the test's target, with a name of its own."""
    made: list[BareLane] = []

    def make(routes: Mapping[str, str] = ROUTES, *, ignore_unknown: bool = False, name: str | None = None) -> BareLane:
        made.append(BareLane(target, name or f"{target.lane}-{len(made)}", routes, ignore_unknown=ignore_unknown))
        return made[-1]

    yield make
    for lane in made:
        lane.close()
