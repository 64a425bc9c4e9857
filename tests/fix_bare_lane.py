"""A lane without Kafka and Spark, on a real target: it is fed with decoded messages, epoch by epoch."""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from app.apply.applier import Applier
from app.apply.shapes import Shapes
from app.commit.committer import OnePhase
from app.config.redaction import Redaction
from app.config.routes import Routes
from app.config.settings import OnSkip
from app.db.engine import make_engine
from app.guard.attempts import Attempts
from app.guard.guard import Guard, Limits
from app.guard.quarantine import Quarantine
from app.kafka.broker import RawMessage
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
LIMITS = Limits(max_attempts=3, max_losses=5)
ROUTES = {"public.*": "public.*"}


class Death(BaseException):
    """The process ends here."""


class DecodedSource:
    """The messages of one epoch, decoded without Spark (`app.lane.reading.Source`); reading a killer is death."""

    def __init__(self, sent: list[Sent], killers: Collection[int]) -> None:
        self._sent, self._killers = sent, killers

    def all(self) -> pa.Table:
        """Every row."""
        return self._decoded(self._sent)

    def part(self, span: Span) -> pa.Table:
        """The rows whose offsets are in the span."""
        return self._decoded(
            [one for one in self._sent if span.start[one.tp] <= one.position.offset < span.end[one.tp]]
        )

    def message(self, position: Position) -> RawMessage | None:
        """As Kafka would give it."""
        found = next((one.message for one in self._sent if one.position == position), None)
        if found is None:
            return None
        return RawMessage(position=position, key=found.key, value=found.value, headers=(), timestamp_ms=0)

    def _decoded(self, sent: list[Sent]) -> pa.Table:
        if any(one.position.offset in self._killers for one in sent):
            raise Death
        return decoded(sent)


class BareLane:
    """A lane; `apply` is an epoch, `reopen` what a new process does. What was applied is in `sent`, for the oracle."""

    def __init__(
        self,
        target: Target,
        name: str,
        routes: Mapping[str, str],
        *,
        ignore_unknown: bool,
        on_skip: OnSkip,
        guard: Target,
        redact: Collection[str],
    ) -> None:
        self.target, self.name = target, name
        #: the database of the guard's own tables
        self.guard = guard
        self.sent: list[Sent] = []
        #: offsets of messages that kill whoever reads them
        self.killers: Collection[int] = ()
        self._routes, self._ignore_unknown, self._on_skip = Routes(routes), ignore_unknown, on_skip
        self._engine = make_engine(target.url, application_name=f"surelane {name}")
        engine = make_engine(guard.url, application_name=f"surelane {name} guard")
        self._attempts = Attempts(engine, SCHEMA, name, discreet=bool(redact))
        self._redaction = Redaction(redact)
        #: what Prometheus would read
        self.metrics = CollectorRegistry()
        self._lane_metrics = LaneMetrics(name, self.metrics)
        self._ledger = Ledger(SCHEMA, name)
        self._epoch = 0
        self._open(self._new_guard())

    def reopen(self) -> None:
        """As a new process after this one's death: nothing but the tables is left."""
        self._close()
        self._open(self._new_guard())

    def reconnect(self) -> None:
        """As the same process after it lost a connection."""
        self._close()
        self._open(self._guard)

    def _new_guard(self) -> Guard:
        return Guard(self._attempts, LIMITS, metrics=self._lane_metrics)

    def _close(self) -> None:
        self._connection.invalidate()
        self.close()

    def _open(self, guard: Guard) -> None:
        self._connection = self._engine.connect()
        self._generation = self._begin()
        shapes = Shapes(self._engine, SCHEMA, self.name, self._routes, self._ignore_unknown, lambda *_: {})
        shapes.reset()
        self._guard = guard
        self.lane = Lane(
            self.name,
            self._generation,
            self._connection,
            self._ledger,
            OnePhase(reapplies=False),
            Applier(self.name, shapes),
            self._guard,
            Quarantine(SCHEMA, self.name),
            self._on_skip,
            self._redaction,
            self._lane_metrics,
        )
        self._guard.open(self._generation, self.lane.position, None)

    def apply(self, messages: Iterable[Message], *, shuffle: int | None = None) -> EpochRecord:
        """One epoch with these messages; `shuffle`: in the order in which Spark's tasks might deliver them."""
        sent = self._place(messages)
        span = Span(start=self.lane.position, end=Offsets.of({TOPIC: len(self.sent) + len(sent)}))
        rows = list(sent)
        if shuffle is not None:
            random.Random(shuffle).shuffle(rows)
        self.lane.process_epoch(self._epoch, span, DecodedSource(rows, self.killers))
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
        self._guard.close()
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
            if self._ledger.last(self._connection) is None:
                span = Span(start=start, end=start)
                record = EpochRecord(lane=self.name, generation=generation, epoch=GENESIS, span=span)
                self._ledger.record(self._connection, record)
        return generation


MakeBareLane = Callable[..., BareLane]


@pytest.fixture
def bare_lane(target: Target) -> Iterator[MakeBareLane]:
    """`bare_lane(...)`: a new lane on the test's target, with a name of its own; `guard`: the guard's database."""
    made: list[BareLane] = []

    def make(
        routes: Mapping[str, str] = ROUTES,
        *,
        ignore_unknown: bool = False,
        name: str | None = None,
        on_skip: OnSkip = OnSkip.STOP,
        guard: Target = target,
        redact: Collection[str] = (),
    ) -> BareLane:
        name = name or f"{target.lane}-{len(made)}"
        lane = BareLane(
            target, name, routes, ignore_unknown=ignore_unknown, on_skip=on_skip, guard=guard, redact=redact
        )
        made.append(lane)
        return lane

    yield make
    for lane in made:
        lane.close()
