"""An operator's verbs, killed at random moments beside a lane that is killed, too: no savepoint is half, nothing is
applied twice, and the next call goes on."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.config.settings import CommitMode
from app.model.offsets import Offsets
from app.savepoint.compatibility import compare
from app.savepoint.fingerprint import items
from app.savepoint.folder import SavepointFolder
from tests.fix_doubt import changes
from tests.fix_lane import START_SECONDS, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.waiting import eventually
from tests.workload import COUNTER

#: seconds within which a verb is killed; most of them end in less on an idle machine
LATEST_KILL_SECONDS = 2.5
#: kills between two of the lane itself
LANE_EVERY = 9
SAMPLE = (CommitMode.TWO_PHASE, 20)
ALL = [(mode, 200) for mode in CommitMode]


class Operator:
    """Calls verbs of a lane's configuration."""

    def __init__(self, made: LaneUnderTest, folder: SavepointFolder, chance: random.Random) -> None:
        self._made, self._folder, self._chance = made, folder, chance
        self._number = 0

    def verb(self) -> list[str]:
        """A verb at random, with a savepoint at random."""
        self._number += 1
        known = self._folder.names()
        choices = [["savepoint", "create", f"point-{self._number}"]] * 3
        choices += [["savepoint", "create", f"point-{self._number}", "--stop"], ["savepoint", "resume"]]
        choices += [["pause"], ["resume"]]
        if known:
            name = self._chance.choice(known)
            choices += [["savepoint", "check", name], ["savepoint", "dispose", name, "--yes"]]
        return self._chance.choice(choices)

    def begin(self, verb: Sequence[str]) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "app.cli", *verb, "--config", str(self._made.config_file)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )

    def killed(self, verb: Sequence[str]) -> bool:
        """Begin the verb, and kill its process group at a moment at random; False: it ended before."""
        process = self.begin(verb)
        try:
            process.communicate(timeout=self._chance.uniform(0, LATEST_KILL_SECONDS))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return True
        return False

    def done(self, *verb: str) -> None:
        process = self.begin(verb)
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error.decode()


@pytest.mark.parametrize(
    ("mode", "kills"), [SAMPLE, *(pytest.param(*case, marks=pytest.mark.full) for case in ALL)], ids=str
)
@pytest.mark.timeout(1800)
def test_verbs_killed_at_random(
    mode: CommitMode,
    kills: int,
    lane: MakeLane,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
    tmp_path: Path,
) -> None:
    target.create(COUNTER)
    folder = SavepointFolder(tmp_path / "savepoints")
    made = lane(mode, epoch={"max_messages": 20}, savepoints={"directory": str(folder.root), "every": "3 seconds"})
    chance = random.Random(23)
    operator = Operator(made, folder, chance)
    process = lane_process(made).start()
    topic.send(changes(0))
    process.until(target.epochs, why="the first epoch")

    def go_on() -> None:
        """A lane that an order to stop has ended; a verb that was killed may have left one."""
        if not process.alive:
            operator.done("savepoint", "resume")
            process.start()

    done = 0
    with Reader(target, topic) as reader:
        for number in range(1, 20 * kills):
            topic.send(changes(30 * number))
            done += operator.killed(operator.verb())
            _, broken = folder.listing()
            assert broken == {}
            if done >= kills:
                break
            if number % LANE_EVERY == 0 and process.alive:
                process.kill()
            go_on()
            if number % LANE_EVERY == LANE_EVERY // 2:
                operator.done("resume")
        assert done >= kills
        operator.done("resume")
        operator.done("savepoint", "resume")
        eventually(lambda: go_on() or made.caught_up(topic), START_SECONDS, "the last messages")
        assert process.stop() == 0
    questions(target, topic, reader=reader, exactly_once=made.exactly_once)
    # the lane's start is one, too: a savepoint may come before all epochs
    rows = target.execute("select end_position from surelane.ledger where lane = :lane", lane=made.name)
    ends = {Offsets.from_nested(row.end_position) for row in rows}
    present = items(made.settings)
    for name in folder.names():
        found = folder.get(name)
        assert found.position in ends
        assert not [one for one in compare(found.items, present) if one.blocks]
