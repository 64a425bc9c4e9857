"""Spark's folders of a running query are deleted, as programs that clean /tmp do: it goes on in a new process."""

import shutil
from pathlib import Path

import pytest

from app.errors import ExitStatus
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import QUERIES, Shop

QUERY = "by_minute"


@pytest.mark.full  # its process makes eight attempts first, a minute
def test_deleted_under_a_query(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    shop = Shop(target, topic, 1)
    shop.prepare()
    folder = tmp_path / "spark"
    folder.mkdir()
    made = lane("two-phase", queries={QUERY: QUERIES[QUERY]}, spark={"conf": {"spark.local.dir": str(folder)}})
    name = made.of_query(QUERY).name
    shop.send(90)
    process = lane_process(made, arguments=("--query", QUERY)).start()
    process.until(lambda: set(target.position(name).values()) == {topic.end}, why="the first messages")
    for one in folder.iterdir():
        shutil.rmtree(one)
    shop.send(90)
    process.until(lambda: process.events("worker died"), 240, "a new process")
    process.until(lambda: set(target.position(name).values()) == {topic.end}, why="the other messages")
    (died,) = process.events("worker died")
    assert died["detail"] == "SparkGone"
    assert process.stop() == ExitStatus.OK
    shop.send(90)
    last = lane_process(made, until_caught_up=True, arguments=("--query", QUERY)).start()
    assert last.wait() == ExitStatus.OK, last.tail()
    assert shop.result(QUERY) == shop.batch(QUERY)
    assert target.prepared() == []
