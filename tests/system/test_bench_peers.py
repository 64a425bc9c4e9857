"""The benchmark against others, tiny: all drain the same topic, and the tables are right."""

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
    done = measured(folder, "bench-peers", "--rehearsal=1", *arguments, most=5000)
    if done.returncode == MISSING and "could not be fetched" in done.stderr:
        pytest.skip(f"Flink cannot be fetched here: {done.stderr}")
    return done


def measurements(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = [line for line in lines if not line["measure"].endswith("-goals")]
    assert all(one["correct"] for one in found)
    return found


@pytest.mark.full
@pytest.mark.timeout(900)  # six starts, on a machine that may be busy
def test_compares_with_flink(tmp_path: Path, stack_name: str) -> None:
    systems = ["surelane", "flink-xa", "ceiling"]
    sizes = [f"--messages={MESSAGES}", "--runs=1", "--workloads=uniform", "--attempts=1", f"--stack={stack_name}"]
    latency = ["--measures=drain,latency", "--rates=200", "--seconds=3", "--warm-up=10"]
    results = measurements(
        bench_peers(tmp_path, *sizes, *latency, f"--systems={','.join(systems)}", "--report=docs/PAGE.md")
    )
    measured = [(result["measure"], result["system"], result.get("asked_rate")) for result in results]
    assert measured == [
        *(("drain", system, None) for system in systems),
        ("latency", "surelane", 200),
        ("latency", "flink-xa", 200),
    ]
    own, peer, ceiling, *held = results
    assert 0 < own["messages_at_first_look"] < MESSAGES
    assert 0 < peer["messages_at_first_look"] <= MESSAGES, "all may be in one checkpoint of Flink"
    for system in (own, peer):
        assert 0 < system["rate_from_start"] < ceiling["rate"]
    assert set(own["cpu_seconds"]) == {"postgres", "kafka", "supervisor", "driver", "jvm", "tasks", "bench"}
    assert set(peer["cpu_seconds"]) == {"postgres", "kafka", "client", "bench"}
    assert all(0 < one["p50_milliseconds"] <= one["p99_milliseconds"] <= one["max_milliseconds"] for one in held)
    assert all(one["samples"] > 0.3 * one["messages"] for one in held)
    page = (tmp_path / "docs/PAGE.md").read_text()
    assert "rate against Flink over XA" in page
    assert f"| uniform | {MESSAGES:,} | flink-xa |" in page
    assert (tmp_path / "docs/benchmarks.svg").exists()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_measures_at_a_distance_and_beside_replication(tmp_path: Path, stack_name: str) -> None:
    """Surelane's drain and latency with 20 ms to its Postgres and with hardly any; replication, which has no client."""
    sizes = [f"--messages={MESSAGES}", "--runs=1", "--workloads=uniform", "--attempts=1", f"--stack={stack_name}"]
    systems = ["--systems=surelane,replication", "--report=docs/PAGE.md"]
    own, peer = measurements(bench_peers(tmp_path, *sizes, *systems))
    assert (own["system"], peer["system"]) == ("surelane", "replication")
    assert peer["cpu_seconds"]["client"] > 0, "of the publisher"
    assert 0 < peer["messages_at_first_look"] < MESSAGES
    away = ["--round-trip=0.1,20", "--measures=drain,latency", "--rates=100", "--seconds=3", "--warm-up=10"]
    results = measurements(bench_peers(tmp_path, *sizes, *systems, *away))
    assert [(one["measure"], one["round_trip"]) for one in results] == [
        *(("drain", 0.1), ("latency", 0.1)),
        *(("drain", 20), ("latency", 20)),
    ]
    near, near_held, far, far_held = results
    assert near["select_milliseconds"] < 20 < far["select_milliseconds"]
    assert far["cpu_seconds"]["proxy"] > 0
    # at the least COMMIT PREPARED, and before it PREPARE and what the merge is
    assert far_held["p50_milliseconds"] > near_held["p50_milliseconds"] + 2 * 20
    page = (tmp_path / "docs/PAGE.md").read_text()
    assert all(f"<!-- {key}: begin -->" in page for key in ("drain", "distance", "systems"))
    assert "| system | messages/s | 0.1 ms | 20 ms |" in page


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_windowed_count_beside_flink(tmp_path: Path, stack_name: str) -> None:
    done = measured(tmp_path, "bench-windows", "--messages=5000", f"--stack={stack_name}")
    assert done.returncode == 0, done.stderr
    *found, judged = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["system"] for one in found] == [system.name for system in windows.systems("")]
    assert all(one["correct"] and one["seconds"] > 0 for one in found)
    assert judged["goals"][0]["found"] > 0


def test_refuses_unknown_systems(tmp_path: Path) -> None:
    done = bench_peers(tmp_path, "--systems=surelane,flink")
    assert done.returncode == 3
    assert "flink-table, flink-xa, seatunnel-xa, debezium-jdbc, replication, ceiling" in done.stderr
    assert done.stdout == ""


def test_refuses_what_is_no_number(tmp_path: Path) -> None:
    done = bench_peers(tmp_path, "--messages=1000,many")
    assert done.returncode == 3
    assert "1000,many" in done.stderr


def test_refuses_distances_that_are_none(tmp_path: Path) -> None:
    done = bench_peers(tmp_path, "--round-trip=0.1,far")
    assert done.returncode == 3
    assert "0.1,far" in done.stderr


def test_refuses_workloads_that_the_others_have_no_table_for(tmp_path: Path) -> None:
    done = bench_peers(tmp_path, "--workloads=wide")
    assert done.returncode == 3
    assert "uniform, hot" in done.stderr
