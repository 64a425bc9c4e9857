"""The start table as code: `decide` is pure, `settle` looks and acts."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg2
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.commit.committer import lost
from app.db.failures import UNDEFINED_OBJECT, sqlstate, translated
from app.db.prepared import prepared
from app.errors import Diverged
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.model.offsets import Offsets, Span
from app.spark.entries import Entries

log = structlog.get_logger()


class Start(enum.Enum):
    """How a lane goes on."""

    FIRST = "first start"
    GO_ON = "the last epoch is done"
    REPLAY = "Spark replays the last planned epoch"
    SKIP = "the target has the last planned epoch already"
    RESUME = "the checkpoint is behind the target or gone: resume from the ledger"


class Ending(enum.Enum):
    """What becomes of a prepared transaction."""

    COMMIT = "its checkpoint entry exists"
    ROLL_BACK = "its checkpoint entry does not exist"
    ORPHAN = "it belongs to another checkpoint"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The newest epoch of the checkpoint."""

    epoch: int
    span: Span
    complete: bool


def ending(gid: Gid, of_generation: Mapping[int, str], checkpoint: str | None, complete: bool) -> Ending:
    """What becomes of `gid`; `complete` says whether its commits/ entry exists in the present checkpoint."""
    if checkpoint is None or of_generation.get(gid.generation) != checkpoint:
        return Ending.ORPHAN
    return Ending.COMMIT if complete else Ending.ROLL_BACK


def decide(lane: str, planned: Planned | None, ledger_end: Offsets | None) -> Start:
    """How to go on, from where the checkpoint and the ledger are. Raises Diverged when the target lacks epochs.

    `planned.span` and `ledger_end` are of the same partitions. Compare positions, not numbers: epochs are numbered
    within one checkpoint, a position means the same in all of them.
    """
    if planned is None:
        return Start.FIRST if ledger_end is None else Start.RESUME
    start, end = planned.span.start, planned.span.end
    if ledger_end is None:
        if planned.complete or any(start.values()):
            raise _target_behind(lane, planned, None)
        return Start.REPLAY  # a partition's very first epoch: nothing was ever decided
    if _same(ledger_end, end):
        return Start.GO_ON if planned.complete else Start.SKIP
    if not planned.complete and _same(ledger_end, start):
        return Start.REPLAY
    if _reaches(ledger_end, end if planned.complete else start):
        return Start.RESUME
    raise _target_behind(lane, planned, ledger_end)


def settle(connection: Connection, ledger: Ledger, checkpoint: Entries, identity: str | None) -> None:
    """End every prepared transaction of this lane as the checkpoint decided; foreign ones are not touched.

    `connection` holds the lane's lock and has no transaction open.
    """
    with translated(f"settling prepared transactions of lane {ledger.lane}"):
        of_generation = ledger.checkpoints(connection)
        found = [gid for row in prepared(connection) if (gid := Gid.parse(row.gid)) and gid.belongs_to(ledger.lane)]
        connection.rollback()
        for gid in found:
            how = ending(gid, of_generation, identity, checkpoint.is_complete(gid.epoch))
            log.info("settling", lane=ledger.lane, gid=str(gid), decision=how.name.lower(), because=how.value)
            _end(connection, ledger, gid, how)


def _end(connection: Connection, ledger: Ledger, gid: Gid, how: Ending) -> None:
    try:
        if how is Ending.COMMIT:
            connection.commit_prepared(str(gid), recover=True)
        else:
            connection.rollback_prepared(str(gid), recover=True)
    except (DBAPIError, psycopg2.Error) as error:
        connection.rollback()
        if sqlstate(error) != UNDEFINED_OBJECT:
            raise
        # somebody ended it between our look and our word; the ledger tells how
        if how is Ending.COMMIT and ledger.find(connection, gid.generation, gid.epoch) is None:
            raise lost(gid) from error
    finally:
        connection.rollback()


def _same(left: Offsets, right: Offsets) -> bool:
    """Equal where both know a partition; one that only one side knows starts at 0."""
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
