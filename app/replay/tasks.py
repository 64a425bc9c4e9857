"""The Spark session of a replay, with resident tasks that read, decode and stage its messages as for a lane."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from app.config.settings import Settings
from app.dispatch.pool import Pool
from app.worker.lane_jvm import start_lanes_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def stage_tasks(settings: Settings) -> Iterator[Pool]:
    """A pool of stage tasks; session and tasks end with the context. Epochs keep only the order within each topic."""
    with session(settings) as spark:
        from app.spark.session import ComingSession
        from app.worker.lane_factory import make_pool

        with closing(make_pool(settings, ComingSession.of(spark), keeps_order=False)) as pool:
            pool.start()
            yield pool


@contextmanager
def session(settings: Settings) -> "Iterator[SparkSession]":
    """The only Spark session of this process."""
    jvm = start_lanes_jvm(settings)  # it comes up while Python imports
    from app.spark.session import begin_session

    coming = begin_session(jvm)
    try:
        yield coming.get()
    finally:
        coming.stop()
