"""The Spark session of the service: classic PySpark, driver in this process."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")

#: what the lane relies on; `spark.conf` of the configuration may override the rest, never these
REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    # an epoch's rows must come back in one pass, in partition order
    "spark.sql.adaptive.enabled": "false",
    # strings of a message exactly as they stood in it
    "spark.sql.json.enableExactStringParsing": "true",
}
#: measured: halves the cost of a checkpoint entry on a local disk against the default manager
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def make_session(lane: str, master: str, conf: dict[str, str], java_home: Path, jars: list[Path]) -> SparkSession:
    """Start Spark with the Kafka connector's jars; the one session of this process."""
    os.environ["JAVA_HOME"] = str(java_home)
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # transforms run in what this process runs in
    defaults = DEFAULTS if master.startswith("local") else {k: v for k, v in DEFAULTS.items() if "driver." not in k}
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName(f"surelane {lane}")
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    for key, value in {**defaults, **conf, **REQUIRED}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


def stop_session(session: SparkSession) -> None:
    """Stop Spark; there is nothing to stop in a JVM that is gone."""
    with suppress(Py4JError, ConnectionError):
        session.stop()
