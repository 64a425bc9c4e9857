"""The state of a query as Spark has stored it: which operators have one, its rows, and its partitions.

It is read from the checkpoint, up to the last complete epoch, while the query runs or not.
"""

import json
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructField, StructType

from app.errors import EnvironmentMissing, Refused
from app.spark.checkpoint import Checkpoint
from app.spark.entries import Entries
from app.spark.session import ComingSession

#: name and type of each, in order
Columns = tuple[tuple[str, str], ...]

_PARTITIONS = "spark.sql.shuffle.partitions"
_METADATA, _ROWS = "state-metadata", "statestore"
#: stores of a join, by its side
SIDES = ("left", "right")


def operators(spark: SparkSession, checkpoint: str) -> list[dict[str, Any]]:
    """An operator's number, name, stores, partitions, and the epochs that can be read."""
    entries = Checkpoint(ComingSession.of(spark), checkpoint)
    complete = entries.last_complete()
    count = None if complete is None else partitions(entries, complete)  # since a rescale
    now = {} if count is None else {"numPartitions": count}
    return [row.asDict(recursive=True) | now for row in _read(spark, _METADATA, checkpoint, {}).collect()]


def partitions(entries: Entries, epoch: int) -> int | None:
    """Partitions of the state of a planned epoch; None where it has no entry."""
    found = entries.options(epoch).get(_PARTITIONS)
    return None if found is None else int(found)


def rows(
    spark: SparkSession, checkpoint: str, *, operator: int, store: str | None, key: str | None, limit: int
) -> list[dict[str, Any]]:
    """Keys and values. `store`: left, right of a join, or a state variable's name; `key`: JSON of the columns of the
    key, or the value of its only one. Raises Refused for a column that the key has not."""
    options = {"operatorId": str(operator), **_store(store)}
    frame = _read(spark, _ROWS, checkpoint, options)
    if key is not None:
        frame = frame.where(_condition(frame, key))
    return _collected(frame, checkpoint, limit)


def windows(
    spark: SparkSession, checkpoint: str, *, operator: int, store: str | None, column: str, limit: int
) -> list[tuple[float, float, int]]:
    """Begin and end of windows, in seconds since 1970, and how many keys each has; the newest first. `column`: of the
    key, which has the window."""
    frame = _read(spark, _ROWS, checkpoint, {"operatorId": str(operator), **_store(store)})
    window = sf.col("key")[column]
    bounds = [window[name].cast("timestamp").cast("double").alias(name) for name in ("start", "end")]
    counted = frame.groupBy(*bounds).agg(sf.count(sf.lit(1)).alias("keys")).orderBy(sf.desc("start"), sf.desc("end"))
    try:
        return [(row["start"], row["end"], row["keys"]) for row in counted.limit(limit).collect()]
    except (PySparkException, Py4JJavaError) as error:
        raise _unreadable(checkpoint, error) from error


def changes(
    spark: SparkSession, checkpoint: str, *, operator: int, store: str | None, first: int, last: int | None, limit: int
) -> list[dict[str, Any]]:
    """What the epochs from `first` to `last` wrote to the state, in their order; None: up to the last one."""
    options = {"operatorId": str(operator), "readChangeFeed": "true", "changeStartBatchId": str(first), **_store(store)}
    if last is not None:
        options["changeEndBatchId"] = str(last)
    frame = _read(spark, _ROWS, checkpoint, options)
    return _collected(frame, checkpoint, limit)


def schema_of(spark: SparkSession, checkpoint: str, operator: int, store: str | None) -> tuple[Columns, Columns]:
    """Columns of keys and of values of a store; see `rows`."""
    found = _read(spark, _ROWS, checkpoint, {"operatorId": str(operator), **_store(store)}).schema
    others = [one for one in found.fields if one.name not in ("key", "partition_id")]
    value = others[0].dataType if len(others) == 1 else StructType(others)  # a map has two columns
    return _columns(found["key"].dataType), _columns(value)


def _columns(kind: DataType) -> Columns:
    fields = kind.fields if isinstance(kind, StructType) else [StructField("", kind)]
    return tuple((one.name, one.dataType.simpleString()) for one in fields)


def repartition(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Give the state so many partitions. Spark writes one more epoch to the checkpoint, without messages; of one that
    was begun with the same number, and not finished, all that is left."""
    java: Any = spark
    java._jsparkSession.streamingCheckpointManager().repartition(checkpoint, partitions, True)


def _store(store: str | None) -> Mapping[str, str]:
    if store is None:
        return {}
    return {"joinSide": store} if store in SIDES else {"stateVarName": store}


def _read(spark: SparkSession, source: str, checkpoint: str, options: Mapping[str, str]) -> DataFrame:
    try:
        frame = spark.read.format(source).options(**options).load(checkpoint)
        frame.schema  # noqa: B018  # it is read now
    except (PySparkException, Py4JJavaError) as error:
        raise _unreadable(checkpoint, error) from error
    return frame


def _collected(frame: DataFrame, checkpoint: str, limit: int) -> list[dict[str, Any]]:
    try:
        return [json.loads(text) for (text,) in frame.select(sf.to_json(sf.struct("*"))).limit(limit).collect()]
    except (PySparkException, Py4JJavaError) as error:
        raise _unreadable(checkpoint, error) from error


def _unreadable(checkpoint: str, error: Exception) -> EnvironmentMissing:
    lines = [line for line in str(error).splitlines() if "[" in line] or str(error).splitlines()
    return EnvironmentMissing(
        f"the state in checkpoint {checkpoint} cannot be read: {lines[0][:300]}",
        hint="has the query run, and has it state? `surelane state list` names operators, stores and epochs. What an "
        "epoch wrote is readable while its changelog is there: not the first one's, nor one that Spark cleaned up",
    )


def _condition(frame: DataFrame, key: str) -> "sf.Column":
    """Whether the row has this key."""
    names = frame.select("key.*").columns
    try:
        given = json.loads(key)
    except ValueError:
        given = key
    wanted = given if isinstance(given, dict) else {names[0]: given}
    if unknown := [name for name in wanted if name not in names]:
        raise Refused(
            f"the key of this state has no column {', '.join(unknown)}: it has {', '.join(names)}",
            hint="Spark calls what is grouped by an expression, after.customer for example, _groupingexpression; "
            "`surelane state show` without --key has keys as they are",
        )
    condition = sf.lit(True)
    for name, value in wanted.items():
        condition &= sf.col(f"key.{name}").cast("string") == sf.lit(str(value))
    return condition
