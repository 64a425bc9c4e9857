"""The benchmark against others, tiny: all drain the same topic, and the tables are right."""

from pathlib import Path
from typing import Any

import pytest

from tests.fix_bench import measured, measurements
from tools.bench import windows

pytestmark = pytest.mark.alone

MESSAGES = 20_000
#: of app.errors.ExitStatus: something needed is missing
MISSING = 4


def bench_peers(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = measured(folder, "--rehearsal=1", *arguments, most=5000)
    if done.returncode == MISSING and "could not be fetched" in done.stderr:
        pytest.skip(f"Flink cannot be fetched here: {done.stderr}")
    return measurements(done)


@pytest.mark.full
@pytest.mark.timeout(900)  # six starts, on a machine that may be busy
def test_compares_with_flink(tmp_path: Path, stack_name: str) -> None:
    systems = ["surelane", "flink-xa", "ceiling"]
    sizes = [f"--messages={MESSAGES}", f"--stack={stack_name}"]
    latency = ["--measures=drain,latency", "--rates=200", "--seconds=3", "--warm-up=10"]
    results = bench_peers(tmp_path, *sizes, *latency, f"--systems={','.join(systems)}", "--report=docs/PAGE.md")
    found = [(result["measure"], result["system"], result.get("asked_rate")) for result in results]
    assert found == [
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


@pytest.mark.full
@pytest.mark.timeout(600)
def test_measures_at_a_distance_and_beside_replication(tmp_path: Path, stack_name: str) -> None:
    """Surelane's drain and latency with 20 ms to its Postgres and with hardly any; replication, which has no client."""
    sizes = [f"--messages={MESSAGES}", f"--stack={stack_name}"]
    systems = ["--systems=surelane,replication", "--report=docs/PAGE.md"]
    own, peer = bench_peers(tmp_path, *sizes, *systems)
    assert (own["system"], peer["system"]) == ("surelane", "replication")
    assert peer["cpu_seconds"]["client"] > 0, "of the publisher"
    assert 0 < peer["messages_at_first_look"] < MESSAGES
    away = ["--round-trips=0.1,20", "--measures=drain,latency", "--rates=100", "--seconds=3", "--warm-up=10"]
    results = bench_peers(tmp_path, *sizes, *systems, *away)
    assert [(one["measure"], one["round_trip"]) for one in results] == [
        *(("drain", 0.1), ("drain", 20)),
        *(("latency", 0.1), ("latency", 20)),
    ]
    near, far, near_held, far_held = results
    assert near["select_milliseconds"] < 20 < far["select_milliseconds"]
    assert far["cpu_seconds"]["proxy"] > 0
    # at the least COMMIT PREPARED, and before it PREPARE and what the merge is
    assert far_held["p50_milliseconds"] > near_held["p50_milliseconds"] + 2 * 20
    page = (tmp_path / "docs/PAGE.md").read_text()
    assert all(f"<!-- {key}: begin -->" in page for key in ("systems", "drain", "drain-distance", "latency-distance"))


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_windowed_count_beside_flink(tmp_path: Path, stack_name: str) -> None:
    found = bench_peers(tmp_path, "--measures=windows", "--messages=5000", f"--stack={stack_name}")
    assert [one["system"] for one in found] == [system.name for system in windows.systems("")]
    assert all(one["seconds"] > 0 for one in found)
