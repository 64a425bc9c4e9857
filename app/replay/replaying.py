"""One call of a replay: opened, run epoch by epoch to its end, looked at."""

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event

import pyarrow as pa
import structlog
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, Engine

from app.config.settings import Order, Settings
from app.db.failures import translated
from app.errors import Diverged, Refused, SurelaneError, TopicChanged, Verdict
from app.kafka.broker import Broker
from app.lane.lane import Lane
from app.ledger.migrate import check_revision
from app.ledger.store import Ledger
from app.metrics.lane import AllMetrics
from app.model.counts import Counts
from app.model.epoch import GENESIS, EpochRecord
from app.model.offsets import Offsets, Span, TopicPartition
from app.replay.bounds import Known
from app.replay.cutting import Cutting
from app.replay.decoding import Decodes, decoding
from app.replay.kafka import KafkaOrigin
from app.replay.mark import Mark
from app.replay.opening import Opening, Wishes, alone
from app.replay.origin import Origin
from app.replay.place import NAME, Place
from app.replay.skipped import Skips, within
from app.snapshot.looking import pinned
from app.supervise.assembly import add_writers, make_lane
from app.supervise.epoch_source import EpochSource
from app.supervise.link import Link
from app.supervise.opening import Writer
from app.supervise.stored import StoredMessages

log = structlog.get_logger()

#: failures in a row, of kinds that pass, without an epoch between them
MAX_FAILURES = 6
#: seconds of the first and of the longest pause after one
PAUSE_SECONDS = (0.5, 10.0)
#: in place of a checkpoint's id and of a delivery: neither has a part in it
_REPLAY = "replay"


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What came of it."""

    place: Place
    mark: Mark
    #: where the replay's ledger ends: applied up to there
    position: Offsets
    #: messages behind it, before the end, that wait for the rest of a source transaction or of a changed key
    held: int
    #: of all calls together
    counts: Counts
    #: of this call
    messages: int
    seconds: float
    skips: Skips
    left_out: tuple[str, ...]


class Replaying:
    """`progress` is told what is going on; `stop` ends it at the end of an epoch."""

    def __init__(self, place: Place, wishes: Wishes, *, stop: Event, progress: Callable[[str], None]) -> None:
        self._place, self._wishes = place, wishes
        self._stop, self._progress = stop, progress

    def run(self) -> Replayed:
        """Up to its end; raises Refused when it was told to stop before."""
        settings = self._place.settings
        with ExitStack() as stack:
            broker = stack.enter_context(Broker(settings.source))
            target = stack.enter_context(_asking(self._place.target(), "the target"))
            with translated("replay: reading the target's ledger"):
                check_revision(target, settings.target.db_schema)
            identity = _identity(target, settings, broker)
            origin = KafkaOrigin(settings.source, broker)
            stack.callback(origin.close)
            there = stack.enter_context(_asking(self._place.engine(), self._place.shown))
            stack.enter_context(alone(self._place, target, there))
            lanes = _lanes(settings, broker)
            ledgers = [Ledger(settings.target.db_schema, lane) for lane in lanes]
            opening = Opening(
                place=self._place,
                wishes=self._wishes,
                known=Known(origin, target, ledgers),
                target=target,
                there=there,
                progress=self._progress,
            )
            mark = opening.open()
            with translated("replay: reading the target's quarantine"):
                known = within(target, settings.target.db_schema, lanes, mark.start, mark.goal)
            told = self._place.replaying(len(known))
            decodes = stack.enter_context(decoding(told))
            run = _Run(told, mark, origin, decodes, identity, opening, self._stop, self._progress)
            begun_at = time.monotonic()
            run.to_the_end()
            seconds = time.monotonic() - begun_at
            counts = [_counted(there, told, lane) for lane in lanes]
            with translated("replay: reading its quarantine"):
                here = within(there, told.target.db_schema, lanes, mark.start, mark.goal)
            return Replayed(
                place=self._place,
                mark=mark,
                position=run.position,
                held=run.held,
                counts=_sum(counts),
                messages=run.messages,
                seconds=seconds,
                skips=Skips(there=tuple(known), here=tuple(here)),
                left_out=tuple(opening.left_out),
            )


class _Run:
    """The lanes of a replay, as often as they have to be opened."""

    def __init__(
        self,
        settings: Settings,
        mark: Mark,
        origin: Origin,
        decodes: Decodes,
        identity: tuple[str, dict[str, str]],
        opening: Opening,
        stop: Event,
        progress: Callable[[str], None],
    ) -> None:
        self._settings, self._mark, self._origin, self._decodes = settings, mark, origin, decodes
        self._identity, self._opening, self._stop, self._progress = identity, opening, stop, progress
        self._metrics = AllMetrics({}, CollectorRegistry())
        self._writers: dict[str, Writer] = {}
        self._lanes: dict[TopicPartition | None, Lane] = {}
        self._cutting = Cutting(settings.epoch)
        self._number = 0
        self._failures = 0
        self._begun_at = time.monotonic()
        #: offsets that were left when this call began
        self._first_left: int | None = None
        #: that this call has applied or skipped
        self.messages = 0

    @property
    def position(self) -> Offsets:
        """Applied up to there."""
        return _joined([lane.position for lane in self._lanes.values()])

    @property
    def held(self) -> int:
        """Offsets that were read and not applied."""
        return _left(self.position, self._read())

    def to_the_end(self) -> None:
        """Through failures that pass; raises Refused when it was told to stop before."""
        while True:
            try:
                with self._opened():
                    self._epochs()
                return
            except SurelaneError as error:
                self._failures += 1
                if error.verdict is not Verdict.RETRY or self._failures > MAX_FAILURES:
                    raise
                first, longest = PAUSE_SECONDS
                log.warning("trying again", because=error.message)
                self._stop.wait(min(longest, first * 2**self._failures))

    @contextmanager
    def _opened(self) -> Iterator[None]:
        try:
            add_writers(self._settings, self._writers, sorted(self._mark.goal), Link(), self._metrics, NAME)
            stored = StoredMessages(self._decodes, self._origin)
            for writer in self._writers.values():
                self._open(writer)
                metrics = self._metrics[writer.name]
                self._lanes[writer.partition] = make_lane(self._settings, writer, metrics, stored, lambda: None)
            self._number = 0
            yield
        finally:
            for writer in self._writers.values():
                writer.close()

    def _open(self, writer: Writer) -> None:
        """Claim the next generation, in which epochs are numbered anew."""
        ledger, start = writer.ledger, writer.mine(self._mark.start)
        with translated(f"replay of lane {writer.name}: opening"):
            writer.connection = connection = writer.engine.connect()
            with connection.begin():
                writer.generation = ledger.claim(connection, checkpoint=_REPLAY, delivery=_REPLAY, at_least=0)
                ledger.activate(connection, writer.generation, _REPLAY)
                ledger.pin(connection, *self._identity)
                if ledger.last(connection) is None:
                    span, generation = Span(start=start, end=start), writer.generation
                    first = EpochRecord(lane=writer.name, generation=generation, epoch=GENESIS, span=span)
                    ledger.record(connection, first)

    def _epochs(self) -> None:
        goal = self._mark.goal
        self._check_goal(goal)
        self._opening.check_there(self.position, goal)
        while left := _left(self._read(), goal):
            if self._stop.is_set():
                raise Refused(
                    f"the replay was stopped before its end, {left:,} messages are left at most",
                    hint="the same call goes on with it",
                )
            self._tell(left)
            self._epoch(self._cutting.next(self._read(), goal))
        self._tell(0)

    def _check_goal(self, goal: Offsets) -> None:
        """A call may not move the end to before what is applied."""
        if behind := [f"{tp}@{offset}" for tp, offset in self.position.items() if offset > goal[tp]]:
            raise Refused(
                f"the replay is past --to already, at {', '.join(behind)}",
                hint="what is applied is not taken back: name a later end, or begin anew with --anew",
            )

    def _epoch(self, span: Span) -> None:
        """Of every lane that has something in it."""
        sizes: list[int] = []
        for tp, lane in self._lanes.items():
            own = span if tp is None else Span(start=span.start.only({tp}), end=span.end.only({tp}))
            if own.start == own.end:
                continue

            def planned(own: Span = own) -> pa.Table:
                rows = self._part(own)
                sizes.append(rows.nbytes)
                return rows

            try:
                lane.process_epoch(self._number, own, EpochSource(planned, self._part, self._origin))
            except Diverged:
                self._opening.check_there(self.position, self._mark.goal)  # says exactly what is gone
                raise
        self.messages += _left(span.start, span.end)
        if sizes:
            self._cutting.learn(span, sum(sizes))
        self._number += 1
        self._failures = 0

    def _part(self, span: Span) -> pa.Table:
        return self._decodes.rows(self._origin.read(span))

    def _read(self) -> Offsets:
        return _joined([lane.read for lane in self._lanes.values()])

    def _tell(self, left: int) -> None:
        if self._first_left is None:
            self._first_left, self._begun_at = left, time.monotonic()
        done, seconds = self._first_left - left, time.monotonic() - self._begun_at
        words = f"{left:,} messages left"
        if done and seconds:
            rate = done / seconds
            words += f", {rate:,.0f}/s, about {datetime.timedelta(seconds=round(left / rate))}"
        self._progress(words)


@contextmanager
def _asking(engine: Engine, where: str) -> Iterator[Connection]:
    """A connection on which every statement is by itself: nothing is held up by it."""
    with ExitStack() as stack:
        with translated(f"replay: connecting to {where}"):
            connection = stack.enter_context(engine.execution_options(isolation_level="AUTOCOMMIT").connect())
        yield connection


def _identity(target: Connection, settings: Settings, broker: Broker) -> tuple[str, dict[str, str]]:
    """Cluster and topics by Kafka's ids; raises TopicChanged where the lane is pinned to others."""
    with translated("replay: reading the target's ledger"):
        cluster, topics = pinned(target, settings)
    found = broker.cluster_id(), {name: info.topic_id for name, info in broker.topics().items()}
    other = [name for name, topic_id in found[1].items() if topics.get(name, topic_id) != topic_id]
    if other or cluster not in (None, found[0]):
        what = (
            f"topic {', '.join(other)} was deleted and created again" if other else "these brokers are another cluster"
        )
        raise TopicChanged(
            f"{what}: the lane's own messages are not there any more",
            hint="the target cannot be rebuilt of them; restore a snapshot: surelane snapshot list",
        )
    return found


def _lanes(settings: Settings, broker: Broker) -> list[str]:
    if settings.source.order is Order.TOTAL:
        return [settings.lane]
    return [f"{settings.lane}.{tp.partition}" for tp in sorted(broker.partitions())]


def _counted(connection: Connection, settings: Settings, lane: str) -> Counts:
    with translated("replay: reading its ledger"):
        return Ledger(settings.target.db_schema, lane).counted(connection)


def _sum(each: Sequence[Counts]) -> Counts:
    total = Counts()
    for one in each:
        total += one
    return total


def _joined(each: Sequence[Offsets]) -> Offsets:
    return Offsets.of({tp: offset for one in each for tp, offset in one.items()})


def _left(position: Offsets, goal: Offsets) -> int:
    return sum(max(0, offset - position.get(tp, 0)) for tp, offset in goal.items())
