"""The benchmark itself, tiny: it measures, says so in JSON lines, and looks whether the table is right."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.embedded import Stack

TOP = Path(__file__).resolve().parents[2]
MESSAGES, SECONDS, RATE = 5000, 3, 200

EVERY = {"measure", "at", "messages", "rate", "cpu_seconds", "other_load", "correct", "noisy", "cores", "overrides"}
DRAIN = EVERY | {
    "mode",
    "workload",
    "ceiling_rate",
    "rate_from_start",
    "startup_seconds",
    "total_seconds",
    "peak_megabytes",
    "epochs",
    "step_milliseconds",
}
PERCENTILES = {"p50_milliseconds", "p90_milliseconds", "p99_milliseconds", "max_milliseconds"}
LATENCY = EVERY - {"cpu_seconds", "other_load"} | {"mode", "asked_rate"} | PERCENTILES


@pytest.fixture
def stack_name() -> Iterator[str]:
    """A stack of the test's own, gone afterwards."""
    name = f"test-bench-{os.getpid()}"
    try:
        yield name
    finally:
        Stack(name).down(wipe=True)


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the verb in `folder`, with epochs small enough for the backlog to be several."""
    command = [sys.executable, "-m", "app.cli", "bench", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TOP), "SURELANE_EPOCH__MAX_MESSAGES": "1000"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(900)  # three starts of the lane, on a machine that may be busy
def test_measures_and_checks(tmp_path: Path, stack_name: str) -> None:
    sizes = [f"--messages={MESSAGES}", f"--seconds={SECONDS}", f"--rate={RATE}", "--warm-up=15"]
    done = bench(tmp_path, *sizes, "--modes=two-phase", f"--stack={stack_name}")
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    ceiling, drain, latency = results
    assert [result["measure"] for result in results] == ["ceiling", "drain", "latency"]
    assert all(result["correct"] for result in results)
    assert ceiling.keys() >= EVERY
    assert drain.keys() >= DRAIN
    assert latency.keys() >= LATENCY
    assert drain["epochs"] == MESSAGES // 1000
    assert set(drain["cpu_seconds"]) == {"postgres", "kafka", "supervisor", "driver", "jvm", "bench"}
    assert 0 < drain["rate_from_start"] < drain["rate"]
    assert drain["ratio"] == pytest.approx(drain["rate"] / ceiling["rate"], abs=0.001)
    assert 0 < latency["p50_milliseconds"] <= latency["p99_milliseconds"] <= latency["max_milliseconds"]
    kept = (tmp_path / "var/bench/results.jsonl").read_text().splitlines()
    assert kept == done.stdout.splitlines()


def test_refuses_unknown_modes(tmp_path: Path) -> None:
    done = bench(tmp_path, "--modes=twice")
    assert done.returncode == 3
    assert "at-least-once, two-phase, ledger" in done.stderr
    assert done.stdout == ""
