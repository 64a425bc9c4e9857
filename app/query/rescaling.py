"""Gives the state of a query another number of partitions, while the query is stopped.

Spark writes it as one more epoch of the checkpoint, without messages. The ledger gets that epoch's row afterwards:
after a crash between the two, the same command goes on with the row.
"""

from pyspark.sql import SparkSession
from sqlalchemy import Connection, Engine

from app.config.settings import Settings
from app.db.locks import try_lock
from app.db.sqlstate import translated
from app.errors import Diverged, Refused
from app.ledger.store import Ledger
from app.model.epoch import EpochRecord
from app.model.offsets import Span
from app.query import stored_state
from app.recover.stopped_lanes import LaneRunning
from app.spark.checkpoint import Checkpoint
from app.spark.job_errors import spark_errors

PLAN = "rescale"


def rescale(settings: Settings, spark: SparkSession, engine: Engine, partitions: int) -> int:
    """Returns the number of partitions before. Raises LaneRunning, Refused, Diverged."""
    checkpoint, ledger = Checkpoint(spark, settings.checkpoint), Ledger(settings.target.db_schema, settings.lane)
    with translated(f"lane {settings.lane}: rescaling"), engine.connect() as connection:
        with connection.begin():
            if not try_lock(connection, settings.lane):
                raise LaneRunning(f"lane {settings.lane} is running", hint="stop it first, then call this again")
        planned = checkpoint.last_planned()
        if planned is None or not checkpoint.is_complete(planned):
            raise Refused(
                f"lane {settings.lane}: its checkpoint has {'no epoch' if planned is None else 'an open epoch'}",
                hint="surelane run --query ... --until-caught-up, then this again",
            )
        before = _partitions(spark, settings)
        last = _last(connection, ledger)
        if last.epoch + 1 == planned and _is_empty(checkpoint.span(planned), last):
            _record(connection, ledger, last, planned)  # a crash came between the two
            last = _last(connection, ledger)
        if last.epoch != planned:
            raise Diverged.state_lost(
                f"lane {settings.lane}: the ledger ends with epoch {last.epoch}, the checkpoint with {planned}",
                lane=settings.lane,
            )
        if before != partitions:
            with spark_errors():
                stored_state.repartition(spark, settings.checkpoint, partitions)
            _record(connection, ledger, last, planned + 1)
    return before


def _partitions(spark: SparkSession, settings: Settings) -> int:
    found = stored_state.operators(spark, settings.checkpoint)
    if not found:
        raise Refused(f"lane {settings.lane}: the query has no state", hint="nothing: it has nothing to rescale")
    return max(int(one["numPartitions"]) for one in found)


def _last(connection: Connection, ledger: Ledger) -> EpochRecord:
    with connection.begin():
        last = ledger.last(connection)
    if last is None:
        raise Refused(f"lane {ledger.lane} has applied nothing", hint="surelane run --query ..., then this again")
    return last


def _is_empty(span: Span, last: EpochRecord) -> bool:
    return not span.size and dict(span.end) == dict(last.span.end)


def _record(connection: Connection, ledger: Ledger, last: EpochRecord, epoch: int) -> None:
    end = last.span.end
    record = EpochRecord(
        lane=ledger.lane, generation=last.generation, epoch=epoch, span=Span(start=end, end=end), plan=PLAN
    )
    with connection.begin():
        ledger.record(connection, record)
