"""The Spark session of a replay, with tasks that read, decode and stage its messages as they do for a lane."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from app.config.settings import Settings
from app.stage.pool import Pool
from app.supervise.jvm import start_lanes_jvm


@contextmanager
def stage_tasks(settings: Settings) -> Iterator[Pool]:
    """Session and tasks end with it. Epochs keep the order within each topic only: all that Kafka has is read."""
    jvm = start_lanes_jvm(settings)  # it comes up while Python imports
    from app.spark.session import make_session, stop_session
    from app.supervise.assembly import make_pool

    session = make_session(jvm)
    try:
        with closing(make_pool(settings, session.sparkContext, keeps_order=False)) as pool:
            pool.start()
            yield pool
    finally:
        stop_session(session)
