"""A gap: messages that a lane has yet to apply, and that can be read neither from Kafka nor from the archive.

    deleted    retention or a user deleted them, and no archive has them: their offsets are known
    rewritten  Kafka lost the end of a log that was applied, and gives its offsets to other messages: which of them the
               lane has passed over is not known
    made anew  the topic was deleted and created again, or the cluster is another one: what the old topic had left is
               not known

`Look.at` finds what is missing and the position from which on everything is there. `accept` moves the lane to that
position: it writes ledger, pinned topics, the old topic's name in the quarantine, and the record with its reason in one
transaction. The target stays without the missing messages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sqlalchemy import Connection, Row, text

from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.prepared import prepared
from app.db.sql import quoted
from app.db.sqlstate import translated
from app.errors import Diverged, LogTruncated, MessagesGone, Refused, SurelaneError, TopicChanged
from app.kafka.broker import Broker, Watermarks
from app.ledger.store import FROM_LEDGER, Ledger
from app.model.epoch import GENESIS, EpochRecord
from app.model.gid import Gid
from app.model.last import LastMessages
from app.model.offsets import Offsets, Span, TopicPartition
from app.recover.archive_reach import archive_reach
from app.recover.gaps import Gaps
from app.recover.rewritten import describe_rewritten, rewritten
from app.recover.stopped_lanes import check_stopped, lane_names

#: the ledger row's plan, in place of how changes were merged
PLAN = "gap"
#: entries of the old topic keep bytes and position under its new name: the new topic's offsets are other messages
_RENAME = "update {schema}.quarantine set topic = :renamed where lane = :lane and topic = :topic"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """What a lane lacks; nothing where `is_one` is false."""

    lane: str
    #: where its ledger ends
    position: Offsets
    #: end of the archived range that begins at the position; the position itself without one
    archived: Offsets
    #: the position from which on everything is there
    onward: Offsets
    #: first and last deleted offset, of topics with the pinned id
    deleted: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    #: partitions whose last applied message was replaced or is gone -> what is there now, in words
    rewritten: Mapping[TopicPartition, str] = field(default_factory=dict)
    #: topic -> its pinned id and its present one; None: the topic is gone
    anew: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    #: the pinned cluster id and the present one; None: they are the same
    cluster: tuple[str, str] | None = None
    #: offsets from `onward` to the end
    behind: int = 0

    @property
    def is_one(self) -> bool:
        return bool(self.deleted or self.rewritten or self.anew or self.cluster)

    @property
    def missing(self) -> int | None:
        """Number of missing messages, at most; None: not known."""
        return None if self.anew or self.rewritten else self.missing_of_deleted

    def describe(self) -> str:
        """What is missing, as a sentence."""
        parts = [f"{tp} {first} to {last}" for tp, (first, last) in self.deleted.items()]
        found = [f"{', '.join(parts)}, at most {self.missing_of_deleted} messages"] if parts else []
        if self.rewritten:
            found.append(
                f"Kafka lost messages that were applied, and wrote others: {describe_rewritten(self.rewritten)}"
            )
        if self.cluster:
            found.append(f"pinned to Kafka cluster {self.cluster[0]}, it is {self.cluster[1]} now")
        for name, (was, now) in self.anew.items():
            rest = ", ".join(f"{tp}@{offset}" for tp, offset in self.position.items() if tp.topic == name)
            what = (
                "is gone, or not read any more"
                if now is None
                else f"was deleted and created again (id {was}, now {now})"
            )
            found.append(f"topic {name} {what}; what the old one had behind {rest or 'its beginning'} is not known")
        return "; ".join(found)

    @property
    def missing_of_deleted(self) -> int:
        """Number of offsets that are known to be deleted."""
        return sum(last - first + 1 for first, last in self.deleted.values())

    def error(self) -> SurelaneError:
        """The error that this gap stops a lane with."""
        if self.anew or self.cluster:
            return TopicChanged.of(self.describe(), lane=self.lane)
        if self.rewritten:
            return LogTruncated.of(describe_rewritten(self.rewritten), lane=self.lane)
        return MessagesGone.of(self.describe(), lane=self.lane)


@dataclass(frozen=True, kw_only=True)
class Look:
    """What Kafka has, read once for all lanes."""

    settings: Settings
    cluster: str
    #: topic -> id
    topics: Mapping[str, str]
    marks: Mapping[TopicPartition, Watermarks]
    broker: Broker

    @classmethod
    def of(cls, settings: Settings, broker: Broker) -> Self:
        """Read it from Kafka; raises Unreachable, or EnvironmentMissing for a topic that does not exist."""
        topics = broker.topic_ids()
        marks = broker.watermarks(broker.partitions())
        return cls(settings=settings, cluster=broker.cluster_id(), topics=topics, marks=marks, broker=broker)

    def at(self, connection: Connection, ledger: Ledger) -> Gap:
        """What the lane lacks; raises Diverged for a lane that never started."""
        last = ledger.last(connection)
        if last is None:
            raise Diverged(
                f"lane {ledger.lane}: the ledger knows nothing of it, so there is no position to resume from",
                hint="is this the right database? A new lane starts with `surelane run` and an empty checkpoint folder",
            )
        position, row = last.span.end, ledger.lane_row(connection)
        was = None if row is None else row.cluster_id
        pinned = ledger.pinned_topics(connection)
        anew = {name: (old, self.topics.get(name)) for name, old in pinned.items() if self.topics.get(name) != old}
        archived = archive_reach(self.settings, position)
        kept = {} if was not in (None, self.cluster) else _of_pinned(last, anew)
        other = rewritten(self.broker, kept, self.marks)
        onward = {tp: self._onward(tp, position[tp], archived[tp], anew) for tp in position if tp in self.marks}
        onward |= {tp: min(position[tp], self.marks[tp].high) for tp in other}
        deleted = {
            tp: (archived[tp], low - 1) for tp, low in onward.items() if tp.topic not in anew and low > position[tp]
        }
        return Gap(
            lane=ledger.lane,
            position=position,
            archived=archived,
            onward=Offsets.of(onward),
            deleted=deleted,
            rewritten=other,
            anew=anew,
            cluster=None if was in (None, self.cluster) else (was, self.cluster),
            behind=Offsets.of(onward).left_to({tp: self.marks[tp].high for tp in onward}),
        )

    def _onward(self, tp: TopicPartition, offset: int, archived: int, anew: Mapping[str, Any]) -> int:
        """Kafka's first offset in a topic that was made anew, or where the archive does not reach it; else `offset`."""
        low = self.marks[tp].low
        return low if tp.topic in anew or archived < low else offset


@dataclass(frozen=True, kw_only=True)
class Found:
    """The lanes of a configuration, and the gaps that operators accepted before."""

    gaps: tuple[Gap, ...]
    accepted: Sequence[Row[Any]]


def look(settings: Settings, connection: Connection, broker: Broker) -> Found:
    """Find the gaps of all lanes; changes nothing."""
    schema, seen = settings.target.db_schema, Look.of(settings, broker)
    names = lane_names(settings, broker)
    gaps = tuple(seen.at(connection, Ledger(schema, name)) for name in names)
    return Found(gaps=gaps, accepted=Gaps(schema).of(connection, settings))


def named(error: SurelaneError, settings: Settings) -> SurelaneError:
    """Replace the error of a lane that ran into a gap by one that names what is missing and what to do.

    Returns `error` itself where that cannot be found out.
    """
    target = settings.target
    try:
        engine = make_engine(target.url, target.owner_role, "surelane recover")
        with Broker(settings.source) as broker, translated("looking for a gap"), engine.connect() as connection:
            gaps = look(settings, connection, broker).gaps
    except SurelaneError:
        return error
    for gap in gaps:
        if gap.is_one:
            return gap.error()
    if isinstance(error, LogTruncated):  # the lost messages had not been applied
        return error
    message = f"{error.message}. The target needs none of them, only the checkpoint asks for them"
    return Diverged.checkpoint_damaged(message, lane=settings.lane)


def accept(
    settings: Settings,
    connection: Connection,
    broker: Broker,
    *,
    reason: str,
    who: tuple[str, str],
    forget: Callable[[str], None],
) -> list[tuple[Gap, int]]:
    """Move every lane that lacks something behind its gap, in the caller's transaction; returns each gap and its id.

    `forget` deletes the guard's suspects of a lane whose topic was made anew. It commits at once, perhaps in another
    database: so it is called after all checks, and before the caller's COMMIT lets a lane go on.

    Raises Refused, with nothing changed, while a lane runs or has something prepared, and where no lane lacks anything.
    """
    schema, seen, done = settings.target.db_schema, Look.of(settings, broker), []
    _same_partitions(settings, connection, seen)
    for name in lane_names(settings, broker):
        ledger = Ledger(schema, name)
        check_stopped(connection, name)
        _nothing_prepared(connection, name)
        gap = seen.at(connection, ledger)
        _archive_is_applied(gap)
        if gap.is_one:
            done.append((gap, _accept(connection, ledger, gap, seen, settings, reason=reason, who=who)))
    if not done:
        raise Refused(
            "nothing is missing: Kafka has everything from the ledger's end on",
            hint="a lane that stopped with status 6 all the same: surelane recover --from-ledger",
        )
    for gap, _ in done:
        if gap.anew:
            forget(gap.lane)
    return done


def _accept(
    connection: Connection,
    ledger: Ledger,
    gap: Gap,
    seen: Look,
    settings: Settings,
    *,
    reason: str,
    who: tuple[str, str],
) -> int:
    generation = ledger.claim(connection, checkpoint=FROM_LEDGER, delivery=settings.mode.value, at_least=0).generation
    span, last = Span(start=gap.position, end=gap.onward), ledger.last(connection)
    kept = {} if last is None or gap.cluster else _of_pinned(last, gap.anew)
    record = EpochRecord(lane=gap.lane, generation=generation, epoch=GENESIS, span=span, plan=PLAN)
    ledger.record(connection, replace(record, last={tp: one for tp, one in kept.items() if tp not in gap.rewritten}))
    if gap.anew or gap.cluster:
        ledger.pin_anew(connection, seen.cluster, dict(seen.topics))
    rename = text(_RENAME.format(schema=quoted(ledger.schema).replace(":", r"\:")))
    for topic, (was, _) in gap.anew.items():
        connection.execute(rename, {"lane": gap.lane, "topic": topic, "renamed": f"{topic} {was}"})
    return Gaps(ledger.schema).add(
        connection,
        lane=gap.lane,
        generation=generation,
        from_position=gap.position.nested(),
        to_position=gap.onward.nested(),
        missing=gap.missing,
        rewritten={str(tp): words for tp, words in gap.rewritten.items()} or None,
        anew={name: list(ids) for name, ids in gap.anew.items()},
        cluster=list(gap.cluster) if gap.cluster else None,
        reason=reason,
        os_user=who[0],
        host=who[1],
    )


def _of_pinned(last: EpochRecord, anew: Mapping[str, Any]) -> LastMessages:
    """The last messages, without those of topics that were made anew."""
    return {tp: one for tp, one in last.last.items() if tp.topic not in anew}


def _archive_is_applied(gap: Gap) -> None:
    """Raises Refused where the archive has messages that the lane has yet to apply: they must not be passed over."""
    if any(gap.archived[tp] > gap.position[tp] for tp in gap.deleted):
        raise Refused(
            f"lane {gap.lane}: the archive goes on to {gap.archived}, and the target does not have it yet. Nothing was "
            "changed",
            hint="start it once: it applies what the archive has, and stops again in front of what is missing",
        )


def _nothing_prepared(connection: Connection, lane: str) -> None:
    """Raises Refused where the lane has a prepared transaction, which may contain the missing messages."""
    gids = [row.gid for row in prepared(connection) if (gid := Gid.parse(row.gid)) and gid.belongs_to(lane)]
    if gids:
        raise Refused(
            f"lane {lane} has left {', '.join(gids)} prepared: what is missing may be in there. Nothing was changed",
            hint="start it once, which settles that; or see `surelane indoubt list`",
        )


def _same_partitions(settings: Settings, connection: Connection, seen: Look) -> None:
    """Raises Refused where a lane's partition no longer exists: the lane could not go on."""
    if not settings.source.is_by_partition:
        return
    there = {tp.partition for tp in seen.marks}
    pattern = f"{settings.lane}."
    lanes = Gaps(settings.target.db_schema).lanes(connection, settings)
    lost = sorted(lane for lane in lanes if int(lane.removeprefix(pattern)) not in there)
    if lost:
        raise Refused(
            f"the topic has {len(there)} partitions, and there were lanes {', '.join(lost)}. Nothing was changed",
            hint="give it as many partitions as it had: kafka-topics.sh --alter --topic TOPIC --partitions N",
        )
