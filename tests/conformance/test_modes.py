"""What every commit mode promises: one suite, run in each of them."""

import pytest

from app.config.settings import CommitMode
from tests.fix_lane import MODES, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.workload import TABLES, Shop

pytestmark = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)


def test_a_mixed_workload_ends_equal_to_the_oracle(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    target.create(*TABLES)
    topic.send(Shop(seed=1).messages(1500))
    made = lane(mode, epoch={"max_messages": 200})
    with Reader(target, topic) as reader:
        made.run_until_caught_up()
    questions(target, topic, reader=reader, exactly_once=made.exactly_once)
