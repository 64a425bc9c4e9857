"""Snapshots of a bare lane's target: the command, a writer that goes on meanwhile, and what was restored."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.settings import CommitMode
from app.failpoint import VARIABLE
from tests.commands import Ended
from tests.fix_bare_lane import TOPIC, BareLane, MakeBareLane
from tests.fix_doubt import EPOCH, LANE, counted
from tests.fix_target import Target
from tests.oracle import difference, fold, up_to
from tests.waiting import eventually
from tests.workload import COUNTER
from tools.devstack import Postgres, Stack
from tools.devstack.ports import remembered_port
from tools.devstack.postgres import SUPERUSER
from tools.devstack.postgres_binaries import bin_dir
from tools.devstack.postgres_programs import run_program


@dataclass
class Snapshotting:
    """The lane `orders`, which has applied an epoch; the command is called by `()`."""

    target: Target
    lane: BareLane
    folder: Path
    #: that the server's user can reach; gone after the session
    places: Path
    surelane: Callable[..., Ended]
    #: servers and databases that were restored
    made: list[Callable[[], None]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __call__(self, *arguments: str) -> Ended:
        return self.surelane("snapshot", *arguments)

    def json(self, *arguments: str) -> Any:
        """What a call that succeeds prints."""
        ended = self(*arguments, "--json")
        assert ended.status == 0, ended.err
        (line,) = (line for line in ended.out.splitlines() if line.startswith("{"))  # beside what the writer logs
        return json.loads(line)

    @property
    def directory(self) -> Path:
        return self.folder / "snapshots"

    def configure(self, target: str | None = None, **snapshots: Any) -> None:
        """Write surelane.yaml; Kafka is not there, and not needed."""
        defaults = {
            "driver": "dump",
            "directory": str(self.directory),
            "url": self.target.server.url(self.target.database, SUPERUSER),
            "bin_dir": str(bin_dir()),
        }
        sections = {
            "lane": LANE,
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC.topic]},
            "target": {"url": target} if target else self.target.section,
            "snapshots": defaults | snapshots,
        }
        (self.folder / "surelane.yaml").write_text(yaml.safe_dump(sections))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Epoch after epoch is applied; at least one before, and one after what is done meanwhile."""
        stop = threading.Event()
        failures: list[BaseException] = []

        def write() -> None:
            try:
                while not stop.is_set():
                    self.lane.apply(counted(len(self.lane.sent)))
            except BaseException as error:  # noqa: BLE001  # for the test's own thread
                failures.append(error)

        def goes_on() -> None:
            at = len(self.lane.sent)
            eventually(lambda: failures or len(self.lane.sent) > at + EPOCH, why="the writer to go on")

        thread = threading.Thread(target=write)
        thread.start()
        try:
            goes_on()
            yield
            goes_on()
        finally:
            stop.set()
            thread.join()
        assert failures == []

    def restore(self, name: str, driver: str, *options: str) -> "Copy":
        """Put it back at a new place."""
        copy = self.place(driver)
        copy.report = self.json("restore", name, *copy.to, *options)
        return copy

    def place(self, driver: str) -> "Copy":
        """Somewhere new."""
        number = next(self.numbers)
        if driver == "dump":
            database = f"{self.target.database}-restored-{number}"
            self.made.append(lambda: self._drop(database))
            url = self.target.server.url(database, SUPERUSER)
            return Copy(Target(self.target.server, database, LANE), ("--to", url), self)
        folder = self.places / f"{self.target.database}-{number}"
        port = remembered_port(self.places / f"port-{number}-{self.target.database}")
        self.made.append(lambda: stop_cluster(folder))
        server = Postgres(folder, port=port)
        return Copy(Target(server, self.target.database, LANE), ("--to", str(folder), "--port", str(port)), self)

    def killed(self, failpoint: str, *arguments: str) -> None:
        """Call it in a process of its own, which SIGKILL ends at the failpoint."""
        with self.process(*arguments, failpoint=f"{failpoint}=kill") as process:
            assert process.wait(120) == -signal.SIGKILL, process.communicate()

    def process(self, *arguments: str, failpoint: str = "") -> "subprocess.Popen[bytes]":
        """A call in a process group of its own."""
        command = [sys.executable, "-m", "app.cli", "snapshot", *arguments]
        environment = os.environ | {VARIABLE: failpoint, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        return subprocess.Popen(
            command, env=environment, cwd=self.folder, stderr=subprocess.PIPE, start_new_session=True
        )

    def _drop(self, database: str) -> None:
        for name in (database, f"{database}.surelane-part"):
            self.target.server.execute(f'drop database if exists "{name}" with (force)')


@dataclass
class Copy:
    """Where something is restored to."""

    target: Target
    #: words of the command line
    to: tuple[str, ...]
    of: Snapshotting
    #: what the command printed
    report: Any = None

    def check(self) -> int:
        """What is there is the fold up to its own ledger's end, and that is what the command printed; gives the end."""
        position = self.target.position(LANE)
        assert self.report["position"] == position.nested()
        expected = fold(up_to(self.of.lane.sent, position))
        for table, rows in expected.items():
            assert (text := difference(table, self.target.rows(table), rows)) is None, text
        return position[TOPIC]


def stop_cluster(folder: Path) -> None:
    """End the restored server, if there is one."""
    if (folder / "postmaster.pid").exists():
        run_program("pg_ctl", ["stop", f"--pgdata={folder}", "--mode=immediate"], folder.with_name("stopping.log"))


@pytest.fixture
def snapshotting(
    target: Target,
    bare_lane: MakeBareLane,
    surelane: Callable[..., Ended],
    servers: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Snapshotting]:
    """An epoch is applied."""
    monkeypatch.chdir(tmp_path)
    target.create(COUNTER)
    places = servers.data_dir / "restored"
    places.mkdir(exist_ok=True)
    lane = bare_lane(name=LANE, mode=CommitMode.TWO_PHASE)
    made = Snapshotting(target, lane, tmp_path, places, surelane)
    made.configure()
    lane.apply(counted(0))
    try:
        yield made
    finally:
        for undo in made.made:
            undo()
