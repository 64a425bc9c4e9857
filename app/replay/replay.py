"""One call of a replay: opens it, runs it epoch by epoch to its end, and reports the result."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event

from sqlalchemy import Connection, Engine

from app.config.settings import Settings
from app.db.sqlstate import translated
from app.errors import TopicChanged
from app.kafka.broker import Broker
from app.ledger.revision import check_revision
from app.ledger.store import Ledger
from app.model.counts import Counts
from app.model.offsets import Offsets
from app.recover.archive_reach import archive_readers
from app.recover.stopped_lanes import lane_names
from app.replay.bounds import Known
from app.replay.destination import RebuildPlace
from app.replay.metadata import ReplayMetadata
from app.replay.opening import Opening, ReplayOptions, alone
from app.replay.origin import Origin
from app.replay.runner import Run
from app.replay.skip_comparison import ReplaySkips, within
from app.replay.tasks import stage_tasks
from app.snapshot.target_info import pinned


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """The result of a replay."""

    place: RebuildPlace
    mark: ReplayMetadata
    #: where the replay's ledger ends: everything before it is applied
    position: Offsets
    #: messages between it and the end that wait for the rest of a source transaction or of a changed key
    held: int
    #: of all calls together
    counts: Counts
    #: of this call only
    messages: int
    seconds: float
    skips: ReplaySkips
    left_out: tuple[str, ...]


class Replaying:
    """Runs a replay. It calls `progress` with each change; the event `stop` ends it at the end of an epoch."""

    def __init__(
        self, place: RebuildPlace, options: ReplayOptions, *, stop: Event, progress: Callable[[str], None]
    ) -> None:
        self._place, self._options = place, options
        self._stop, self._progress = stop, progress

    def run(self) -> Replayed:
        """Run to the end; raises Refused when `stop` is set before."""
        settings = self._place.settings
        with ExitStack() as stack:
            broker = stack.enter_context(Broker(settings.source))
            target = stack.enter_context(_asking(self._place.target(), "the target"))
            with translated("replay: reading the target's ledger"):
                check_revision(target, settings.target.db_schema)
            identity = _identity(target, settings, broker)
            origin = _origin(settings, broker, *identity)
            stack.callback(origin.close)
            there = stack.enter_context(_asking(self._place.engine(), self._place.shown))
            stack.enter_context(alone(self._place, target, there))
            lanes = lane_names(settings, broker)
            ledgers = [Ledger(settings.target.db_schema, lane) for lane in lanes]
            opening = Opening(
                place=self._place,
                options=self._options,
                known=Known(origin, target, ledgers),
                target=target,
                there=there,
                progress=self._progress,
            )
            mark = opening.open()
            with translated("replay: reading the target's quarantine"):
                known = within(target, settings.target.db_schema, lanes, mark.span)
            lane_settings = self._place.replaying(len(known))
            pool = stack.enter_context(stage_tasks(lane_settings))
            run = Run(lane_settings, mark, origin, pool, identity, opening, self._stop, self._progress)
            begun_at = time.monotonic()
            run.to_the_end()
            seconds = time.monotonic() - begun_at
            counts = [_counted(there, lane_settings, lane) for lane in lanes]
            with translated("replay: reading its quarantine"):
                here = within(there, lane_settings.target.db_schema, lanes, mark.span)
            return Replayed(
                place=self._place,
                mark=mark,
                position=run.position,
                held=run.held,
                counts=sum(counts, Counts()),
                messages=run.messages,
                seconds=seconds,
                skips=ReplaySkips(there=tuple(known), here=tuple(here)),
                left_out=tuple(opening.left_out),
            )


def _origin(settings: Settings, broker: Broker, cluster: str, topics: dict[str, str]) -> Origin:
    """Kafka, with the archive in front of it if the lane has one."""
    readers = archive_readers(settings, broker.partitions())
    for reader in set(readers.values()):
        reader.check_topics(cluster, topics)
    return Origin(broker, settings.source, readers)


@contextmanager
def _asking(engine: Engine, where: str) -> Iterator[Connection]:
    """A connection in autocommit mode, which blocks nothing."""
    with ExitStack() as stack:
        with translated(f"replay: connecting to {where}"):
            connection = stack.enter_context(engine.execution_options(isolation_level="AUTOCOMMIT").connect())
        yield connection


def _identity(target: Connection, settings: Settings, broker: Broker) -> tuple[str, dict[str, str]]:
    """Cluster id, and topic -> id, from Kafka; raises TopicChanged where the lane is pinned to others."""
    with translated("replay: reading the target's ledger"):
        cluster, topics = pinned(target, settings)
    found = broker.cluster_id(), broker.topic_ids()
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


def _counted(connection: Connection, settings: Settings, lane: str) -> Counts:
    with translated("replay: reading its ledger"):
        return Ledger(settings.target.db_schema, lane).counted(connection)
