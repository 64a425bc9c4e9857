"""Epochs are cut by bytes, too: where messages become large, they become few."""

import pytest

from app.config.settings import CommitMode
from tests import messages as m
from tests.fix_lane import MODES, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.oracle import questions

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
MAX_BYTES = 400_000
SMALL, LARGE = 100, 20_000


def rows(d: Debezium, first: int, count: int, size: int) -> list[Message]:
    return [d.create(FLAT, {"id": number, "v": "x" * size}) for number in range(first, first + count)]


@pytest.mark.parametrize("mode", [CommitMode.TWO_PHASE, CommitMode.AT_LEAST_ONCE], ids=lambda mode: mode.value)
def test_messages_that_become_large_and_small_again(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    """Only the first two epochs that meet them are larger than wanted; nothing is lost or done twice at the change."""
    assert mode in MODES
    target.create(FLAT)
    d = Debezium()
    topic.send([*rows(d, 0, 300, SMALL), *rows(d, 300, 300, LARGE), *rows(d, 600, 900, SMALL)])
    made = lane(mode, epoch={"max_messages": 100, "max_bytes": MAX_BYTES})
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once)
    sizes = [row.consumed for row in target.epochs()]
    large = sum(size < 50 for size in sizes)
    assert sizes[0] == 100, "small ones are as many as max_messages says"
    assert large >= 3, "large ones are cut by their bytes"
    assert min(sizes[-9:-1]) > 50, "and small ones are many again"


def test_large_messages_at_the_start(lane: MakeLane, target: Target, topic: Topic) -> None:
    """The lane needs no small messages before them."""
    target.create(FLAT)
    topic.send(rows(Debezium(), 0, 100, LARGE))
    lane("two-phase", epoch={"max_messages": 100, "max_bytes": MAX_BYTES}).run_until_caught_up()
    questions(target, topic)
    assert max(row.consumed for row in target.epochs()) <= MAX_BYTES / LARGE
