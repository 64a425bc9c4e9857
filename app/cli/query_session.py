"""A Spark session for verbs that look at queries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app import logs
from app.config.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session_of(settings: Settings) -> Iterator["SparkSession"]:
    """With the options of the query that the settings are of."""
    # a verb that needs no Spark does not wait for its imports
    from app.spark.session import begin_session
    from app.worker.lane_jvm import start_lanes_jvm

    logs.configure(settings.lane)
    coming = begin_session(start_lanes_jvm(settings))
    try:
        spark = coming.get()
        spark.streams.active  # noqa: B018  # Spark's state store has its coordinator from now on
        yield spark
    finally:
        coming.stop()
