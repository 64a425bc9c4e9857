"""The image and its containers: built and run by whatever engine answers here (docker, or podman under its name)."""

import json
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fix_http import Http
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.waiting import eventually
from tools.devstack import Kafka

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "surelane-test"
#: packages are fetched and Spark's classes archived: minutes where nothing of it is cached
BUILD_SECONDS = 3000.0
#: of a command that the engine answers at once
ENGINE_SECONDS = 120.0
STOP_SECONDS = 120
#: seconds between two looks at whether a container lives: each is a process of its own
LOOK_SECONDS = 1.0
#: nothing is written into the image, no process is root, and no capability is had
LOCKED = (
    *("--read-only", "--tmpfs", "/tmp:exec,mode=1777"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
)


def docker(*words: str, timeout: float = ENGINE_SECONDS) -> str:
    """What `docker ...` writes; fails with what it complains of."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.stderr[-3000:]}{done.stdout[-1000:]}"
    return done.stdout.strip()


class Container:
    """A container of the image, on this machine's network."""

    def __init__(self, *words: str, environment: Mapping[str, str], volume: str) -> None:
        """`words`: the arguments after the image's name. Its health is checked every second."""
        self.name = f"surelane-{uuid.uuid4().hex[:8]}"
        settings = [word for key, value in environment.items() for word in ("--env", f"{key}={value}")]
        options = ["--network", "host", "--volume", f"{volume}:/var/lib/surelane", "--health-interval", "1s"]
        docker("run", "--detach", "--name", self.name, *LOCKED, *options, *settings, IMAGE, *words)

    def state(self, what: str) -> Any:
        """A part of its state, a Go template."""
        return json.loads(docker("inspect", "--format", "{{json .State." + what + "}}", self.name))

    def wait(self, timeout: float = 300.0) -> int:
        """Exit status."""
        return int(docker("wait", self.name, timeout=timeout))

    def stop(self) -> int:
        """SIGTERM; exit status, 137 when it did not stop in time."""
        docker("stop", "--time", str(STOP_SECONDS), self.name, timeout=STOP_SECONDS + 30.0)
        return int(self.state("ExitCode"))

    def until(self, condition: Callable[[], Any], why: str, timeout: float = 300.0) -> Any:
        """Wait for a condition; fails at once, with its log, when the container ends before."""

        checked_at = time.monotonic()

        def met() -> Any:
            nonlocal checked_at
            answer = condition()
            if not answer and time.monotonic() > checked_at + LOOK_SECONDS:
                assert self.state("Running"), f"ended before {why}:\n{self.log()[-3000:]}"
                checked_at = time.monotonic()
            return answer

        return eventually(met, timeout, why)

    def run(self, *words: str) -> str:
        """What a command inside writes."""
        return docker("exec", self.name, *words)

    def log(self) -> str:
        """Everything it wrote."""
        done = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def remove(self) -> None:
        """End it and forget it."""
        docker("rm", "--force", self.name)


@pytest.fixture(scope="session")
def engine() -> None:
    """Skips where no container engine answers."""
    if shutil.which("docker") is None:
        pytest.skip("no container engine: there is no docker on PATH")
    done = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=ENGINE_SECONDS, check=False)
    if done.returncode:
        pytest.skip(f"no container engine: {done.stderr.strip()[-200:]}")


@pytest.fixture(scope="session")
def image(engine: None) -> str:
    """The image's name; it is built of this checkout."""
    docker("build", "--tag", IMAGE, str(ROOT), timeout=BUILD_SECONDS)
    return IMAGE


RunContainer = Callable[..., Container]


@pytest.fixture
def container(image: str, kafka: Kafka, target: Target, topic: Topic, http: Http) -> Iterator[RunContainer]:
    """`container("run", **environment)`: a lane's; its checkpoint is on a volume that all of a test share."""
    volume = f"surelane-{uuid.uuid4().hex[:8]}"
    made: list[Container] = []

    def make(*words: str, **environment: str) -> Container:
        settings = {
            "SURELANE_LANE": target.lane,
            "SURELANE_SOURCE__BOOTSTRAP_SERVERS": kafka.bootstrap,
            "SURELANE_SOURCE__TOPICS": topic.name,
            "SURELANE_TARGET__URL": str(target.url),
            "SURELANE_TARGET__OWNER_ROLE": str(target.owner_role),
            "SURELANE_SPARK__MASTER": "local[2]",
            "SURELANE_METRICS__PORT": str(http.port),
        }
        made.append(Container(*words, environment=settings | environment, volume=volume))
        return made[-1]

    yield make
    for one in made:
        one.remove()
    if made:
        docker("volume", "rm", volume)
