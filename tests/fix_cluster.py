"""A standalone cluster of Spark on this machine: a master, and workers that know nothing of the checkout."""

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.java import java_home
from app.spark.home import spark_home
from tests.processes import is_python, name_of
from tests.waiting import eventually
from tools.devstack.kafka import SHORT_LIVED

SECRET = "m4rked-for-a-cluster"
#: variable by which whatever a cluster has started is found, also when its parent is gone
_MARK = "SURELANE_TEST_CLUSTER"
_EXECUTOR, _DAEMON = "CoarseGrainedExecutorBackend", "app.stage.daemon"
_ADDRESS = r"spark://127\S+\d"


@dataclass
class Cluster:
    """Of one test. `master` is its address."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    master: str = ""
    workers: list[psutil.Process] = field(default_factory=list)
    _started: int = 0

    def start(self, workers: int, cores: int = 2) -> "Cluster":
        """Start the master, and so many workers of so many cores each."""
        _, log = self._start("Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        (self.master, *_) = eventually(lambda: re.findall(_ADDRESS, log.read_text()), why="the master's address")
        for _ in range(workers):
            self.add_worker(cores)
        return self

    def add_worker(self, cores: int = 2) -> psutil.Process:
        """One more, once it is registered."""
        place = ("--work-dir", str(self.folder / "work"), "--cores", str(cores), "--memory", "1g")
        process, log = self._start("Worker", "--host", "127.0.0.1", "--webui-port", "0", *place, self.master)
        eventually(lambda: "Successfully registered" in log.read_text(), why="a worker")
        self.workers.append(process)
        return process

    def spark(self, **conf: str) -> dict[str, Any]:
        """Section `spark` of a lane's configuration."""
        here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        small = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
        known = {"spark.authenticate.secret": SECRET}
        return {
            "master": self.master,
            "conf": {**here, **small, **known, "spark.pyspark.python": sys.executable, **conf},
        }

    def executors(self, of: psutil.Process | None = None) -> list[psutil.Process]:
        """Their JVMs; of one worker, or all."""
        found = self._all() if of is None else of.children(recursive=True)
        return [one for one in found if name_of(one) == "java" and _EXECUTOR in " ".join(_words(one))]

    def tasks(self) -> list[psutil.Process]:
        """Python workers that PySpark's daemons have forked, one for each task."""
        return [one for daemon in self.daemons() for one in _children(daemon)]

    def stage_processes(self) -> list[psutil.Process]:
        """What those have forked."""
        return [one for task in self.tasks() for one in _children(task)]

    def pythons(self) -> list[psutil.Process]:
        """Daemons, their workers and what those have forked, whether their parents live or not."""
        return [one for one in self._all() if is_python(one)]

    def daemons(self) -> list[psutil.Process]:
        """PySpark's, one of each executor."""
        executors = set(self.executors())
        pythons = [one for one in self.pythons() if _DAEMON in _words(one)]
        return [one for one in pythons if one.parent() in executors]

    def end(self) -> None:
        """SIGKILL of all of it."""
        for one in self._all():
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(self._all(), 30)

    def _all(self) -> list[psutil.Process]:
        return [one for one in psutil.process_iter() if _is_of(one, self.mark)]

    def _start(self, kind: str, *words: str) -> tuple[psutil.Process, Path]:
        self._started += 1
        log = self.folder / f"{kind}-{self._started}.log"
        environment = {
            name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")
        }
        environment |= {
            _MARK: self.mark,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(
                (*SHORT_LIVED, "-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true")
            ),
            "_SPARK_AUTH_SECRET": SECRET,
        }
        command = [spark_home() / "bin/spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}", *words]
        with log.open("wb") as out:
            started = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=out, stderr=out)
        return psutil.Process(started.pid), log


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Nothing of it runs yet."""
    made = Cluster(tmp_path)
    yield made
    made.end()


def _is_of(process: psutil.Process, mark: str) -> bool:
    with suppress(psutil.Error):
        return process.environ().get(_MARK) == mark
    return False


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return process.children()
    return []
