"""ops/runbooks/lane-down.md, command by command, for a lane that has stopped."""

from collections.abc import Callable

from app.errors import ExitStatus, TargetMismatch
from tests.commands import Ended
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.runbook import play, runner
from tests.workload import Shop

PAGE = "lane-down.md"


def test_every_command(lane: MakeLane, surelane: Callable[..., Ended], target: Target, topic: Topic) -> None:
    topic.send(Shop(seed=3).messages(5))
    stopped = lane("ledger")
    stopped.start()
    error = stopped.join()
    assert isinstance(error, TargetMismatch), "no table is there"
    command = runner(lambda *words: surelane(*words, "--config", str(stopped.config_file)))
    played = [
        *play(PAGE, "Look", command, lane=target.lane),
        *play(PAGE, "Started again and again", command, lane=target.lane),
    ]
    assert [ended.status for ended in played] == [0, ExitStatus.FAULTS_FOUND, 0]
