"""A small run, of a lane's query and one with a state, whose classes are archived (`app.spark.class_archive`).

python -m app.source.rehearsal PATH
"""

import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from app.class_sharing import options_to_list
from app.config.queries import StateSettings
from app.jars import jars
from app.java import java_home
from app.spark.class_archive import MAKE_SECONDS
from app.spark.jvm import start_jvm
from app.spark.session import make_session
from app.spark.session_options import options
from app.spark.state_options import state_options

#: classes of the Kafka connector and its client that a run with a broker loads
_KAFKA = ("org/apache/spark/sql/kafka010/", "org/apache/kafka/clients/", "org/apache/kafka/common/")


def _rehearse(listing: Path) -> None:
    java, conf = java_home(), {"spark.driver.extraJavaOptions": options_to_list(listing)}
    spark = make_session(start_jvm(options("rehearsal", "local[1]", conf, java, jars("spark")), java))
    _load(spark, jars("spark"))
    with tempfile.TemporaryDirectory() as checkpoint:
        _query(spark, checkpoint)
    with tempfile.TemporaryDirectory() as checkpoint:
        _query_with_state(spark, checkpoint)
    spark.stop()
    _end_jvm()


def _load(spark: SparkSession, paths: list[Path]) -> None:
    """Load the classes that the JVM would load only with a broker."""
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    loader = java.Thread.currentThread().getContextClassLoader()
    for path in paths:
        with zipfile.ZipFile(path) as jar:
            names = [name for name in jar.namelist() if name.startswith(_KAFKA) and name.endswith(".class")]
        for name in names:
            with suppress(Py4JJavaError):  # some need libraries that are not installed
                java.java.lang.Class.forName(name.removesuffix(".class").replace("/", "."), False, loader)


def _query(spark: SparkSession, checkpoint: str) -> None:
    """Run a streaming query whose epochs are not read, like a lane's, and a job, like a resident one."""
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = ticks.writeStream.foreachBatch(_take).option("checkpointLocation", checkpoint).start()
    while not query.recentProgress:
        query.awaitTermination(1)
    query.stop()
    spark.sparkContext.parallelize([0], 1).foreachPartition(_nothing)


def _query_with_state(spark: SparkSession, checkpoint: str) -> None:
    """Run one whose rows are computed and given to Python, like those of a user's query."""
    for name, value in state_options(StateSettings(partitions=1)).items():
        spark.conf.set(name, value)
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    text = "to_json(struct(value as key, timestamp as at))"
    (
        ticks.selectExpr(f"from_json({text}, 'key bigint, at timestamp', map('mode', 'FAILFAST')) as m")
        .selectExpr("m.key", "m.at")
        .withWatermark("at", "1 second")
        .createOrReplaceTempView("ticks")
    )
    counts = spark.sql(
        "select window.start as minute, key, count(*) as n, sum(key) as total from ticks"
        " group by window(at, '1 minute'), key"
    )
    writer = counts.writeStream.foreachBatch(_compute).outputMode("update").option("checkpointLocation", checkpoint)
    query = writer.start()
    while not query.recentProgress:
        query.awaitTermination(1)
    query.stop()


def _compute(epoch: DataFrame, number: int) -> None:
    """Have Python read its rows."""
    del number
    epoch.mapInArrow(_same, epoch.schema).collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _take(epoch: DataFrame, number: int) -> None:
    """Read no row of the epoch, as the lane does."""


def _nothing(of: Iterable[int]) -> None:
    """Read the input to its end."""
    for _ in of:
        pass


def _end_jvm() -> None:
    """End the JVM and wait until it has written the list."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    gateway.proc.stdin.close()
    gateway.proc.wait(MAKE_SECONDS)


if __name__ == "__main__":
    _rehearse(Path(sys.argv[1]))
