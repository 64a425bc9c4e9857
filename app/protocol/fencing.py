"""Fencing: takes lanes over from their last writers, up to where they may process their next epoch.

In this order: claim a generation (from here on older writers are fenced), take the lane's lock (end their sessions),
settle what they prepared (`start_table`), read the ledger, choose the checkpoint, activate the generation.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection, Engine

from app import failpoint
from app.db.direct import check_direct
from app.db.locks import TRY_SECONDS, lock_holder, terminate, try_lock
from app.db.sqlstate import translated
from app.errors import Diverged, Unreachable
from app.ledger.removed_topics import RemovedTopics
from app.ledger.shadow_copies import ShadowCopies
from app.ledger.stop_orders import StopOrders
from app.ledger.store import FROM_LEDGER, Claim, Ledger
from app.model.epoch import GENESIS, EpochRecord
from app.model.gid import configured
from app.model.offsets import Offsets, Span, TopicPartition
from app.protocol.participant import Participant
from app.protocol.start_table import Planned, Start, decide, settle
from app.protocol.target_participant import PreparedTarget
from app.spark.checkpoint import Checkpoint
from app.spark.entries import CheckpointIdentity

log = structlog.get_logger()

#: seconds to wait for the lane's lock
LOCK_WAIT_SECONDS = 30.0


@dataclass(kw_only=True)
class Writer:
    """One lane's writer: its connection, its ledger, the participants of its epochs, and its partition."""

    name: str
    engine: Engine
    ledger: Ledger
    #: None: every partition of every topic
    partition: TopicPartition | None
    #: the generation claimed last; 0 before the first opening
    generation: int = 0
    #: the last one that was committed, and those after it whose COMMIT had no answer
    claims: Sequence[Claim] = ()
    connection: Connection | None = None

    @property
    def others(self) -> Sequence[Participant]:
        """The participants of its epochs other than the target."""
        return ()

    def generation_elsewhere(self) -> int:
        """The newest generation on record outside the target, since a restored target may lack it; 0 for none."""
        return 0

    def mine(self, offsets: Offsets) -> Offsets:
        """The offsets of this lane's partitions."""
        return offsets if self.partition is None else offsets.only({self.partition})

    def pin(self, cluster: str, topics: Mapping[str, str]) -> None:
        """Pin the lane to cluster and topic ids, in a transaction; raises TopicChanged where it is pinned to others."""
        with translated(f"lane {self.name}: pinning topics"), _open(self).begin():
            self.ledger.pin(_open(self), cluster, topics)

    def claim(self, connection: Connection, *, checkpoint: str, delivery: str, at_least: int = 0) -> Claim:
        """Claim a generation in the caller's transaction; raises Fenced if another process claimed one meanwhile. Call
        `claimed` once that transaction is committed: without an answer to its COMMIT both outcomes are possible."""
        claim = self.ledger.claim(
            connection, checkpoint=checkpoint, delivery=delivery, at_least=at_least, mine=self.claims
        )
        self.claims = (*self.claims, claim)
        return claim

    def claimed(self, claim: Claim) -> None:
        self.generation, self.claims = claim.generation, (claim,)

    def prepared(self) -> PreparedTarget:
        """The target as a two-phase participant; also for a one-phase lane, which may have been two-phase before."""
        return PreparedTarget(_open(self), self.engine, self.ledger, self.generation)

    def close(self) -> None:
        """Close the other participants and the connection: this releases the lock and rolls back unprepared work."""
        for other in self.others:
            other.close()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


@dataclass(frozen=True)
class Opened:
    """Where Spark's query starts."""

    start: Offsets
    checkpoint: str


def open_writers(
    writers: Sequence[Writer],
    checkpoint: Checkpoint,
    begin: Offsets,
    delivery: str,
    *,
    anew: bool = False,
    removed: Collection[TopicPartition] = (),
    has_state: bool = False,
) -> Opened:
    """Open all lanes that share one checkpoint. `begin`: where partitions start that the ledger has no position of.
    `anew`: use a new checkpoint: for epochs that end elsewhere than those that the present one has planned, or for
    partitions that were added and start behind offset 0, where Spark takes the present one's to start. `removed`:
    partitions that are not read any more, which needs a new checkpoint, too; their position is kept. `has_state`:
    whether the checkpoint has more than positions: then Diverged is raised where a new one would be made for a lane
    that has applied something."""
    name = configured(writers[0].name)
    identity = checkpoint.identity()
    _check_lane(identity, name, checkpoint.location)
    known = identity.checkpoint if identity and not anew else FROM_LEDGER
    wanted = [_claim_and_lock(writer, known, delivery, identity.generation if identity else 0) for writer in writers]
    identity = checkpoint.identity()  # again: another writer may have replaced it before we held the lock
    for writer in writers:
        of = identity.checkpoint if identity else None
        settle(_open(writer), writer.ledger, checkpoint, of, target=writer.prepared(), others=writer.others)
    is_replaced = anew or FROM_LEDGER in wanted
    planned = None if is_replaced else _planned(checkpoint)
    how = {writer.name: _decide(writer, planned) for writer in writers}
    ends = {tp: offset for writer in writers for tp, offset in _ledger_end(writer, begin, planned, removed).items()}
    log.info("start", **{name: start.value for name, start in how.items()})
    if has_state and any(how[writer.name] is Start.RESUME and _has_applied(writer) for writer in writers):
        raise Diverged.state_lost(
            f"lane {name}: its table is ahead of the state in checkpoint {checkpoint.location}, or that is gone. "
            "Nothing was changed",
            lane=name,
        )
    if identity is None or any(start in (Start.RESUME, Start.FIRST) for start in how.values()):
        if identity is not None and not is_replaced and _has_gone_ahead(writers, identity):
            log.info("checkpoint begun anew: the lane has gone ahead of it")
            checkpoint.delete()
        elif not checkpoint.is_empty():
            log.warning("checkpoint put aside", moved_to=checkpoint.archive())
        identity = checkpoint.create(name, Offsets.of(ends))
        failpoint.reach("start-checkpoint")
    for writer in writers:
        with translated(f"lane {writer.name}: activating generation"), _open(writer).begin():
            writer.ledger.activate(_open(writer), writer.generation, identity.checkpoint)
            _write_genesis(writer, begin, planned, removed)
    failpoint.reach("start-ledger")
    checkpoint.write_identity(replace(identity, generation=max(writer.generation for writer in writers)))
    return Opened(Offsets.from_json(identity.start), identity.checkpoint)


def open_without_checkpoint(writer: Writer, begin: Offsets, delivery: str) -> None:
    """Open a lane whose epochs no checkpoint decides, in a place that is locked already: claim and activate a
    generation, write the first ledger row. Its epochs are numbered from 0 in each generation."""
    with translated(f"lane {writer.name}: opening"):
        writer.connection = connection = writer.engine.connect()
        with connection.begin():
            claim = writer.claim(connection, checkpoint=delivery, delivery=delivery)
        writer.claimed(claim)
        with connection.begin():
            writer.ledger.activate(connection, writer.generation, delivery)
            _write_genesis(writer, begin, None)


def _check_lane(identity: CheckpointIdentity | None, name: str, location: str) -> None:
    """Raise Diverged for another lane's checkpoint: it is neither used nor put aside, since that lane may need it."""
    if identity is not None and identity.lane != name:
        raise Diverged(
            f"checkpoint {location} is lane {identity.lane}'s, and this is lane {name}. Nothing was changed",
            hint="point `checkpoint` at a folder of this lane's own; a new one is made, and the lane goes on at its "
            "ledger's end (ops/runbooks/checkpoint-lost.md)",
        )


def _open(writer: Writer) -> Connection:
    assert writer.connection is not None, "claimed and locked"
    return writer.connection


def _claim_and_lock(writer: Writer, checkpoint: str, delivery: str, at_least: int) -> str:
    """Return the checkpoint that the lane goes on with: `checkpoint`, or FROM_LEDGER if an operator requested that."""
    with translated(f"lane {writer.name}: connecting to the target"):
        writer.connection = connection = writer.engine.connect()
        check_direct(writer.engine, connection)
        orders, copies = StopOrders(writer.ledger.schema, configured(writer.name)), ShadowCopies(writer.ledger.schema)
        with connection.begin():
            orders.check(connection)
            copies.check_original(connection, configured(writer.name))
            newest = writer.ledger.newest_checkpoint(connection)
            wanted = FROM_LEDGER if newest == FROM_LEDGER else checkpoint
            at_least = max(at_least, writer.generation_elsewhere())
            claim = writer.claim(connection, checkpoint=wanted, delivery=delivery, at_least=at_least)
        writer.claimed(claim)
        _lock(writer, connection)
        with connection.begin():
            orders.check(connection)  # again: an order waits for a free lock, and no epoch follows it
            copies.check_original(connection, configured(writer.name))
        return wanted


def _lock(writer: Writer, connection: Connection) -> None:
    """Take the lane's lock. End the session that holds it: an older writer's, which is fenced already."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    terminated: int | None = None
    while True:
        with connection.begin():
            if try_lock(connection, writer.name):
                return
            writer.ledger.check_newest(connection, writer.generation)
            holder = lock_holder(connection, writer.name)
            if holder is not None and holder != terminated:
                log.warning("taking over", lane=writer.name, generation=writer.generation, from_backend=holder)
                terminate(connection, holder)
                terminated = holder
        if time.monotonic() > deadline:
            raise Unreachable(f"lane {writer.name}: backend {holder} keeps the lane's lock")
        time.sleep(TRY_SECONDS)


def _has_applied(writer: Writer) -> bool:
    """Whether the ledger has a row of an epoch."""
    last = _last(writer)
    return last is not None and last.epoch != GENESIS


def _has_gone_ahead(writers: Sequence[Writer], identity: CheckpointIdentity) -> bool:
    """Whether the ledger's newest row is of an epoch that this checkpoint need not have planned."""
    if len(writers) > 1 or writers[0].partition is not None or writers[0].others:
        return False
    (writer,) = writers
    last, connection = _last(writer), _open(writer)
    with translated(f"lane {writer.name}: reading the ledger"), connection.begin():
        return last is not None and writer.ledger.goes_ahead(connection, last.generation, identity.checkpoint)


def _planned(checkpoint: Checkpoint) -> Planned | None:
    epoch = checkpoint.last_planned()
    if epoch is None:
        return None
    return Planned(epoch=epoch, span=checkpoint.span(epoch), complete=checkpoint.is_complete(epoch))


def _mine(writer: Writer, planned: Planned | None) -> Planned | None:
    if planned is None:
        return None
    return planned if writer.partition is None else replace(planned, span=planned.span.only({writer.partition}))


def _last(writer: Writer) -> EpochRecord | None:
    connection = _open(writer)
    with translated(f"lane {writer.name}: reading the ledger"), connection.begin():
        return writer.ledger.last(connection)


def _decide(writer: Writer, planned: Planned | None) -> Start:
    last, mine = _last(writer), _mine(writer, planned)
    start = decide(writer.name, mine, last.read if last else None)
    if start is Start.SKIP and mine is not None and last is not None and _is_part(last.span, mine.span):
        return Start.RESUME  # a lane that was ahead has applied what is before it in an epoch of its own
    return start


def _is_part(applied: Span, planned: Span) -> bool:
    """Whether the newest applied epoch begins behind the begin of the planned one."""
    return any(offset > planned.start.get(tp, 0) for tp, offset in applied.start.items())


def _ledger_end(
    writer: Writer, begin: Offsets, planned: Planned | None, removed: Collection[TopicPartition]
) -> Offsets:
    return _end(writer, _last(writer), begin, planned, removed)


def _end(
    writer: Writer,
    last: EpochRecord | None,
    begin: Offsets,
    planned: Planned | None,
    removed: Collection[TopicPartition],
) -> Offsets:
    if last is None:
        return _beginning(writer, begin, planned)
    return writer.mine(begin).updated(last.span.end).without(removed)


def _beginning(writer: Writer, begin: Offsets, planned: Planned | None) -> Offsets:
    mine = _mine(writer, planned)
    return mine.span.start if mine else writer.mine(begin)


def _write_genesis(
    writer: Writer, begin: Offsets, planned: Planned | None, removed: Collection[TopicPartition] = ()
) -> None:
    """Write the lane's first ledger row, unless it has one. Partitions that were added later, and start behind offset
    0, get such a row, too: their start is not the end of any epoch. So does a lane that does not read `removed` any
    more: the next epoch's start is compared with a position that lacks them."""
    last = writer.ledger.last(_open(writer))
    if last is not None and not removed and not _added(last.span.end, writer.mine(begin)):
        return
    start = _end(writer, last, begin, planned, removed)
    genesis = EpochRecord.genesis(writer.name, writer.generation, start, last.last if last else None)
    writer.ledger.record(_open(writer), genesis)
    if last is not None:
        kept = RemovedTopics(writer.ledger.schema, writer.name)
        kept.keep(_open(writer), last.span.end.only(set(removed)))
        kept.forget(_open(writer), start)


def _added(end: Offsets, begin: Offsets) -> bool:
    """Whether a partition without a position in `end` starts behind offset 0."""
    return any(offset for tp, offset in begin.items() if tp not in end)
