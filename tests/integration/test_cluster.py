"""Resident tasks on a cluster of Spark: on all of its workers, from a package that the driver ships, and killed."""

from tests.fix_cluster import Cluster
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.waiting import eventually
from tests.workload import TABLES, Shop

EPOCH_MESSAGES = 200


def test_a_lane(cluster: Cluster, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """Both workers stage; no file of the checkout is on their path."""
    target.create(*TABLES)
    cluster.start(workers=2)
    shop, made = Shop(2), lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, spark=cluster.spark())
    with Reader(target, topic) as reader:
        process = lane_process(made).start()
        topic.send(shop.messages(10 * EPOCH_MESSAGES))
        process.until(lambda: made.caught_up(topic), why="all of it")
        process.until(lambda: len(cluster.stage_processes()) == 4, why="a stage process on each core")
        assert process.stop() == 0
    questions(target, topic, reader=reader)
    eventually(lambda: not cluster.pythons(), why="no process of a task outlives the lane")
