"""Where the way to the target is slow, several tasks stage faster than one."""

import pytest

from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_proxy import proxy_to
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import INT, TEXT, Debezium, Table

FLAT = Table("flat", {"id": INT, "v": TEXT})
EPOCH_MESSAGES = 100
EPOCHS = 24
VALUE_BYTES = 4_000
#: bytes a second of each connection: an epoch's COPY takes a second
LIMIT = EPOCH_MESSAGES * VALUE_BYTES
#: epochs that are let pass before time is taken: the first ones wait for processes to start
WARM = 4
#: of the rate that one task has
WANTED = 1.8


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_two_tasks_stage_nearly_twice_as_fast(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    target.create(FLAT)
    d = Debezium()
    topic.send([d.create(FLAT, {"id": n, "v": chr(97 + n % 26) * VALUE_BYTES}) for n in range(EPOCH_MESSAGES * EPOCHS)])
    with proxy_to(target.url, LIMIT) as proxy:
        url = proxy.url(target.url).render_as_string(hide_password=False)
        seconds = {tasks: _seconds(lane, lane_process, target, tasks, url) for tasks in (1, 2)}
    ratio = seconds[1] / seconds[2]
    print(f"{EPOCHS - WARM} epochs: {seconds[1]:.1f} s with one task, {seconds[2]:.1f} s with two: {ratio:.2f} times")
    assert ratio >= WANTED


def _seconds(lane: MakeLane, lane_process: MakeProcess, target: Target, tasks: int, url: str) -> float:
    """From the first epochs' end to the last one's."""
    made = lane(
        "two-phase",
        lane=f"{target.lane}-{tasks}",
        target={"url": url},
        checkpoint=f"./checkpoint-{tasks}",
        epoch={"max_messages": EPOCH_MESSAGES},
        stage={"tasks": tasks},
        spark={"master": "local[3]"},
    )
    process = lane_process(made, until_caught_up=True).start()
    assert process.wait() == 0, process.tail()
    times = [one for (one,) in target.execute(_TIMES, lane=made.name)]
    assert len(times) == EPOCHS
    return (times[-1] - times[WARM - 1]).total_seconds()


_TIMES = "select applied_at from surelane.ledger where lane = :lane and epoch >= 0 order by generation, epoch"
