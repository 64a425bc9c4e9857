"""The benchmark against others, tiny: everybody drains the same topic, and the tables are right."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fix_bench import measured
from tools.bench import windows

pytestmark = pytest.mark.alone

MESSAGES = 20_000
#: of app.errors.ExitStatus: something needed is missing
MISSING = 4


def bench_peers(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The verb."""
    done = measured(folder, "bench-peers", *arguments, most=5000)
    if done.returncode == MISSING and "could not be fetched" in done.stderr:
        pytest.skip(f"Flink cannot be fetched here: {done.stderr}")
    return done


@pytest.mark.full
@pytest.mark.timeout(900)  # six starts, on a machine that may be busy
def test_compares_with_flink(tmp_path: Path, stack_name: str) -> None:
    systems = ["surelane", "flink-xa", "ceiling"]
    sizes = [f"--messages={MESSAGES}", "--runs=1", "--workloads=uniform", f"--stack={stack_name}"]
    latency = ["--latency", "--rate=200", "--seconds=3", "--warm-up=10"]
    done = bench_peers(tmp_path, *sizes, *latency, f"--systems={','.join(systems)}", "--report=docs/PAGE.md")
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    measured = [(result["measure"], result["system"], result.get("asked_rate")) for result in results]
    assert measured == [
        *(("peer-drain", system, None) for system in systems),
        ("peer-latency", "surelane", 200),
        ("peer-latency", "flink-xa", 200),
        ("peer-latency", "surelane", 10_000),
    ]
    assert all(result["correct"] for result in results)
    own, peer, ceiling, *held = results
    for system in (own, peer):
        assert 0 < system["messages_at_first_look"] < MESSAGES
        assert 0 < system["rate_from_start"] < ceiling["rate"]
    assert set(own["cpu_seconds"]) == {"postgres", "kafka", "supervisor", "driver", "jvm", "bench"}
    assert set(peer["cpu_seconds"]) == {"postgres", "kafka", "client", "bench"}
    assert all(0 < one["p50_milliseconds"] <= one["p99_milliseconds"] <= one["max_milliseconds"] for one in held)
    assert all(one["samples"] > 0.3 * one["messages"] for one in held)
    assert "rate against Flink over XA" in done.stderr
    assert f"| uniform | {MESSAGES:,} | flink-xa |" in (tmp_path / "docs/PAGE.md").read_text()
    assert (tmp_path / "docs/benchmarks.svg").exists()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_windowed_count_beside_flink(tmp_path: Path, stack_name: str) -> None:
    done = measured(tmp_path, "bench-windows", "--messages=5000", f"--stack={stack_name}")
    assert done.returncode == 0, done.stderr
    *found, judged = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["system"] for one in found] == list(windows.SYSTEMS)
    assert all(one["correct"] and one["seconds"] > 0 for one in found)
    assert judged["goals"][0]["found"] > 0


def test_refuses_unknown_systems(tmp_path: Path) -> None:
    done = bench_peers(tmp_path, "--systems=surelane,flink")
    assert done.returncode == 3
    assert "surelane, flink-table, flink-xa, debezium-jdbc, ceiling" in done.stderr
    assert done.stdout == ""


def test_refuses_what_is_no_number(tmp_path: Path) -> None:
    done = bench_peers(tmp_path, "--messages=1000,many")
    assert done.returncode == 3
    assert "1000,many" in done.stderr


def test_refuses_workloads_that_the_others_have_no_table_for(tmp_path: Path) -> None:
    done = bench_peers(tmp_path, "--workloads=wide")
    assert done.returncode == 3
    assert "uniform, hot" in done.stderr
