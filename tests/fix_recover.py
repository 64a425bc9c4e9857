"""A target with a snapshot that was made while an epoch was prepared, gone on with for a while, and recovered."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.embedded import Postgres, Stack
from app.embedded.ports import remembered_port
from app.embedded.postgres import SUPERUSER
from app.embedded.postgres_binaries import bin_dir
from app.failpoint import VARIABLE
from tests.fix_cli import Ended
from tests.fix_lane import ROOT, Hold, LaneUnderTest, MakeLane
from tests.fix_snapshot import stop_cluster
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.workload import TABLES, Shop

EPOCH_MESSAGES = 50
#: sent before, and after the snapshot
MESSAGES, MORE = 120, 60
COMMAND_SECONDS = 300.0


@dataclass
class Lost:
    """A snapshot `name`, made while `gid` was prepared; the lane went on after it, and is stopped."""

    lane: LaneUnderTest
    target: Target
    topic: Topic
    name: str
    gid: str
    #: where it is recovered to
    copy: Target
    #: words of the command line
    to: tuple[str, ...]
    surelane: Callable[..., Ended]
    undo: list[Callable[[], None]] = field(default_factory=list)

    def __call__(self, *more: str) -> Ended:
        """`surelane recover run`, in this process but for the lane."""
        return self.surelane(*self.words(*more))

    def words(self, *more: str) -> tuple[str, ...]:
        return ("recover", "run", "--snapshot", self.name, *more, "--config", str(self.lane.config_file))

    def run(self, *more: str, failpoint: str = "") -> int:
        """The same as a process of its own, in a group of its own; gives its status."""
        environment = os.environ | {VARIABLE: failpoint, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "app.cli", *self.words(*more)]
        done = subprocess.run(
            command, env=environment, check=False, timeout=COMMAND_SECONDS, start_new_session=True, capture_output=True
        )
        self.said = done.stderr.decode()
        return done.returncode

    def killed(self, failpoint: str, *more: str) -> None:
        """SIGKILL of the recovery and of everything it started ends it there."""
        assert self.run(*more, failpoint=f"{failpoint}=kill") == -signal.SIGKILL, self.said

    def questions(self) -> None:
        """The copy is as if nothing had been lost, and the original as it was."""
        questions(self.copy, self.topic)
        questions(self.target, self.topic)

    def answers(self) -> list[Any]:
        return [tuple(row) for row in self.copy.execute("select gid, answer, state from surelane.indoubt_answer")]


MakeLost = Callable[..., Lost]


@pytest.fixture
def lost(
    lane: MakeLane,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    servers: Stack,
    hold: Hold,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeLost]:
    """`lost("basebackup")`."""
    undo: list[Callable[[], None]] = []

    def make(driver: str) -> Lost:
        target.create(*TABLES)
        shop = Shop(seed=5)
        told = {
            "driver": driver,
            "directory": str(tmp_path / "snapshots"),
            "url": target.server.url(target.database, SUPERUSER),
            "bin_dir": str(bin_dir()),
        }
        made = lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, snapshots=told)
        held = hold("before-commit", at=2)
        topic.send(shop.messages(MESSAGES))
        made.start()
        held.reached()
        (gid,) = target.prepared()
        ended = surelane("snapshot", "create", "--json", "--config", str(made.config_file))
        name = next(line for line in ended.out.splitlines() if line.startswith("{")).split('"name": "')[1].split('"')[0]
        monkeypatch.delenv(VARIABLE)
        held.release()
        topic.send(shop.messages(MORE))
        made.until_caught_up(topic)
        made.stop()
        questions(target, topic)
        copy, to = place(driver)
        return Lost(made, target, topic, name, gid, copy, to, surelane)

    def place(driver: str) -> tuple[Target, tuple[str, ...]]:
        if driver == "dump":
            copy = Target(target.server, f"{target.database}-back", target.lane)
            undo.append(lambda: target.server.execute(f'drop database if exists "{copy.database}" with (force)'))
            return copy, ("--to", target.server.url(copy.database, SUPERUSER))
        folder = servers.data_dir / f"recovered-{target.database}"
        port = remembered_port(tmp_path / "port")
        undo.append(lambda: stop_cluster(folder))
        return Target(Postgres(folder, port=port), target.database, target.lane), (
            "--to",
            str(folder),
            "--port",
            str(port),
        )

    yield make
    for one in undo:
        one()
