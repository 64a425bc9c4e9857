"""The Spark session of a replay, with tasks that read, decode and stage its messages as they do for a lane."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from app.config.settings import Settings
from app.stage.pool import Pool
from app.worker.lane_jvm import start_lanes_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def stage_tasks(settings: Settings) -> Iterator[Pool]:
    """Session and tasks end with it. Epochs keep the order within each topic only: all that Kafka has is read."""
    with session(settings) as spark:
        from app.worker.lane_factory import make_pool

        with closing(make_pool(settings, spark.sparkContext, keeps_order=False)) as pool:
            pool.start()
            yield pool


@contextmanager
def session(settings: Settings) -> "Iterator[SparkSession]":
    """Of this process, which has no other one."""
    jvm = start_lanes_jvm(settings)  # it comes up while Python imports
    from app.spark.session import make_session, stop_session

    made = make_session(jvm)
    try:
        yield made
    finally:
        stop_session(made)
