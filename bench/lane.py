"""The lane that is measured: the real command, as a child process with a fresh checkpoint."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.epochs import Epoch
from bench.machine import Cpu, peak_megabytes, single
from bench.servers import LEDGER_SCHEMA, Servers

LANE = "bench"
#: what the lane under test is called in results -> its configuration
MODES: Mapping[str, Mapping[str, str]] = {
    "at-least-once": {"delivery": "at-least-once"},
    "two-phase": {"delivery": "exactly-once", "commit": "two-phase"},
    "ledger": {"delivery": "exactly-once", "commit": "ledger"},
}
#: configuration, log and checkpoint of the last lane; emptied before the next
FOLDER = Path("var/bench/lane")
TOP = Path(__file__).resolve().parents[1]
STOP_SECONDS = 60.0
LOG_TAIL_LINES = 15


class LaneFailed(Exception):
    """The lane ended by itself, or did not do what it was to do."""


@dataclass
class Lane:
    """One running child process."""

    process: subprocess.Popen[bytes]
    log: Path
    #: seconds since 1970, just before the process was made
    started_at: float
    _jvm: int | None = None

    def cpu(self) -> Mapping[str, Cpu]:
        """What the driver and its JVM have used."""
        return {"driver": single(self.process.pid), "jvm": single(self._jvm_pid() or 0)}

    def peaks(self) -> dict[str, int]:
        """Megabytes at most so far."""
        driver, jvm = peak_megabytes(self.process.pid), peak_megabytes(self._jvm_pid() or 0)
        return {"driver": round(driver), "jvm": round(jvm)}

    def must_live(self) -> None:
        """Raise with the end of the log if the process has ended."""
        if self.process.poll() is not None:
            raise LaneFailed(f"the lane ended with status {self.process.returncode}:\n{self.tail()}")

    def stop(self) -> int:
        """End it in good order if it still runs; gives its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Its exit status; killed when it does not end."""
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def epochs(self) -> list[Epoch]:
        """What it has logged of its epochs so far."""
        return [epoch for line in self.log.read_text().splitlines() if (epoch := Epoch.parse(line))]

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text().splitlines()[-LOG_TAIL_LINES:])

    def _jvm_pid(self) -> int | None:
        if self._jvm is None and self.process.poll() is None:
            children = psutil.Process(self.process.pid).children()
            self._jvm = next((child.pid for child in children if child.name() == "java"), None)
        return self._jvm


@contextmanager
def running(servers: Servers, mode: str, topic: str, *, until_caught_up: bool) -> Iterator[Lane]:
    """Start the lane on `topic` from its beginning; stopped at the end if it has not ended by itself."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    folder = FOLDER.resolve()
    config = folder / "surelane.yaml"
    config.write_text(json.dumps(_config(servers, mode, topic, folder), indent=1))
    command = [sys.executable, "-m", "app.cli", "run", "--config", str(config)]
    if until_caught_up:
        command.append("--until-caught-up")
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    log = folder / "log.jsonl"
    with log.open("wb") as out:
        started_at = time.time()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    lane = Lane(process, log, started_at)
    try:
        yield lane
    finally:
        lane.stop()


def _config(servers: Servers, mode: str, topic: str, folder: Path) -> dict[str, object]:
    """JSON is YAML. What is not said here is as the defaults have it; SURELANE_... variables go on top."""
    return {
        "lane": LANE,
        "source": {"bootstrap_servers": servers.bootstrap, "topics": [topic]},
        "target": {"url": servers.url, "schema": LEDGER_SCHEMA},
        "checkpoint": str(folder / "checkpoint"),
        "metrics": {"port": 0},
        **MODES[mode],
    }
