"""A small run that makes the class archive (`app.spark.class_archive`): a session, and a query.

python -m app.source.rehearsal PATH
"""

import sys
import tempfile
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from app.jars import jars
from app.java import java_home
from app.spark.class_archive import MAKE_SECONDS, options_to_make
from app.spark.jvm import start_jvm
from app.spark.session import make_session
from app.spark.session_options import JAVA_OPTIONS, options

#: classes of the Kafka connector and its client that a run would load, were there a broker
_KAFKA = ("org/apache/spark/sql/kafka010/", "org/apache/kafka/clients/", "org/apache/kafka/common/")


def _rehearse(part: Path) -> None:
    java, conf = java_home(), {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {options_to_make(part)}"}
    spark = make_session(start_jvm(options("rehearsal", "local[1]", conf, java, jars("spark")), java))
    _load(spark, jars("spark"))
    with tempfile.TemporaryDirectory() as checkpoint:
        _query(spark, checkpoint)
    spark.stop()
    _end_jvm()


def _load(spark: SparkSession, paths: list[Path]) -> None:
    """Load what only a broker would make the JVM load."""
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    loader = java.Thread.currentThread().getContextClassLoader()
    for path in paths:
        with zipfile.ZipFile(path) as jar:
            names = [name for name in jar.namelist() if name.startswith(_KAFKA) and name.endswith(".class")]
        for name in names:
            with suppress(Py4JJavaError):  # some lean on libraries that nobody here has
                java.java.lang.Class.forName(name.removesuffix(".class").replace("/", "."), False, loader)


def _query(spark: SparkSession, checkpoint: str) -> None:
    """One streaming query whose epochs are not read, as a lane's; and a job, as a resident one."""
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = ticks.writeStream.foreachBatch(_take).option("checkpointLocation", checkpoint).start()
    while not query.recentProgress:
        query.awaitTermination(1)
    query.stop()
    spark.sparkContext.parallelize([0], 1).foreachPartition(_nothing)


def _take(epoch: DataFrame, number: int) -> None:
    """As the lane does."""


def _nothing(of: Iterable[int]) -> None:
    """Read to its end."""
    for _ in of:
        pass


def _end_jvm() -> None:
    """End the JVM and wait until it has written the archive."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    gateway.proc.stdin.close()
    gateway.proc.wait(MAKE_SECONDS)


if __name__ == "__main__":
    _rehearse(Path(sys.argv[1]))
