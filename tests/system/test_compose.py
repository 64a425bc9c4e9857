"""docker-compose.yml: up, rows flow from source to target, faults, down. Images of others may be stood in for."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from app.bundled import bundled
from app.embedded.connect import plugin_dir
from app.embedded.places import root_dir
from app.embedded.ports import remembered_port
from app.jars import copy_to
from tests.fix_container import ROOT
from tests.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

CORE = ("source", "target", "kafka", "connect", "tables", "migrate", "capture", "surelane", "load")
UP_SECONDS = 900.0
COUNT = "select count(*), coalesce(max(id), 0) from orders"


class Compose:
    """The stack under a project name of its own, on free ports."""

    def __init__(self, folder: Path, image: str) -> None:
        ports = ("METRICS", "SOURCE", "TARGET", "PROMETHEUS", "ALERTMANAGER", "GRAFANA")
        self.ports = {name: remembered_port(folder / name) for name in ports}
        lines = (ROOT / ".env.example").read_text().splitlines()
        self.values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        self.values |= {f"{name}_PORT": str(port) for name, port in self.ports.items()}
        self.values |= {"SURELANE_IMAGE": image, "STAND_IN": str(_stand_ins(folder / "stand-in"))}
        environment = folder / "env"
        environment.write_text("".join(f"{key}={value}\n" for key, value in self.values.items()))
        files = ("--file", "docker-compose.yml", "--file", "tests/containers/compose.yml")
        self._command = [
            *_program(),
            "--project-name",
            f"surelane-{os.getpid()}",
            "--env-file",
            str(environment),
            *files,
        ]

    def __call__(self, *words: str) -> str:
        """What `docker compose ...` writes."""
        done = subprocess.run(
            [*self._command, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=UP_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"compose {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout

    def inside(self, *words: str) -> str:
        """A command in the lane's container."""
        return self("exec", "-T", "surelane", *words)

    def rows(self, name: str) -> tuple[int, int]:
        """Orders in `source` or `target`, and the highest number of one."""
        port, password = self.ports[name.upper()], self.values[f"{name.upper()}_PASSWORD"]
        url = f"postgresql://postgres:{password}@127.0.0.1:{port}/shop"
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(COUNT)
            count, highest = cursor.fetchone() or (0, 0)
        return int(count), int(highest)


def _program() -> list[str]:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    if not plugin and shutil.which("docker-compose") is None:
        pytest.skip("no docker compose: neither the plugin nor docker-compose is there")
    return ["docker", "compose"] if plugin else ["docker-compose"]


def _stand_ins(place: Path) -> Path:
    """Programs and jars, for containers to see under /stand-in."""
    for name in ("kafka", "connect"):
        copy_to(name, place / "jars")
    shutil.copytree(plugin_dir(), place / "plugin")
    shutil.copytree(bundled("postgres", root_dir()), place / "postgres")
    shutil.copy(ROOT / "tests" / "containers" / "stand_in.py", place)
    place.chmod(0o755)
    return place


@pytest.fixture(scope="module")
def compose(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The core of it, running."""
    stack = Compose(tmp_path_factory.mktemp("compose"), image)
    try:
        stack("up", "--detach", "--no-build", *CORE)
        yield stack
    finally:
        stack("--profile", "chaos", "--profile", "spark", "down", "--volumes", "--remove-orphans", "--timeout", "60")


def test_rows_flow_from_source_to_target(compose: Compose) -> None:
    """The lane applies what the load does, and says so; killed, it comes back; both databases end equal."""
    eventually(lambda: _healthy(compose), 600.0, "the lane to be healthy")
    _flows(compose)
    status = json.loads(compose.inside("surelane", "status", "--json"))
    assert (status["state"], status["lane"]) == ("running", "shop")
    worker = _worker(compose)
    compose("--profile", "chaos", "run", "--rm", "-T", "chaos", "kill-worker")
    eventually(lambda: _worker(compose) not in (worker, ""), 120.0, "another worker")
    _flows(compose)
    compose("stop", "load")
    source = f"postgresql://postgres:{compose.values['SOURCE_PASSWORD']}@source:5432/shop"
    compose.inside("surelane", "verify", "--against", source, "--wait", "60")  # ends with 16 where they differ
    eventually(lambda: compose.rows("source") == compose.rows("target"), 60.0, "both to hold the same orders")
    compose("stop", "surelane")
    ended = compose("ps", "--all", "surelane") if _program() == ["docker", "compose"] else compose("ps", "surelane")
    assert "Exit 0" in ended or "Exited (0)" in ended, ended


def _healthy(compose: Compose) -> bool:
    return "(healthy)" in compose("ps", "surelane")


def _flows(compose: Compose) -> None:
    """An order placed from now on arrives."""
    _, highest = compose.rows("source")
    eventually(lambda: compose.rows("target")[1] > highest, 300.0, "a new order at the target")


def _worker(compose: Compose) -> str:
    """Its pid in the lane's container."""
    look = "import psutil; print(*[p.pid for p in psutil.process_iter(['cmdline']) if '--worker' in p.info['cmdline']])"
    return compose.inside("python", "-c", look).strip()
