"""The start table as code: `decide` is pure, `settle` ends what is pre-committed."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from app.db.sqlstate import translated
from app.errors import Diverged
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.model.offsets import Offsets, Span
from app.protocol.participant import Participant
from app.spark.entries import Entries

log = structlog.get_logger()


class Start(enum.Enum):
    """How a lane goes on after a start."""

    FIRST = "first start"
    GO_ON = "the last epoch is done"
    REPLAY = "the last planned epoch is replayed"
    SKIP = "the target has the last planned epoch already"
    RESUME = "the checkpoint is behind the target or gone: resume from the ledger"


class PreparedOutcome(enum.Enum):
    """How a start ends a prepared transaction, and why."""

    COMMIT = "its checkpoint entry exists"
    ROLL_BACK = "its checkpoint entry does not exist"
    ORPHAN = "it belongs to another checkpoint"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The newest epoch that the checkpoint has planned."""

    epoch: int
    span: Span
    complete: bool


def ending(gid: Gid, of_generation: Mapping[int, str], checkpoint: str | None, complete: bool) -> PreparedOutcome:
    """How to end `gid`. `of_generation`: checkpoint by generation; `complete`: whether its commits/ entry exists."""
    if checkpoint is None or of_generation.get(gid.generation) != checkpoint:
        return PreparedOutcome.ORPHAN
    return PreparedOutcome.COMMIT if complete else PreparedOutcome.ROLL_BACK


def decide(lane: str, planned: Planned | None, ledger_end: Offsets | None) -> Start:
    """How to go on, given the newest planned epoch and the ledger's end. Raises Diverged if the target lacks epochs.

    `planned.span` and `ledger_end` are of the same partitions. Compares positions, not epoch numbers: a number means
    something only within one checkpoint, a position means the same in all.
    """
    if planned is None:
        return Start.FIRST if ledger_end is None else Start.RESUME
    start, end = planned.span.start, planned.span.end
    if ledger_end is None:
        if planned.complete or any(start.values()):
            raise _target_behind(lane, planned, None)
        return Start.REPLAY  # the partition's first epoch: no epoch was decided yet
    if _same(ledger_end, end):
        return Start.GO_ON if planned.complete else Start.SKIP
    if not planned.complete and _same(ledger_end, start):
        return Start.REPLAY
    if _reaches(ledger_end, end if planned.complete else start):
        return Start.RESUME
    raise _target_behind(lane, planned, ledger_end)


def settle(
    connection: Connection,
    ledger: Ledger,
    checkpoint: Entries,
    identity: str | None,
    *,
    target: Participant,
    others: Sequence[Participant] = (),
) -> None:
    """End what this lane's participants pre-committed, and nothing of another lane.

    The target first, as the checkpoint decided. Then the others: commit if the epoch's ledger row is visible, or if the
    checkpoint decided it though the target has lost it; else abort. `connection` holds the lane's lock and has no open
    transaction.
    """
    with translated(f"settling what lane {ledger.lane} left"):
        of_generation = ledger.checkpoints(connection)
        connection.rollback()
        for gid in target.handles():
            how = ending(gid, of_generation, identity, checkpoint.is_complete(gid.epoch))
            _end(target, gid, how.name.lower(), how.value, commit=how is PreparedOutcome.COMMIT)
        for participant in others:
            for gid in participant.handles():
                found = ledger.find(connection, gid.generation, gid.epoch)
                connection.rollback()
                how = ending(gid, of_generation, identity, checkpoint.is_complete(gid.epoch))
                commit = found is not None or how is PreparedOutcome.COMMIT
                decision, because = (
                    ("commit", "the ledger has it") if found is not None else (how.name.lower(), how.value)
                )
                _end(participant, gid, decision, because, commit=commit)


def _end(participant: Participant, gid: Gid, decision: str, because: str, *, commit: bool) -> None:
    kind = type(participant).__name__
    log.info("settling", lane=gid.lane, gid=str(gid), decision=decision, because=because, of=kind)
    if commit:
        participant.commit(gid)
    else:
        participant.abort(gid)


def _same(left: Offsets, right: Offsets) -> bool:
    """Whether both are equal; a partition that one side lacks counts as 0."""
    return all(left.get(tp, 0) == right.get(tp, 0) for tp in {*left, *right})


def _reaches(position: Offsets, goal: Offsets) -> bool:
    return all(position.get(tp, 0) >= offset for tp, offset in goal.items())


def _target_behind(lane: str, planned: Planned, ledger_end: Offsets | None) -> Diverged:
    state = f"complete up to {planned.span.end}" if planned.complete else f"complete up to {planned.span.start}"
    return Diverged.target_behind(
        f"lane {lane}: the checkpoint says {state} (epoch {planned.epoch}), but the target's ledger ends at "
        f"{ledger_end or 'nothing'}: epochs that were decided are not in this database. It was restored, failed over "
        "to an older copy, or a prepared transaction was rolled back by hand. Nothing was changed",
        lane=lane,
        position=ledger_end or "its own position",
    )
