"""ops/runbooks/failover.md: a target's server is lost, and its streaming standby goes on, which has everything or not.

Two real servers. In the middle of an epoch, decided and not committed yet, the standby is cut off. A primary that waits
for it (synchronous) lets nothing be decided from then on; one that does not goes on alone, and what it decides is lost.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from app.errors import ExitStatus
from tests.commands import Ended
from tests.fix_clusters import Clusters, source_of, superuser_url
from tests.fix_lane import Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.runbook import commands, play, runner
from tests.waiting import eventually
from tests.workload import TABLES, Shop
from tools.devstack.stack import TARGET_SETTINGS

PAGE = "failover.md"
EPOCH_MESSAGES = 50
#: sent before the standby is cut off, and afterwards
MESSAGES, MORE = 120, 80
SLOTS = TARGET_SETTINGS["max_prepared_transactions"]


@dataclass
class Scene:
    """A lane that writes to `primary`; `()` runs a page's command with the configuration as it is then."""

    lane: LaneUnderTest
    primary: Target
    standby: Target
    topic: Topic
    shop: Shop
    surelane: Callable[..., Ended]

    def __call__(self, *words: str) -> Ended:
        return runner(self._surelane)(*words)

    def _surelane(self, *words: str) -> Ended:
        if words != ("run",):
            return self.surelane(*words, "--config", str(self.lane.config_file))
        self.lane.run_until_caught_up()
        return Ended(0, "", "")

    def play(self, section: str, **values: str) -> None:
        """All of a section succeeds."""
        urls = {"primary": superuser_url(self.primary), "standby": superuser_url(self.standby)}
        for ended in play(PAGE, section, self, **urls, lane=self.lane.name, **values):
            assert ended.status == 0, ended

    def lose_the_primary(self) -> None:
        """For good; its lane is stopped, and pointed to the standby."""
        self.primary.server.kill()
        self.lane.give_up()
        self.play("Promote")
        self.lane = self.lane.at(self.standby)


@pytest.fixture
def scene(
    lane: MakeLane, surelane: Callable[..., Ended], clusters: Clusters, hold: Hold, topic: Topic
) -> Iterator[Callable[..., Scene]]:
    """`scene(synchronous=...)`: cut off while an epoch is decided and not committed, and gone on with."""
    scenes: list[Scene] = []

    def make(*, synchronous: bool) -> Scene:
        primary = clusters("primary")
        primary.create(*TABLES)
        standby = clusters.standby(primary, "standby")
        if synchronous:
            clusters.synchronous(primary)
        made = lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}).at(primary)
        scene = Scene(made, primary, standby, topic, Shop(seed=5), surelane)
        scenes.append(scene)
        scene.play("While all is well", kind="sync" if synchronous else "async")
        held = hold("before-commit", at=2)
        topic.send(scene.shop.messages(MESSAGES))
        made.start()
        held.reached()
        clusters.until_replayed(primary, standby)
        clusters.cut(standby)
        topic.send(scene.shop.messages(MORE))
        held.release()
        return scene

    yield make
    for scene in scenes:
        scene.lane.give_up()


def test_a_synchronous_standby_has_everything(scene: Callable[..., Scene], topic: Topic, target: Target) -> None:
    """What it does not have was not decided: the lane waited for it."""
    made = scene(synchronous=True)
    waits = "select from pg_stat_activity where wait_event = 'SyncRep' and query ilike %s"
    eventually(partial(made.primary.server.execute, waits, "COMMIT PREPARED%"), why="the lane to wait")
    planned = made.lane.checkpoint_files.complete()
    with Reader(made.standby, topic) as reader:
        made.lose_the_primary()
        (gid,) = made.standby.prepared()
        assert gid.endswith(f":{planned[-1]}"), "decided, and nothing after it was"
        made.play("Go on")
        questions(made.standby, topic, reader=reader)
    assert made.standby.ledger_sum().duplicate == 0
    made.play("Afterwards", other=source_of(topic, target))


def test_an_asynchronous_standby_that_was_behind(
    scene: Callable[..., Scene], lane_process: MakeProcess, topic: Topic
) -> None:
    """Status 6 and the way out, with this lane's names; what came along prepared and decided is kept."""
    made = scene(synchronous=False)
    made.lane.until_caught_up(topic)
    made.lose_the_primary()
    (gid,) = made.standby.prepared()
    before = made.standby.position()
    stopped = lane_process(made.lane, until_caught_up=True).start()
    assert stopped.wait() == ExitStatus.DIVERGED, stopped.tail()
    (event,) = stopped.events("stopped")
    printed = [line.partition("#")[0].split() for line in event["hint"].splitlines()[1:]]
    page = [command.text for command in commands(PAGE) if command.section == "Stopped with status 6"]
    assert [" ".join(words) for words in printed] == page
    position = made.standby.position()
    assert (f"lane {made.lane.name}" in event["hint"], f"# from {position};" in event["hint"]) == (True, True)
    assert (position != before, made.standby.prepared()) == (True, []), f"{gid} was decided"
    made.play("Stopped with status 6", position=str(position))
    questions(made.standby, topic)
