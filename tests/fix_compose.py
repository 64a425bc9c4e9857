"""docker-compose.yml as a stack of the test's own, with stand-ins for the images of others (containers/compose.yml)."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from app.bundled import bundled
from app.jars import copy_to
from app.supervisor.worker_process import WORKER_NAME
from tests.debian_programs import program
from tests.fix_container import ROOT, docker
from tests.fix_prometheus import Asked
from tests.waiting import eventually
from tools.devstack.connect import plugin_dir
from tools.devstack.places import root_dir
from tools.devstack.ports import remembered_port

#: for want of an image, and of a program to put in its place, Grafana is not started
STARTED = (
    *("source", "target", "kafka", "connect", "tables", "migrate", "capture", "surelane", "load"),
    *("console", "prometheus", "alertmanager"),
)
PROFILES = ("--profile", "chaos", "--profile", "spark")
#: seconds for one call: the first one waits for health checks and one-shots
CALL_SECONDS = 900.0
_ORDERS = "select count(*), coalesce(max(id), 0) from orders"
_STAGERS = "select distinct host(client_addr) from pg_stat_activity where application_name = 'surelane stage'"
_WORKER = f"import psutil; print(*[p.pid for p in psutil.process_iter(['name']) if p.info['name'] == '{WORKER_NAME}'])"


def compose_program() -> list[str]:
    """The plugin, or the program of its own that was before it; skips where neither is."""
    plugin = ["docker", "compose"]
    if (
        shutil.which("docker")
        and subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0
    ):
        return plugin
    if shutil.which("docker-compose") is None:
        pytest.skip("no docker compose: neither the plugin nor docker-compose is there")
    return ["docker-compose"]


class Compose:
    """The stack under a project name of its own, on free ports."""

    def __init__(self, folder: Path, image: str) -> None:
        ports = ("METRICS", "SOURCE", "TARGET", "PROMETHEUS", "ALERTMANAGER", "GRAFANA", "CONSOLE")
        self.ports = {name: remembered_port(folder / name) for name in ports}
        self.values = example() | {f"{name}_PORT": str(port) for name, port in self.ports.items()}
        self.values |= {"SURELANE_IMAGE": image, "STAND_IN": str(_stand_ins(folder / "stand-in"))}
        environment = folder / "env"
        environment.write_text("".join(f"{key}={value}\n" for key, value in self.values.items()))
        self.project = f"surelane-{os.getpid()}"
        self._command = [
            *(*compose_program(), "--project-name", self.project, "--env-file", str(environment)),
            *("--file", "docker-compose.yml", "--file", "tests/containers/compose.yml"),
        ]
        self.prometheus, self.alertmanager = Asked(self.ports["PROMETHEUS"]), Asked(self.ports["ALERTMANAGER"])

    def __call__(self, *words: str, **variables: str) -> str:
        """What `docker compose ...` writes; `variables` go before those of the file."""
        done = subprocess.run(
            [*self._command, *words],
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"compose {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout

    def inside(self, *words: str, service: str = "surelane") -> str:
        """A command in a service's container."""
        return self("exec", "-T", service, *words)

    def state(self, service: str, what: str) -> Any:
        """A part of its container's state, a Go template."""
        container = self("ps", "--all", "--quiet", service).strip()
        return json.loads(docker("inspect", "--format", "{{json .State." + what + "}}", container))

    def status(self) -> dict[str, Any]:
        """What `surelane status` says."""
        return json.loads(self.inside("surelane", "status", "--json"))

    def worker(self) -> str:
        """The pid of the lane's worker in its container; empty when there is none."""
        return self.inside("python", "-c", _WORKER).strip()

    def stagers(self) -> set[str]:
        """Addresses from which stage processes have sessions at the target."""
        url = f"postgresql://postgres:{self.values['TARGET_PASSWORD']}@127.0.0.1:{self.ports['TARGET']}/shop"
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(_STAGERS)
            return {address for (address,) in cursor.fetchall()}

    def orders(self, name: str) -> tuple[int, int]:
        """Of `source` or `target`: how many, and the highest number of one."""
        port, password = self.ports[name.upper()], self.values[f"{name.upper()}_PASSWORD"]
        url = f"postgresql://postgres:{password}@127.0.0.1:{port}/shop"
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(_ORDERS)
            count, highest = cursor.fetchone() or (0, 0)
        return int(count), int(highest)

    def flows(self) -> None:
        """An order placed from now on arrives."""
        _, highest = self.orders("source")
        eventually(lambda: self.orders("target")[1] > highest, 300.0, "a new order at the target")

    def equal(self) -> None:
        """With the shop closed for a moment, both databases are the same."""
        self("stop", "load")
        source = f"postgresql://postgres:{self.values['SOURCE_PASSWORD']}@source:5432/shop"
        self.inside("surelane", "verify", "--against", source, "--wait", "120")  # ends with 16 where they differ
        assert self.orders("source") == self.orders("target")
        self("start", "load")

    def seen_down(self, seconds: int) -> bool:
        """Whether Prometheus did not reach the lane at some time in the last so many seconds."""
        (seen,) = self.prometheus.ask(f'min_over_time(up{{job="surelane"}}[{seconds}s])').values()
        return seen == 0

    def down(self) -> None:
        """All of it away, its data too."""
        self(*PROFILES, "down", "--volumes", "--remove-orphans", "--timeout", "60")


def example() -> dict[str, str]:
    """What .env.example says."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def _stand_ins(place: Path) -> Path:
    """Programs and jars, for containers to see under /stand-in."""
    for name in ("kafka", "connect"):
        copy_to(name, place / "jars")
    shutil.copytree(plugin_dir(), place / "plugin")
    shutil.copytree(bundled("postgres", root_dir()), place / "postgres")
    monitoring = place / "monitoring"
    monitoring.mkdir()
    for name in ("prometheus", "promtool", "prometheus-alertmanager", "amtool"):
        binary = program(name, fetched=True)
        for file in (binary, *binary.parent.glob("*.tmpl")):
            shutil.copy(file, monitoring)
    shutil.copy(ROOT / "tests" / "containers" / "stand_in.py", place)
    place.chmod(0o755)
    return place


@pytest.fixture(scope="module")
def compose(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The stack, running; tests leave it as they found it."""
    stack = Compose(tmp_path_factory.mktemp("compose"), image)
    try:
        stack("up", "--detach", "--no-build", *STARTED)
        yield stack
    finally:
        stack.down()
