"""Names and schemas of a query's state: those that a checkpoint has, and those that a configuration would have."""

import datetime
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Engine

from app.config.settings import Settings
from app.errors import ConfigInvalid
from app.model.state_store import StateStore
from app.query.archive_source import KAFKA_SCHEMA
from app.query.computation import Computation, is_row_by_row, state_encoding
from app.query.source_columns import columns_of
from app.query.stored_state import SIDES, operators, schema_of
from app.spark.state_options import ENCODING, state_options

#: state that Spark keeps for itself, timers
_OWN = "$"
_JOIN, _WITH_STATE, DEFAULT_STORE = "symmetricHashJoin", "transformWithState", "default"


def stored_shape(spark: SparkSession, checkpoint: str) -> list[StateStore]:
    """Of the state in a checkpoint; empty for a query without state."""
    found: dict[tuple[int, str], StateStore] = {}
    for one in operators(spark, checkpoint):
        name = str(one["operatorName"])
        for store in _stores(name, str(one["stateStoreName"]), one.get("operatorProperties")):
            number = int(one["operatorId"])
            key, value = schema_of(spark, checkpoint, number, None if store == DEFAULT_STORE else store)
            found[number, store] = StateStore(operator=number, name=name, store=store, key=key, value=value)
    return [found[place] for place in sorted(found)]


def _stores(operator: str, store: str, properties: str | None) -> Sequence[str]:
    """What can be read of an operator."""
    if operator == _JOIN:
        return SIDES
    if operator.startswith(_WITH_STATE):
        found = json.loads(properties or "{}").get("stateVariables", ())
        return [str(one["stateName"]) for one in found if not str(one["stateName"]).startswith(_OWN)]
    return (store,)


def planned_shape(settings: Settings, spark: SparkSession, engine: Engine) -> list[StateStore]:
    """Of the state that the query would have: Spark runs it once, over one message without a value, in a folder of its
    own. `settings`: the query's. Raises what opening the query would raise."""
    query = settings.query
    assert query is not None, "the settings are a query's"
    for name, value in state_options(query.state).items():
        spark.conf.set(name, value)
    computation = Computation(settings.lane, query, columns_of(settings, engine))
    with tempfile.TemporaryDirectory(prefix="surelane-state-") as folder:
        messages = Path(folder) / "messages"
        messages.mkdir()
        _write_message(messages / "one.parquet")

        def read(topics: Sequence[str]) -> DataFrame:
            del topics
            return spark.readStream.schema(KAFKA_SCHEMA).parquet(str(messages))

        rows = computation.result(spark, read)
        if is_row_by_row(rows):
            return []
        spark.conf.set(ENCODING, state_encoding(rows))
        checkpoint = str(Path(folder) / "checkpoint")
        writer = rows.writeStream.format("noop").outputMode(computation.output(rows).value)
        try:
            writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
        except (PySparkException, Py4JJavaError) as error:
            raise ConfigInvalid(
                f"queries: {settings.lane}: {str(error).strip().splitlines()[0][:300]}", hint="see docs/QUERIES.md"
            ) from error
        return stored_shape(spark, checkpoint)


def _write_message(path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    columns = {
        "key": pa.array([None], pa.binary()),
        "value": pa.array([None], pa.binary()),
        "topic": pa.array([""], pa.string()),
        "partition": pa.array([0], pa.int32()),
        "offset": pa.array([0], pa.int64()),
        "timestamp": pa.array([now], pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0], pa.int32()),
    }
    pyarrow.parquet.write_table(pa.table(columns), path)
