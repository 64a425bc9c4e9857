"""ops/runbooks/epoch-fails.md: the user's function ends the process for every message; nothing is skipped for it."""

from collections.abc import Callable

import pytest

from app.errors import ExitStatus
from tests.commands import Ended
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.poison import row
from tests.runbook import play, runner

PAGE = "epoch-fails.md"


@pytest.mark.timeout(900)
def test_a_function_that_ends_the_process_for_every_message(
    lane: MakeLane, lane_process: MakeProcess, surelane: Callable[..., Ended], target: Target, topic: Topic
) -> None:
    target.execute("create table flat (id int primary key, v text)")
    function = {"function": "tests.transforms:obey"}
    made = lane("two-phase", epoch={"max_messages": 8}, guard={"max_attempts": 1}, transform=function)
    topic.send([row(number, "exit") for number in range(8)])
    process = lane_process(made, until_caught_up=True).start()
    assert process.wait(800) == ExitStatus.UNATTRIBUTED, process.tail()
    assert PAGE in process.tail()
    assert target.rows("public.flat") == {}
    assert target.execute("select from surelane.quarantine where lane = :lane", lane=target.lane) == []
    assert target.prepared() == []
    mended = made.changed(transform=None)

    def call(*words: str) -> Ended:
        if words != ("run",):
            return surelane(*words, "--config", str(mended.config_file))
        mended.run_until_caught_up()
        return Ended(0, "", "")

    play(PAGE, "Stopped with status 17", runner(call), lane=made.name)
    questions(target, topic)
