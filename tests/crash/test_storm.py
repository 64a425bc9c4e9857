"""A restart storm: the lane is killed again and again, at no chosen place, while good messages keep coming."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.fix_lane import LaneProcess, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.workload import TABLES, Shop

#: kills of the sample, which takes about a minute, and of the full storm
SAMPLE, FULL = 3, 50
EPOCH_MESSAGES = 40
#: messages sent at once, and how many may wait before no more are sent
BATCH, BACKLOG = 20, 300
#: offsets that the ledger moves on before the lane is killed, at most
LIFE = 120
#: seconds between what is waited for and the kill, at most: an epoch, and a commit, take some hundredths
DELAY_SECONDS = 0.4
#: ... and between the process' first sign and the kill: Spark starts, what the last life left is settled
START_SECONDS = 6.0
LIFE_SECONDS = 180.0
TIMEOUT_SECONDS = 2400


@dataclass
class Storm:
    """Messages that keep coming, and moments to kill."""

    target: Target
    topic: Topic
    shop: Shop
    chance: random.Random
    #: kills by what they were meant to hit
    kills: Counter[str] = field(default_factory=Counter[str])

    def more(self) -> int:
        """Send if the lane keeps up; returns where the ledger ends."""
        position = max(self.target.position().values(), default=0)
        if self.topic.end - position < BACKLOG:
            self.topic.send(self.shop.messages(BATCH))
        return position

    def strike(self, process: LaneProcess) -> None:
        """Let it live for a while, then kill it."""
        where = ("start", "epoch", "commit")[self.kills.total() % 3]
        self.kills[where] += 1
        if where == "start":
            process.until(lambda: self.more() >= 0 and process.worker, LIFE_SECONDS, "its worker")
            self.wait(process, START_SECONDS)
        else:
            end = self.more() + self.chance.randrange(1, LIFE)
            process.until(lambda: self.more() >= end, LIFE_SECONDS, f"the ledger to reach {end}")
            if where == "commit":
                process.until(
                    lambda: self.more() >= 0 and self.target.prepared(), LIFE_SECONDS, "an epoch's pre-commit"
                )
            else:
                self.wait(process, DELAY_SECONDS)
        process.kill()

    def wait(self, process: LaneProcess, most: float) -> None:
        """Any time up to so many seconds, in which messages keep coming."""
        end = time.monotonic() + self.chance.uniform(0, most)
        process.until(lambda: self.more() >= 0 and time.monotonic() >= end, LIFE_SECONDS, "the moment to kill")


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("kills", [SAMPLE, pytest.param(FULL, marks=pytest.mark.full)])
def test_kills_under_load(
    kills: int, seed: int, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Nothing is lost, nothing counts twice, no reader sees part of an epoch, and nothing is quarantined."""
    target.create(*TABLES)
    storm = Storm(target, topic, Shop(seed), random.Random(seed))
    made: LaneUnderTest = lane(CommitMode.TWO_PHASE, epoch={"max_messages": EPOCH_MESSAGES})
    with Reader(target, topic) as reader:
        for _ in range(kills):
            storm.strike(lane_process(made).start())
        last = lane_process(made, until_caught_up=True).start()
        assert last.wait() == ExitStatus.OK, last.tail()
        questions(target, topic, reader=reader)
    print(  # shown with -s
        f"storm: {dict(storm.kills)}, {topic.end} messages, {target.ledger_sum().quarantined} quarantined,"
        f" {len(target.epochs())} epochs, {reader.looks} looks"
    )
