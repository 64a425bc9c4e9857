"""A restart storm: the lane is killed again and again, at no chosen place, while messages keep coming."""

import random
from dataclasses import dataclass

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.fix_lane import LaneProcess, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.workload import TABLES, Shop

KILLS = 6
EPOCH_MESSAGES = 40
#: messages sent at once, and how many may wait before no more are sent
BATCH, BACKLOG = 20, 300
#: offsets that the ledger moves on before the lane is killed, at most
LIFE = 250
#: one life in so many ends right after the start, while the last one's remains are being settled
SHORT_LIFE = 3
LIFE_SECONDS = 180.0
#: seven starts of Spark
TIMEOUT_SECONDS = 1200


@dataclass
class Storm:
    """Messages that keep coming, and moments to kill."""

    target: Target
    topic: Topic
    shop: Shop
    chance: random.Random

    def more(self) -> int:
        """Send if the lane keeps up; returns where the ledger ends."""
        position = max(self.target.position().values(), default=0)
        if self.topic.end - position < BACKLOG:
            self.topic.send(self.shop.messages(BATCH))
        return position

    def strike(self, process: LaneProcess) -> None:
        """Let it live for a while, then kill it."""
        if self.chance.randrange(SHORT_LIFE):
            end = self.more() + self.chance.randrange(1, LIFE)
            process.until(lambda: self.more() >= end, LIFE_SECONDS, f"the ledger to reach {end}")
        else:
            process.until(lambda: self.more() >= 0 and process.events("start"), LIFE_SECONDS, "its start")
        process.kill()


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_six_kills_under_load(
    seed: int, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Nothing is lost, nothing counts twice, nobody sees part of an epoch."""
    target.create(*TABLES)
    storm = Storm(target, topic, Shop(seed), random.Random(seed))
    made: LaneUnderTest = lane(CommitMode.TWO_PHASE, epoch={"max_messages": EPOCH_MESSAGES})
    with Reader(target, topic) as reader:
        for _ in range(KILLS):
            storm.strike(lane_process(made).start())
        last = lane_process(made, until_caught_up=True).start()
        assert last.wait() == ExitStatus.OK, last.tail()
        questions(target, topic, reader=reader)
