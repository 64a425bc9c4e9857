"""A lane, and the commands of a runbook's page as an operator types them on its machine."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.commands import Ended
from tests.fix_lane import LaneUnderTest
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.runbook import of, play, runner


@dataclass
class Operator:
    """`play(page, section)` runs each command of a section, in order; `surelane run` ends when it has caught up."""

    lane: LaneUnderTest
    target: Target
    topic: Topic
    surelane: Callable[..., Ended]

    def __call__(self, program: str, *words: str) -> Ended:
        if (program, *words) != ("surelane", "run"):
            return runner(self.surelane)(program, *words)
        self.lane.run_until_caught_up()
        return Ended(0, "", "")

    def play(self, page: str, section: str, **values: str) -> list[Ended]:
        """Gives how each ended."""
        return play(page, section, self, **{"lane": self.lane.name, **values})

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


def printed(hint: str | None) -> list[list[str]]:
    """The commands that an error prints, as words."""
    return [line.partition("#")[0].split() for line in (hint or "").splitlines()[1:]]


def wanted(page: str, section: str) -> list[list[str]]:
    """The commands of a section, as words, placeholders as they stand."""
    return [one.text.split() for one in of(page, section)]
