"""A lane, and the commands of a runbook's page as an operator types them on its machine."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from app.embedded.postgres_binaries import bin_dir
from tests.fix_cli import Ended
from tests.fix_lane import LaneUnderTest
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.runbook import Command, commands

COMMAND_SECONDS = 60.0


@dataclass
class Operator:
    """`play(page, section)` runs each command of a section, in order; `surelane run` ends when it has caught up."""

    lane: LaneUnderTest
    target: Target
    topic: Topic
    surelane: Callable[..., Ended]

    def __call__(self, program: str, *words: str) -> Ended:
        if program != "surelane":
            called = [str(bin_dir() / program), *words]
            done = subprocess.run(called, check=False, capture_output=True, text=True, timeout=COMMAND_SECONDS)
            return Ended(done.returncode, done.stdout, done.stderr)
        if words != ("run",):
            return self.surelane(*words)
        self.lane.run_until_caught_up()
        return Ended(0, "", "")

    def play(self, page: str, section: str, **values: str) -> list[Ended]:
        """Gives how each ended."""
        values = {"lane": self.lane.name, **values}
        return [one.check(self, **values) for one in of(page, section)]

    def statuses(self, page: str, section: str, **values: str) -> list[int]:
        """The same, their statuses alone."""
        return [one.status for one in self.play(page, section, **values)]

    def questions(self) -> None:
        """What every run has to answer."""
        questions(self.target, self.topic, exactly_once=self.lane.exactly_once)


MakeOperator = Callable[[LaneUnderTest], Operator]


@pytest.fixture
def operator(
    surelane: Callable[..., Ended], target: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> MakeOperator:
    """`operator(lane)`; SURELANE_CONFIG names its configuration."""

    def make(lane: LaneUnderTest) -> Operator:
        monkeypatch.setenv("SURELANE_CONFIG", str(lane.config_file))
        return Operator(lane, target, topic, surelane)

    return make


def of(page: str, section: str) -> list[Command]:
    """The commands of a section, of which there are some."""
    found = [command for command in commands(page) if command.section == section]
    assert found, f"{page} has no commands in {section}"
    return found


def printed(hint: str | None) -> list[list[str]]:
    """The commands that an error prints, as words."""
    return [line.partition("#")[0].split() for line in (hint or "").splitlines()[1:]]


def wanted(page: str, section: str) -> list[list[str]]:
    """The commands of a section, as words, placeholders as they stand."""
    return [one.text.split() for one in of(page, section)]
