"""`transformWithState` with timers, and messages that come behind the watermark: it gets those that Spark does not
leave out, and nothing else."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from app.config.settings import CommitMode
from tests.closed_windows import QUERY, TIMERS, WAYS, ClosedWindows
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import Shop, with_options


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


def test_late_changes(lane: MakeLane, target: Target, topic: Topic) -> None:
    """In two runs."""
    shop = Shop(target, topic, seed=3)
    made = lane(CommitMode.TWO_PHASE, queries={QUERY: WAYS[TIMERS]}).of_query(QUERY)
    windows = ClosedWindows(shop, made.name, TIMERS)
    windows.prepare()
    for count in (150, 80):
        windows.send(count)
        made.run_until_caught_up()
        assert windows.difference() == []
    assert all(windows.counted())
