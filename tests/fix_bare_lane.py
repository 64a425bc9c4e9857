"""A lane without Kafka and Spark, on a real target: it is fed with decoded messages, epoch by epoch."""

import datetime
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from threading import Event

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from app.apply.applier import Applier
from app.apply.rules import TargetRules
from app.apply.table_plans import TablePlans
from app.config.on_skip import OnSkip, SkipPolicy
from app.config.redaction import Redaction
from app.config.settings import BreakerSettings, CommitMode, TargetSettings
from app.db.engine import make_engine
from app.epoch.epoch_batch import EpochBatch
from app.lane.alignment import Alignment
from app.lane.lane import Lane
from app.ledger.store import Ledger
from app.metrics.lane_metrics import LaneMetrics
from app.model.activity import Activity
from app.model.death import Cause
from app.model.death import Death as EndOfWorker
from app.model.epoch import GENESIS, EpochRecord
from app.model.last import LastMessages
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.poison.attempts import Attempts
from app.poison.guard import Guard, Limits
from app.protocol.committer import Committer, OnePhase, TwoPhase
from app.protocol.participant import Participant
from app.protocol.target_participant import OneCommitTarget, PreparedTarget
from app.quarantine.quarantine import Quarantine
from app.quarantine.quarantine_writer import QuarantineWriter, Rules
from app.quarantine.releases import QuarantineReleases
from app.transform.function import Function, over
from tests.decoded import decoded
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Sent
from tests.messages import Message
from tests.oracle import difference, fold, up_to

#: what a made-up message's position says
TOPIC = TopicPartition("made-up", 0)
LIMITS = Limits(max_attempts=3, max_losses=5)
ROUTES = {"public.*": "public.*"}


class Death(BaseException):
    """The process ends here."""


class DecodedSource:
    """The messages of one epoch, decoded without Spark (`app.lane.guarded_read.Source`); reading a killer is death."""

    def __init__(
        self,
        sent: list[Sent],
        killers: Collection[int],
        transform: Function | None,
        before: Sequence[Sent] = (),
        on_read: Callable[[list[Sent]], None] = lambda _: None,
        compacted: Collection[int] = (),
    ) -> None:
        """`before`: messages before the epoch's, for those who read a part that begins there; `on_read` may raise;
        `compacted`: offsets that Kafka has no longer once they were decoded."""
        self._on_read, self._compacted = on_read, compacted
        self._planned, self._sent, self._killers, self._transform = sent, [*before, *sent], killers, transform

    def all(self) -> pa.Table:
        """Every row."""
        return self._decoded(self._planned)

    def part(self, span: Span) -> pa.Table:
        """The rows whose offsets are in the span."""
        return self._decoded(
            [one for one in self._sent if span.start[one.tp] <= one.position.offset < span.end[one.tp]]
        )

    def arranged(self, rows: pa.Table) -> EpochBatch:
        """In the lane's order."""
        return EpochBatch.arrange(rows)

    def message(self, position: Position) -> RawMessage | None:
        """As Kafka would give it."""
        found = next((one.message for one in self._sent if one.position == position), None)
        found = None if position.offset in self._compacted else found
        if found is None:
            return None
        return RawMessage(position=position, key=found.key, value=found.value, headers=found.headers, timestamp_ms=0)

    def messages(self, positions: Sequence[Position]) -> list[RawMessage | None]:
        """As Kafka would give them."""
        return [self.message(position) for position in positions]

    def identified(self, span: Span) -> LastMessages:
        """As Kafka would give it."""
        last = {
            one.tp: one.position for one in sorted(self._sent, key=lambda one: one.position) if span.has(one.position)
        }
        found = {tp: self.message(position) for tp, position in last.items()}
        return {tp: one.last for tp, one in found.items() if one is not None}

    def _decoded(self, sent: list[Sent]) -> pa.Table:
        if any(one.position.offset in self._killers for one in sent):
            raise Death
        self._on_read(sent)
        rows = decoded(sent)
        return over(self._transform, rows) if self._transform else rows


class BareLane:
    """A lane; `apply` is an epoch, `reopen` what a new process does. What was applied is in `sent`, for the oracle."""

    def __init__(
        self,
        target: Target,
        name: str,
        tables: TargetRules,
        *,
        rules: Rules,
        mode: CommitMode,
        guard: Target,
        redact: Collection[str],
        transaction_limit: int | None,
    ) -> None:
        #: offsets that log compaction removes once they were decoded
        self.compacted: set[int] = set()
        #: messages that may wait for the rest of their transaction; read when the lane opens
        self.transaction_limit = transaction_limit
        self.target, self.name = target, name
        #: the database of the guard's own tables
        self.guard = guard
        self.sent: list[Sent] = []
        #: offsets of messages that kill the process that reads them
        self.killers: Collection[int] = ()
        self.transform: Function | None = None
        #: called with the number of messages that are read together
        self.on_read: Callable[[int], None] = lambda _: None
        #: offsets of messages for which there is not enough memory
        self.too_large: Collection[int] = ()
        #: offsets of messages that kill the process that releases them
        self.release_killers: Collection[int] = ()
        #: what the configuration says of tables
        self.tables = tables
        self.rules, self._mode = rules, mode
        self._engine = make_engine(target.url, target.owner_role, f"surelane {name}")
        engine = make_engine(guard.url, guard.owner_role, f"surelane {name} guard")
        self._attempts = Attempts(engine, SCHEMA, name, discreet=bool(redact))
        #: what Prometheus would read
        self.metrics = CollectorRegistry()
        self._lane_metrics = LaneMetrics(name, self.metrics)
        self._ledger = Ledger(SCHEMA, name)
        self._epoch = 0
        #: who takes part in epochs beside the target; read when the lane opens
        self.others: Sequence[Participant] = ()
        self._open(self._new_guard())

    def reopen(self, death: EndOfWorker | None = None) -> None:
        """As a new process after this one's death: nothing but the tables is left. Without `death` it was the process'
        own doing, while it decoded."""
        self._close()
        self._open(self._new_guard(), death or self.ended())

    def reopen_without_report(self) -> None:
        """As `reopen`, after the supervisor died, too."""
        self._close()
        self._open(self._new_guard(), None)

    @property
    def memory_limit(self) -> int | None:
        """Messages that an epoch may have."""
        return self._guard.memory_limit

    def ended(
        self, cause: Cause = Cause.EXIT, detail: str = "status 3", doing: Activity | None = Activity.DECODE
    ) -> EndOfWorker:
        """What a supervisor reports."""
        now = datetime.datetime.now(datetime.UTC)
        return EndOfWorker(cause=cause, detail=detail, at=now, doing={self.name: doing.value} if doing else {})

    def reconnect(self) -> None:
        """As the same process after it lost a connection."""
        self._close()
        self._open(self._guard)

    def _new_guard(self) -> Guard:
        return Guard(self._attempts, LIMITS, metrics=self._lane_metrics)

    def _close(self) -> None:
        self._connection.invalidate()
        self.close()

    def _open(self, guard: Guard, death: EndOfWorker | None = None) -> None:
        self._connection = self._engine.connect()
        self._generation = self._begin()
        shapes = TablePlans(self._engine, SCHEMA, self.name, self.tables, lambda *_: {})
        shapes.reset()
        self._guard = guard
        applier = Applier(self.name, shapes)
        quarantine = Quarantine(SCHEMA, self.name)
        keeping = QuarantineWriter(self.name, self._generation, quarantine, self._guard, self.rules)
        self.release_wanted = Event()
        self.lane = Lane(
            self.name,
            self._generation,
            self._connection,
            self._ledger,
            self._committer(),
            applier,
            self._guard,
            keeping,
            QuarantineReleases(
                self._generation,
                self._ledger,
                quarantine,
                keeping,
                applier,
                self._guard,
                self._decode,
                self.release_wanted,
            ),
            self._lane_metrics,
            Alignment(self.name, self.transaction_limit),
        )
        self._guard.open(self._generation, self.lane.position, death)

    def apply(self, messages: Iterable[Message], *, shuffle: int | None = None) -> EpochRecord:
        """One epoch with these messages; `shuffle`: in the order in which Spark's tasks might deliver them."""
        sent = self._place(messages)
        span = Span(start=self.lane.read, end=Offsets.of({TOPIC: len(self.sent) + len(sent)}))
        rows = list(sent)
        if shuffle is not None:
            random.Random(shuffle).shuffle(rows)
        source = DecodedSource(rows, self.killers, self.transform, self.sent, self._read, self.compacted)
        self.lane.process_epoch(self._epoch, span, source)
        self.lane.committer.commit()
        self.sent += sent
        self._epoch += 1
        record = self.target.ledger(self.name)
        assert record is not None
        return record

    def prepare(self, messages: Iterable[Message]) -> None:
        """The next epoch, up to its pre-commit; nothing decides it."""
        sent = self._place(messages)
        span = Span(start=self.lane.position, end=Offsets.of({TOPIC: len(self.sent) + len(sent)}))
        self.lane.process_epoch(self._epoch, span, DecodedSource(sent, self.killers, self.transform))

    def die(self) -> None:
        """As SIGKILL: the connection is gone, and what is prepared stays."""
        self._connection.invalidate()

    def replay(self) -> None:
        """The last epoch once more, as after a crash before its checkpoint entry."""
        last = self.target.ledger(self.name)
        assert last is not None
        span, sent = Span(start=last.span.start, end=last.read), self.sent[last.span.start[TOPIC] :]
        self.lane.process_epoch(last.epoch, span, DecodedSource(sent, self.killers, self.transform))

    def begin_anew(self) -> None:
        """As a new checkpoint does: the first epoch has what was read and not applied."""
        first = self.lane.position[TOPIC]
        span = Span(start=self.lane.position, end=self.lane.read)
        self.lane.process_epoch(0, span, DecodedSource(self.sent[first:], (), None, self.sent[:first]))
        self.lane.committer.commit()

    def release(self) -> None:
        """What the service does when it has noticed a request, between two epochs."""
        self.release_wanted.set()
        self.lane.release()

    def check(self) -> None:
        """The target equals the oracle."""
        for table, expected in fold(up_to(self.sent, self.lane.position)).items():
            assert (text := difference(table, self.target.rows(table), expected)) is None, text

    def close(self) -> None:
        """Give the connection back."""
        self._guard.close()
        self._connection.close()

    def _read(self, sent: list[Sent]) -> None:
        self.on_read(len(sent))
        if any(one.position.offset in self.too_large for one in sent):
            raise MemoryError

    def _place(self, messages: Iterable[Message]) -> list[Sent]:
        first = len(self.sent)
        return [
            Sent(message=message, position=Position(*TOPIC, first + index), number=first + index)
            for index, message in enumerate(messages)
        ]

    def _committer(self) -> Committer:
        if self._mode is CommitMode.TWO_PHASE:
            target = PreparedTarget(self._connection, self._engine, self._ledger, self._generation)
            return TwoPhase(target, self.others, lambda seconds: self.lane.publish(seconds))
        target = OneCommitTarget(self._connection)
        return OnePhase(target, self.others, reapplies=self._mode is CommitMode.AT_LEAST_ONCE)

    def _decode(self, messages: Sequence[RawMessage]) -> pa.Table:
        """Stored messages, once more."""
        if any(one.position.offset in self.release_killers for one in messages):
            raise Death
        sent = [
            Sent(message=Message(key=one.key, value=one.value), position=one.position, number=0) for one in messages
        ]
        return DecodedSource(sent, (), self.transform).all()

    def _begin(self) -> int:
        start = Offsets.of({TOPIC: 0})
        at_least = self._attempts.last()
        with self._connection.begin():
            newest = at_least.generation if at_least else 0
            generation = self._ledger.claim(
                self._connection, checkpoint="none", delivery="test", at_least=newest
            ).generation
            self._ledger.activate(self._connection, generation, "none")
            if self._ledger.last(self._connection) is None:
                span = Span(start=start, end=start)
                record = EpochRecord(lane=self.name, generation=generation, epoch=GENESIS, span=span)
                self._ledger.record(self._connection, record)
        return generation


MakeBareLane = Callable[..., BareLane]


@pytest.fixture
def bare_lane(target: Target) -> Iterator[MakeBareLane]:
    """`bare_lane(...)`: a new lane on the test's target, with a name of its own; `guard`: the guard's database;
    `tables`: more of the configuration's `target`."""
    made: list[BareLane] = []

    def make(
        routes: Mapping[str, str] = ROUTES,
        *,
        ignore_unknown: bool = False,
        name: str | None = None,
        on_skip: OnSkip = OnSkip.STOP,
        on_skip_tables: Mapping[str, OnSkip] = {},
        max_parked_keys: int = 100,
        breaker: BreakerSettings | None = None,
        mode: CommitMode = CommitMode.LEDGER,
        guard: Target = target,
        redact: Collection[str] = (),
        tables: Mapping[str, object] = {},
        transaction_limit: int | None = None,
    ) -> BareLane:
        section = {"tables": routes, "unknown_table": "ignore" if ignore_unknown else "stop", **tables}
        name = name or f"{target.lane}-{len(made)}"
        rules = Rules(
            policy=SkipPolicy(on_skip, on_skip_tables),
            redaction=Redaction(redact),
            max_parked_keys=max_parked_keys,
            breaker=breaker,
        )
        lane = BareLane(
            target,
            name,
            TargetRules(TargetSettings.model_validate({"url": "postgresql://here/there", **section})),
            rules=rules,
            mode=mode,
            guard=guard,
            redact=redact,
            transaction_limit=transaction_limit,
        )
        made.append(lane)
        return lane

    yield make
    for lane in made:
        lane.close()
