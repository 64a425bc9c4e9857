"""A savepoint of a lane at 1,000 messages a second keeps no epoch waiting. Alone: it is about time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import apart
from tests.fix_doubt import EPOCH, counted
from tests.fix_lane import LaneProcess, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.workload import COUNTER

pytestmark = pytest.mark.alone

RATE = 1_000
#: milliseconds that the longest epoch may take more than the longest one without a savepoint
MORE = 1_000
SAVEPOINTS = 8


@contextmanager
def steady(topic: Topic) -> Iterator[None]:
    """RATE messages a second, each 50 ms."""
    stop = threading.Event()

    def send() -> None:
        begun, number = time.monotonic(), 0
        while not stop.wait(max(0.0, begun + number * EPOCH / RATE - time.monotonic())):
            count = RATE // 20 // EPOCH
            topic.send([one for at in range(number, number + count) for one in counted(at * EPOCH)])
            number += count

    thread = threading.Thread(target=send, name="sender")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def epochs(process: LaneProcess) -> list[float]:
    """Milliseconds of each epoch so far."""
    return [sum(line["ms"].values()) for line in process.events("epoch")]


def create(made: LaneUnderTest, name: str) -> None:
    ended = apart("savepoint", "create", name, "--json", "--config", str(made.config_file))
    assert ended.status == 0, ended.err
    assert ended.json["name"] == name


def test_no_epoch_waits_for_a_savepoint(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    target.create(COUNTER)
    made = lane("two-phase", savepoints={"directory": str(tmp_path / "savepoints")})
    process = lane_process(made).start()
    with steady(topic):
        process.until(lambda: len(epochs(process)) > 50, why="the lane to have warmed up")
        warm = len(epochs(process))
        process.until(lambda: len(epochs(process)) > warm + 100, why="epochs without a savepoint")
        before = len(epochs(process))
        for number in range(SAVEPOINTS):
            create(made, f"point-{number}")
        process.until(lambda: len(epochs(process)) > before + 100, why="epochs beside savepoints")
    process.until(lambda: made.caught_up(topic), why="the last messages")
    assert process.stop() == 0
    found = epochs(process)
    without, beside = max(found[warm:before]), max(found[before:])
    assert beside <= without + MORE, f"{beside:.0f} ms, without a savepoint {without:.0f} ms"
    print(f"longest epoch without savepoints {without:.0f} ms, beside {SAVEPOINTS} of them {beside:.0f} ms")
    questions(target, topic)
