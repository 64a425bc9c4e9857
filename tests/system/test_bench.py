"""The benchmark itself, tiny: it measures, says so in JSON lines, and looks whether the table is right."""

import json
from pathlib import Path

import pytest

from tests.fix_bench import measured, measurements

pytestmark = pytest.mark.alone

MESSAGES, SECONDS, RATE = 5000, 3, 200
#: messages/s
LEAST_OF_CEILING = 0.04
#: CPU seconds of all processes after the first rows
MOST_CPU_OF_CEILING = 50.0

EVERY = {"measure", "at", "messages", "system", "rate", "cpu_seconds", "other_load", "correct", "noisy", "overrides"}
DRAIN = EVERY | {
    "workload",
    "rate_from_start",
    "startup_seconds",
    "total_seconds",
    "peak_megabytes",
    "epochs",
    "step_milliseconds",
    "value_bytes",
    "cpu_seconds_after_first_look",
}
PERCENTILES = {"p50_milliseconds", "p90_milliseconds", "p99_milliseconds", "max_milliseconds"}
LATENCY = EVERY | {"asked_rate", "samples", "wal_syncs_an_epoch", "budget_milliseconds"} | PERCENTILES
#: parts of a lane's latency that no configuration leaves out
BUDGET = {
    "gathered",
    "settle",
    "stage",
    "prepare",
    "apply",
    "pre-commit",
    "plan",
    "entry",
    "commit",
    "finish",
    "of stage: fetch",
}


@pytest.mark.timeout(600)
def test_the_lane_keeps_its_share_of_the_ceiling(tmp_path: Path, stack_name: str) -> None:
    """A ratio within one run: half of the worst that was seen on two cores, so that what is lost is a change's fault
    and not the machine's."""
    drain, ceiling = measurements(measured(tmp_path, "--messages=250000", f"--stack={stack_name}", most=50_000))
    assert drain["epochs"] == 5
    assert drain["rate"] / ceiling["rate"] >= LEAST_OF_CEILING
    used = sum(drain["cpu_seconds_after_first_look"].values()) / sum(ceiling["cpu_seconds"].values())
    assert used <= MOST_CPU_OF_CEILING


@pytest.mark.timeout(900)  # four starts of the lane, on a machine that may be busy
def test_measures_and_checks(tmp_path: Path, stack_name: str) -> None:
    sizes = [f"--messages={MESSAGES}", f"--seconds={SECONDS}", f"--rates={RATE}", "--warm-up=15", "--rehearsal=1"]
    what = ["--measures=drain,latency", "--workloads=uniform,wide,many-tables"]
    done = measured(tmp_path, *sizes, *what, f"--stack={stack_name}", most=1000)
    results = measurements(done)
    drains = [("drain", system) for system in ("surelane", "ceiling")] * 3
    assert [(one["measure"], one["system"]) for one in results] == [*drains, ("latency", "surelane")]
    drain, ceiling, wide, _, many, _, latency = results
    assert wide["messages"] < MESSAGES / 4
    assert wide["value_bytes"] == pytest.approx(drain["value_bytes"], rel=0.2)
    assert many["messages"] == MESSAGES
    assert all(one["cpu_seconds"]["jvm"] > 0 for one in (drain, wide, many))
    assert ceiling.keys() >= EVERY
    assert drain.keys() >= DRAIN
    assert latency.keys() >= LATENCY
    assert drain["epochs"] == MESSAGES // 1000
    assert set(drain["cpu_seconds"]) == {"postgres", "kafka", "supervisor", "driver", "jvm", "tasks", "bench"}
    assert 0 < drain["rate_from_start"] < drain["rate"]
    assert 0 < latency["p50_milliseconds"] <= latency["p99_milliseconds"] <= latency["max_milliseconds"]
    assert latency["budget_milliseconds"].keys() >= BUDGET
    assert 0 < latency["budget_milliseconds"]["gathered"] < latency["max_milliseconds"]
    assert latency["wal_syncs_an_epoch"] >= 2, "PREPARE and COMMIT PREPARED"
    kept = (tmp_path / "var/bench/results.jsonl").read_text().splitlines()
    assert kept == done.stdout.splitlines()


def test_a_system_that_fails_is_a_row_and_the_status(tmp_path: Path, stack_name: str) -> None:
    """A lane whose configuration is invalid; what is measured after it is measured."""
    page = tmp_path / "PAGE.md"
    options = ("--measures=start,drain", "--rehearsal=0", "--messages=1000", f"--stack={stack_name}")
    done = measured(tmp_path, *options, f"--report={page}", most=-1)
    started, drain, ceiling = (line for line in map(json.loads, done.stdout.splitlines()) if "system" in line)
    assert (done.returncode, started["correct"], drain["correct"], ceiling["correct"]) == (1, False, False, True)
    assert "SystemFailed: the process ended with status 3" in drain["error"]
    assert "failed: SystemFailed: the process ended with status 3" in page.read_text()


UNKNOWN = {
    ("--measures=drain,speed",): "drain, latency, start, kill, soak, soak-query, costs, features, windows",
    ("--systems=surelane,flink",): "flink-table, flink-xa, seatunnel-xa, debezium-jdbc, replication, ceiling",
    ("--workloads=uniform,broad",): "uniform, hot, wide, many-tables",
    ("--systems=surelane,flink-xa", "--workloads=wide"): "uniform, hot",
    ("--axes=messages,length",): "messages, tables, columns, whole-columns, row-bytes, epoch-messages",
    ("--measures=",): "drain, latency, start",
    ("--messages=1000,many",): "1000,many",
    ("--messages=",): "1000000, or 1000000,2000000",
    ("--rates=0",): "1000, or 100,1000",
    ("--round-trips=0.1,far",): "0.1,far",
    ("--round-trips=inf",): "0.1,1,2.5,10",
    ("--triggers=soon",): "0 seconds,10 seconds",
    ("--measures=start", "--systems=ceiling"): "one of surelane, surelane-ledger, surelane-at-least-once",
}


@pytest.mark.parametrize("arguments", UNKNOWN, ids=" ".join)
def test_refuses_what_is_unknown(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = measured(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert UNKNOWN[arguments] in done.stderr
