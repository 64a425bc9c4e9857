"""Gives the state of a query another number of partitions, while the query is stopped.

Spark writes it as one more epoch N of the checkpoint, without messages:

    offsets/N   with the new number
    state/      all of the state once more, for epoch N
    commits/N   the decision
    ledger      the row of epoch N, by this module

Killed before `offsets/N`, nothing has changed. Killed before `commits/N`, the same command goes on, and the query does
not start until then: files of its state may be half written. Killed before the ledger's row, the next start of the
query writes it, or the same command.
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from sqlalchemy import Connection, Engine

from app import failpoint
from app.config.settings import Settings
from app.db.sqlstate import translated
from app.errors import Diverged, Refused, StateUnfit, Unreachable
from app.ledger.store import Ledger
from app.model.epoch import EpochRecord
from app.model.offsets import Span
from app.protocol.target_participant import PreparedTarget
from app.query import stored_state
from app.recover.stopped_lanes import lock_stopped
from app.spark.checkpoint import Checkpoint
from app.spark.entries import Entries
from app.spark.job_errors import spark_errors
from app.spark.session import ComingSession

PLAN = "rescale"


@dataclass(frozen=True)
class RescaleEpoch:
    """The newest epoch of a checkpoint, where it is a rescale's."""

    epoch: int
    partitions: int
    #: commits/N exists
    is_complete: bool


def newest(entries: Entries) -> RescaleEpoch | None:
    """None: the newest epoch is one of the query."""
    planned = entries.last_planned()
    if not planned:
        return None
    now, before = (stored_state.partitions(entries, epoch) for epoch in (planned, planned - 1))
    if now is None or before is None or now == before:
        return None
    return RescaleEpoch(planned, now, entries.is_complete(planned))


def check_finished(entries: Entries, lane: str) -> None:
    """Raises StateUnfit where a rescale was killed in the middle. `lane`: `<lane>.<query>`."""
    left = newest(entries)
    if left is not None and not left.is_complete:
        raise StateUnfit(
            f"lane {lane}: a rescale of its state to {left.partitions} partitions is not finished. Nothing was changed",
            hint=f"surelane state rescale {lane.rpartition('.')[2]} --partitions {left.partitions}: it goes on",
        )


def check_applied(connection: Connection, ledger: Ledger, entries: Entries, epoch: int) -> None:
    """Raises Diverged where the target lacks a decided epoch of the checkpoint. The row of a rescale, which is the
    newest one, is written if it is not there. In a transaction of its own."""
    with connection.begin():
        if _is_applied(connection, ledger, entries, epoch):
            return None
        left = newest(entries)
        is_rescale = left is not None and left.epoch == epoch
        if is_rescale and _is_applied(connection, ledger, entries, epoch - 1):
            return _record(connection, ledger, epoch)
    raise Diverged.state_lost(
        f"lane {ledger.lane}: epoch {epoch} is in the checkpoint, and not in the target's ledger", lane=ledger.lane
    )


def rescale(settings: Settings, spark: SparkSession, engine: Engine, partitions: int) -> int:
    """Returns the number of partitions before. Raises LaneRunning, Refused, Diverged, Unreachable."""
    checkpoint, ledger = (
        Checkpoint(ComingSession.of(spark), settings.checkpoint),
        Ledger(settings.target.db_schema, settings.lane),
    )
    try:
        with translated(f"lane {settings.lane}: rescaling"), engine.connect() as connection:
            return _rescaled(settings, spark, engine, connection, checkpoint, ledger, partitions)
    except Unreachable as error:
        raise Unreachable(error.message, hint="call it again: it goes on where it was") from error


def _rescaled(
    settings: Settings,
    spark: SparkSession,
    engine: Engine,
    connection: Connection,
    checkpoint: Checkpoint,
    ledger: Ledger,
    partitions: int,
) -> int:
    lock_stopped(connection, settings.lane)
    if PreparedTarget(connection, engine, ledger, 0).handles():
        raise Refused(
            f"lane {settings.lane}: an epoch is prepared, and not committed",
            hint="surelane run --query ... --until-caught-up, whose start ends it, then this again",
        )
    left = newest(checkpoint)
    if left is not None and not left.is_complete:  # killed in the middle: first what it had begun with
        check_applied(connection, ledger, checkpoint, left.epoch - 1)
        _repartition(settings, spark, left.partitions)
    planned = checkpoint.last_planned()
    if planned is None or not checkpoint.is_complete(planned):
        raise Refused(
            f"lane {settings.lane}: its checkpoint has {'no epoch' if planned is None else 'an open epoch'}",
            hint="surelane run --query ... --until-caught-up, then this again",
        )
    before = _partitions(spark, settings)
    check_applied(connection, ledger, checkpoint, planned)
    if before != partitions:
        _repartition(settings, spark, partitions)
        check_applied(connection, ledger, checkpoint, planned + 1)
        failpoint.reach("rescale-after-ledger")
    return before


def _repartition(settings: Settings, spark: SparkSession, partitions: int) -> None:
    with spark_errors():
        stored_state.repartition(spark, settings.checkpoint, partitions)
    failpoint.reach("rescale-before-ledger")


def _partitions(spark: SparkSession, settings: Settings) -> int:
    found = stored_state.operators(spark, settings.checkpoint)
    if not found:
        raise Refused(f"lane {settings.lane}: the query has no state", hint="nothing: it has nothing to rescale")
    return max(int(one["numPartitions"]) for one in found)


def _is_applied(connection: Connection, ledger: Ledger, entries: Entries, epoch: int) -> bool:
    identity = entries.identity()
    return identity is not None and ledger.is_applied(connection, identity.checkpoint, epoch)


def _record(connection: Connection, ledger: Ledger, epoch: int) -> None:
    last = ledger.last(connection)
    assert last is not None, "it has the epoch before"
    end = last.span.end
    span = Span(start=end, end=end)
    ledger.record(
        connection,
        EpochRecord(lane=ledger.lane, generation=last.generation, epoch=epoch, span=span, plan=PLAN),
    )
