"""Prometheus, Alertmanager and postgres_exporter: as processes of a test, and what they are asked."""

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.debian_programs import program
from tests.waiting import eventually
from tools.devstack.ports import LOOPBACK, remembered_port

STOP_SECONDS = 20
DASHBOARD = Path(__file__).resolve().parents[1] / "ops/grafana/dashboards/surelane.json"


class Asked:
    """Prometheus, Alertmanager or an exporter at a port of this machine, also in a container."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def get(self, path: str, **query: str) -> Any:
        """The answer as JSON; raises AssertionError with what it says when it refuses."""
        return self._json(f"{path}?{urllib.parse.urlencode(query)}")

    def post(self, path: str, body: object) -> Any:
        """Likewise."""
        return self._json(path, json.dumps(body).encode())

    def ask(self, expr: str) -> dict[str, float]:
        """Of a Prometheus: the value of each series, by its labels as text."""
        result = self.get("/api/v1/query", query=expr)["data"]["result"]
        return {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in result}

    def rules(self) -> list[dict[str, Any]]:
        """Of a Prometheus: all that it evaluates."""
        groups = self.get("/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def active(self, *states: str) -> set[str]:
        """Of a Prometheus: alerts that are `firing`, or `pending`, and will if it goes on; both by default."""
        alerts = self.get("/api/v1/alerts")["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if not states or alert["state"] in states}

    def answers(self, path: str) -> bool:
        """Whether it is ready to be asked."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def _json(self, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(f"http://{self.address}{path}", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from None


class Served(Asked):
    """One that is a process of the test's."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log_file: Path) -> None:
        super().__init__(port)
        self._process, self._log_file = process, log_file

    def until_ready(self, path: str) -> "Served":
        """Wait until it answers there."""
        eventually(lambda: self._is_ready(path), 60, f"{self._log_file}")
        return self

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_ready(self, path: str) -> bool:
        assert self._process.poll() is None, self._log_file.read_text()[-2000:]
        return self.answers(path)


def queries() -> list[str]:
    """Of the dashboard, with values in place of Grafana's variables."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    exprs = [query["expr"] for panel in panels for query in panel.get("targets", ())]
    return [expr.replace("$__rate_interval", "1m").replace("$lane", ".*") for expr in exprs]


def unanswered(prometheus: Asked, silent: Collection[str]) -> list[str]:
    """Queries of the dashboard without an answer, but for those that ask for one of `silent`; each of them is asked."""
    empty = [expr for expr in queries() if not prometheus.ask(expr)]
    return [expr for expr in empty if not any(name in expr for name in silent)]


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve("prometheus", "--flag={port}", ready="/-/ready", env={})`: `{port}` and `{folder}` are filled in."""
    made: list[Served] = []

    def start(name: str, *words: str, ready: str, env: Mapping[str, str] | None = None) -> Served:
        binary, folder = program(name), tmp_path / f"{name}-{len(made)}"
        folder.mkdir()
        port = remembered_port(folder / "port")
        command = [str(binary), *(word.format(port=port, folder=folder) for word in words)]
        log_file = folder / "log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=binary.parent,
                env={**os.environ, **(env or {})},
            )
        made.append(Served(port, process, log_file))
        return made[-1].until_ready(ready)

    yield start
    for one in reversed(made):
        one.stop()
