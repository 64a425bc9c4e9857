"""The crash matrix: a fault strikes while the lane stands at a known place, and the lane has to come back by itself.

Every case ends with the same questions (`tests.oracle.questions`), and a reader watches all the time. An ordinary run
takes a sample; `pytest tests/crash --full-matrix` takes all cases, `--seed N` another sample, workload and moment.
"""

import random
import signal
from dataclasses import dataclass

import pytest

from app.failpoint import NAMES
from tests.crash.cases import Case, Fault, matrix, sample
from tests.crash.faults import Surroundings
from tests.fix_lane import MODES, Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_proxy import Proxy
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.workload import TABLES, Shop
from tools.devstack import Kafka, Postgres

#: messages in an epoch: small, so that a case has several in little time
EPOCH_MESSAGES = 60
#: messages before the fault, enough for FAULT_AT epochs; and after it
BEFORE, AFTER = 300, 150
#: the fault strikes in one of the first epochs; the very first has no ledger row before it
FAULT_AT = (1, 2, 3)


@dataclass
class Play:
    """One case being played."""

    case: Case
    lane: LaneUnderTest
    target: Target
    topic: Topic
    shop: Shop
    at: int

    def killed(self, process: MakeProcess) -> None:
        """The process dies at the place; another one goes on."""
        victim = process(self.lane, failpoint=f"{self.case.place}=kill@{self.at}").start()
        assert victim.wait() == -signal.SIGKILL, victim.tail()
        self.topic.send(self.shop.messages(AFTER))
        self.lane.run_until_caught_up()

    def struck(self, hold: Hold, around: Surroundings) -> None:
        """The lane is held at the place, the fault strikes, the lane is let go; it comes back in the same process."""
        held = hold(self.case.place, at=self.at)
        self.lane.start()
        held.reached()
        self.topic.send(self.shop.messages(AFTER))
        with around.without(self.case.fault):
            held.release()
        self.topic.send(self.shop.messages(AFTER))
        self.lane.until_caught_up(self.topic)
        self.lane.stop()

    def questions(self, reader: Reader) -> None:
        """What every run has to answer."""
        exactly_once, archive = self.lane.exactly_once, self.lane.archive
        questions(self.target, self.topic, reader=reader, exactly_once=exactly_once, archive=archive)


@pytest.fixture
def play(case: Case, seed: int, lane: MakeLane, target: Target, topic: Topic, proxy: Proxy) -> Play:
    """The case, with the first messages waiting in the topic."""
    chance = random.Random(f"{seed} {case}")
    shop = Shop(seed=chance.randrange(1 << 30))
    target.create(*TABLES)
    topic.send(shop.messages(BEFORE))
    align = chance.choice(["none", "source-transaction"])
    made = lane(
        case.mode,
        archived=case.archived,
        epoch={"max_messages": EPOCH_MESSAGES, "align": align},
        target={"url": str(proxy.url(target.url))},
    )
    return Play(case, made, target, topic, shop, at=chance.choice(FAULT_AT))


@pytest.mark.costly(6)
def test_comes_back(
    play: Play, hold: Hold, lane_process: MakeProcess, kafka: Kafka, target_server: Postgres, proxy: Proxy
) -> None:
    """Whatever strikes wherever: nothing is lost, nothing counts twice, no reader sees part of an epoch."""
    with Reader(play.target, play.topic) as reader:
        if play.case.fault is Fault.KILL:
            play.killed(lane_process)
        else:
            play.struck(hold, Surroundings(kafka, target_server, proxy))
        play.questions(reader)


def test_every_sample_has_each_place_mode_and_fault() -> None:
    """And no case twice."""
    for number in range(50):
        cases = sample(number)
        assert {case.place for case in cases} == set(NAMES)
        assert {case.mode for case in cases} == set(MODES)
        assert {case.fault for case in cases} == set(Fault)
        assert len(set(cases)) == len(cases)
        assert set(cases) <= set(matrix())
        assert {case.archived for case in cases} == {True, False}
