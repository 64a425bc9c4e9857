"""The benchmark as a user calls it, on a stack of the test's own."""

import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tools.bench.plan import Plan
from tools.devstack import Stack

TOP = Path(__file__).resolve().parents[1]
#: of sections whose measure takes nothing from it
PLAN = Plan(
    systems=[],
    workloads=[],
    messages=[],
    rates=[],
    seconds=30,
    warm_up=1,
    rehearsal=0,
    round_trips=[],
    triggers=[],
    axes=[],
    scale=1.0,
    runs=3,
)


@pytest.fixture
def stack_name() -> Iterator[str]:
    """A stack of the test's own, gone afterwards."""
    name = f"test-bench-{os.getpid()}"
    try:
        yield name
    finally:
        Stack(name).down(wipe=True)


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


@contextmanager
def echoing() -> Iterator[int]:
    """The port of a server that sends everything back."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def measured(
    folder: Path, *arguments: str, most: int | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `./run bench` in `folder`; `most`: messages of an epoch, few enough for the backlog to be several, None: the
    default."""
    command = [sys.executable, "-m", "tools.cli", "bench", *arguments]
    cut = {} if most is None else {"SURELANE_EPOCH__MAX_MESSAGES": str(most)}
    environment = {**os.environ, "PYTHONPATH": str(TOP), **cut}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired as late:
        output = b"".join(filter(None, (late.stdout, late.stderr))).decode(errors="replace")
        logs = [f"{log}:\n{log.read_text(errors='replace')[-3000:]}" for log in sorted(folder.rglob("*.log"))]
        raise AssertionError("\n".join([f"bench took over {seconds} s", output, *logs])) from late


def measurements(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The JSON lines, each right, without those of the goals."""
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = [line for line in lines if not line["measure"].endswith("-goals")]
    assert all(one.get("correct", True) for one in found)
    return found
