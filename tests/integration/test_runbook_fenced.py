"""ops/runbooks/fenced.md: two processes of one lane; the older is out, and the page says who has it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

from app.errors import ExitStatus, Fenced
from tests.commands import Ended
from tests.fix_clusters import superuser_url
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.runbook import play, runner
from tests.waiting import eventually
from tests.workload import TABLES, Shop

PAGE = "fenced.md"


def test_who_has_the_lane_and_taking_it_back(
    lane: MakeLane,
    lane_process: MakeProcess,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    tmp_path: Path,
) -> None:
    """The other one is a process with a checkpoint of its own, as of a forgotten machine."""
    target.create(*TABLES)
    shop = Shop(seed=7)
    topic.send(shop.messages(100))
    mine = lane("two-phase")
    mine.start()
    mine.until_caught_up(topic)
    other = lane_process("two-phase", checkpoint=str(tmp_path / "of the other")).start()
    out = mine.join()
    assert isinstance(out, Fenced)
    assert out.exit_status is ExitStatus.FENCED
    other.until_running()
    worker = other.worker
    assert worker is not None
    assert "ops/runbooks/fenced.md" in str(out)
    assert f"process {worker.pid} on {socket.gethostname()}" in str(out)

    def call(*words: str) -> Ended:
        if words != ("run",):
            return surelane(*words, "--config", str(mine.config_file))
        assert other.stop() == 0
        topic.send(shop.messages(100))
        mine.run_until_caught_up()
        return Ended(0, "", "")

    config = str(mine.config_file)
    eventually(
        lambda: f"process {worker.pid} on" in surelane("status", "--config", config).out, why="the other's own words"
    )
    values = {"host": socket.gethostname(), "target": superuser_url(target), "lane": mine.name}
    ended = play(PAGE, "Who has the lane", runner(call), process=str(worker.pid), state="running", **values)
    ended += play(PAGE, "Take it here", runner(call), mine=str(os.getpid()), **values)
    assert [one.status for one in ended] == [0] * len(ended)
    questions(target, topic)
