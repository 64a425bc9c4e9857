"""Tasks COPY the result's rows of an epoch into a staging table; the driver gets a receipt of each task.

A row of the staging table has the partition of the result, its place in it, and the task's attempt. Rows of attempts
without a receipt (a task that was tried again, one that died) are never merged.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.csv
from pyspark import TaskContext
from pyspark.sql import DataFrame
from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from app.db.engine import make_engine
from app.db.sql import quoted, run
from app.db.sqlstate import describe, sqlstate
from app.epoch.staging_copy import COPY_CHUNK_BYTES
from app.errors import AccountingBroken
from app.model.arrow import compute

#: columns of the staging table beside those of the result
PART, PLACE, ATTEMPT = "surelane_part", "surelane_place", "surelane_attempt"
_RECEIPT = "part int, attempt bigint, rows bigint, fault string, problem string"
_CSV = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid")
_SESSION = "set synchronous_commit = off"
#: of this Python worker, which runs task after task
_engines: dict[URL, Engine] = {}


@dataclass(frozen=True)
class ResultStaging:
    """The staging table of a query, for its tasks: sent with the job, whose channel has to be safe for passwords."""

    url: URL
    owner_role: str | None
    #: quoted
    table: str
    columns: tuple[str, ...]
    #: environment variables with secrets that the JVM must not have: not shown in a repr
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class StagedPart:
    """The receipt of a task."""

    part: int
    attempt: int
    rows: int
    #: what the target or the file system refused: SQLSTATE, "" for a lost connection; errno; None: nothing
    fault: str | None
    problem: str | None


class StagingFault(Exception):  # a value for the receipt
    """A task cannot write its rows: what was refused, as in the receipt, and a text for people."""

    def __init__(self, fault: str, problem: str) -> None:
        super().__init__(fault, problem)
        self.fault, self.problem = fault, problem


#: writes the rows of a task, given its partition and attempt: some batch that is not empty, and those behind it
Write = Callable[[int, int, Iterator[pa.RecordBatch]], None]


def written(rows: DataFrame, write: Write) -> list[StagedPart]:
    """Run the job; `write` goes to the tasks that have rows, and may raise StagingFault. Raises what Spark raises."""
    return [StagedPart(*row) for row in rows.mapInArrow(_task(write), _RECEIPT).collect()]


def staged(rows: DataFrame, staging: ResultStaging) -> list[StagedPart]:
    """COPY the rows into the staging table. Raises what Spark raises."""
    return written(rows, partial(copied, staging))


def check_whole(rows: DataFrame, receipts: Sequence[StagedPart], lane: str) -> None:
    """Raises AccountingBroken unless each partition of the epoch's frame has one receipt: of one that was not read
    neither the rows nor the state would be written. Spark looks after that only when `commits/N` is there."""
    frame: Any = rows
    partitions = frame._jdf.queryExecution().toRdd().getNumPartitions()
    found = sorted(one.part for one in receipts)
    if found != list(range(partitions)):
        raise AccountingBroken(
            f"lane {lane}: tasks staged partitions {found} of the {partitions} that the epoch's result has. Nothing of "
            "the epoch was applied",
            hint="surelane run --query tries the same epoch again. If it comes again it is a fault of Surelane: please "
            "report it with the log",
        )


def _task(write: Write) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "a task calls it"
        part, attempt = context.partitionId(), context.taskAttemptId()
        pieces = (batch for batch in batches if batch.num_rows)
        first, count, fault = next(pieces, None), 0, None

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in chain((first,), pieces):
                assert batch is not None, "there is a first one"
                count += batch.num_rows
                yield batch

        if first is not None:
            try:
                write(part, attempt, counted())
            except StagingFault as refused:
                fault = refused
                for _ in pieces:  # Spark waits until its rows are taken
                    pass
        yield _receipt(StagedPart(part, attempt, count, fault and fault.fault, fault and fault.problem))

    return task


def copied(staging: ResultStaging, part: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> None:
    """COPY the rows of one partition, committed at once."""
    os.environ.update(staging.variables)
    columns = ", ".join(map(quoted, (PART, PLACE, ATTEMPT, *staging.columns)))
    command, rows = f"copy {staging.table} ({columns}) from stdin (format csv)", 0
    try:
        with _engine(staging).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            run(connection, _SESSION)
            cursor = connection.connection.cursor()
            for batch in batches:
                cursor.copy_expert(command, io.BytesIO(_lines(part, rows, attempt, batch)), COPY_CHUNK_BYTES)
                rows += batch.num_rows
    except (DBAPIError, psycopg2.Error) as error:
        raise StagingFault(sqlstate(error) or "", describe(error)) from error


def _engine(staging: ResultStaging) -> Engine:
    if staging.url not in _engines:
        _engines[staging.url] = make_engine(staging.url, staging.owner_role, "surelane query")
    return _engines[staging.url]


def _lines(part: int, first: int, attempt: int, batch: pa.RecordBatch) -> bytes:
    """CSV: NULL is an empty field, an empty text is in quotes."""
    count = batch.num_rows
    own = [
        pa.array([part] * count, pa.int32()),
        pa.array(range(first, first + count), pa.int64()),
        pa.array([attempt] * count, pa.int64()),
    ]
    table = pa.table([*own, *map(_text, batch.columns)], [str(at) for at in range(len(own) + batch.num_columns)])
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, sink, _CSV)
    return sink.getvalue().to_pybytes()


def _text(values: pa.Array) -> pa.Array:
    """Values that Arrow does not write as Postgres reads them."""
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return pa.array([None if one is None else "\\x" + one.hex() for one in values.to_pylist()], pa.string())
    if pa.types.is_decimal(values.type) or pa.types.is_floating(values.type):
        return compute.cast(values, pa.string())
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        return compute.cast(values, pa.string())
    return values


def _receipt(one: StagedPart) -> pa.RecordBatch:
    values: Sequence[object] = (one.part, one.attempt, one.rows, one.fault, one.problem)
    types = (pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.string())
    names = ("part", "attempt", "rows", "fault", "problem")
    return pa.record_batch([pa.array([value], kind) for value, kind in zip(values, types, strict=True)], names)
