"""Prometheus, Alertmanager and postgres_exporter as processes, for a test."""

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.embedded.ports import LOOPBACK, remembered_port
from tests.debian_programs import program
from tests.waiting import eventually

STOP_SECONDS = 20


class Served:
    """A program that listens on a port of its own."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self.port, self._process, self._log_file = port, process, log_file

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def get(self, path: str, **query: str) -> Any:
        """The answer as JSON; raises AssertionError with what it says when it refuses."""
        return self._json(f"{path}?{urllib.parse.urlencode(query)}")

    def post(self, path: str, body: object) -> Any:
        """Likewise."""
        return self._json(path, json.dumps(body).encode())

    def until_ready(self, path: str) -> "Served":
        """Wait until it answers there."""
        eventually(lambda: self._is_ready(path), 60, f"{self._log_file}")
        return self

    def ask(self, expr: str) -> dict[str, float]:
        """Of a Prometheus: the value of each series, by its labels as text."""
        result = self.get("/api/v1/query", query=expr)["data"]["result"]
        return {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in result}

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_ready(self, path: str) -> bool:
        assert self._process.poll() is None, self._log_file.read_text()[-2000:]
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
