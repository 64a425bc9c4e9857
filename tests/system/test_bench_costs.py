"""The benchmark's commands for costs, kills, bursts and soaks, tiny: each measures, writes its section, and looks
whether the table is right."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fix_bench import measured
from tools.bench import features

PAGE = "docs/COSTS.md"
#: of one small measurement on a busy machine: what takes longer says what it did
VERB_SECONDS = 400.0


def results(folder: Path, verb: str, *arguments: str, seconds: float | None = None) -> list[dict[str, Any]]:
    """What the verb says, in a folder where its page is written."""
    done = measured(folder, verb, *arguments, f"--report={PAGE}", seconds=seconds)
    assert done.returncode == 0, done.stderr
    kept = (folder / "var/bench/results.jsonl").read_text().splitlines()
    assert kept[-len(done.stdout.splitlines()) :] == done.stdout.splitlines()
    return [json.loads(line) for line in done.stdout.splitlines()]


def verdicts(result: dict[str, Any]) -> list[str]:
    return [goal["verdict"] for goal in result["goals"]]


@pytest.mark.full
@pytest.mark.timeout(900)  # nine starts, on a machine that may be busy
def test_each_command_measures_and_checks(tmp_path: Path, stack_name: str) -> None:
    measure, stack = partial(results, seconds=VERB_SECONDS), f"--stack={stack_name}"
    burst, judged = measure(tmp_path, "bench-burst", "--size=200", "--bursts=3", stack)
    assert burst["correct"]
    assert 0 < burst["hidden_milliseconds"]["max"] < burst["whole_milliseconds"]["max"]
    assert len(judged["goals"]) == 1

    started, judged = measure(tmp_path, "bench-start", "--modes=two-phase", "--runs=1", stack)
    assert started["correct"]
    marks = list(started["seconds"].values())
    assert marks == sorted(marks)
    assert marks[0] > 0
    assert "not judged" not in verdicts(judged)

    killed, judged = measure(tmp_path, "bench-restart", "--rate=200", "--before=4", "--after=2", "--runs=1", stack)
    assert killed["correct"]
    assert killed["prepared_left"] == 0
    assert 0 < killed["first_epoch_seconds"] <= killed["caught_up_seconds"] + 0.1
    assert "not judged" not in verdicts(judged)

    options = ("--rates=200", "--triggers=0 seconds,1 second", "--before=4", "--after=2")
    curve = measure(tmp_path, "bench-recovery", *options, stack)
    assert [(one["trigger"], one["correct"]) for one in curve] == [("0 seconds", True), ("1 second", True)]
    assert curve[0]["epochs_before_kill"] > curve[1]["epochs_before_kill"]

    *samples, soak, _ = measure(tmp_path, "bench-soak", "--minutes=0.1", "--rate=200", "--every=1", stack)
    assert soak["correct"]
    assert len(samples) >= 3
    assert all(one["measure"] == "soak-sample" and one["pss"]["jvm"] > 50 for one in samples)
    assert all(sum(one["threads"].values()) > 20 and one["lag_messages"] >= 0 for one in samples)
    assert (tmp_path / "docs/soak.svg").exists()
    *samples, soak, _ = measure(tmp_path, "bench-soak", "--minutes=0.1", "--rate=200", "--every=1", "--query", stack)
    assert soak["correct"]
    assert samples

    *rows, judged = measure(tmp_path, "bench-costs", "--axes=row-bytes", "--scale=0.0005", stack)
    assert [row["row_bytes"] for row in rows] == [100, 1000, 10_000, 100_000]
    assert all(row["correct"] and row["epochs"] > 1 and row["peak_megabytes"]["driver"] > 0 for row in rows)
    assert rows[0]["messages"] == 500
    assert rows[-1]["value_bytes"] > 100_000 * rows[-1]["messages"]
    assert len(judged["goals"]) == 3

    text = (tmp_path / PAGE).read_text()
    assert all(f"<!-- {key}: begin -->" in text for key in ("burst", "restart", "recovery", "soak", "costs-row-bytes"))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_axes_and_features(tmp_path: Path, stack_name: str) -> None:
    *rows, judged = results(tmp_path, "bench-costs", "--scale=0.005", f"--stack={stack_name}")
    assert {row["measure"] for row in rows} == {"cost"}
    assert len(rows) == len(
        {json.dumps([row[key] for key in ("workload", "messages", "epoch_messages")]) for row in rows}
    )
    assert all(row["correct"] for row in rows)
    assert "not judged" not in verdicts(judged)

    *drains, timed, judged = results(
        tmp_path, "bench-costs", "--features", "--runs=1", "--scale=0.02", f"--stack={stack_name}"
    )
    assert [one["variant"] for one in drains] == list(features.VARIANTS)
    assert all(one["correct"] and one["cpu_microseconds_per_message"] > 0 for one in drains)
    # so short a drain may be over before a connection has used what the system counts by
    assert all(seconds > 0 for part, seconds in timed["metered_cpu_seconds"].items() if part != features.CONNECTIONS)
    assert set(timed["metered_cpu_seconds"]) == {"metrics", "accounting", "guard", "their connections"}
    assert "not judged" not in verdicts(judged)
    assert "| with an archive |" in (tmp_path / PAGE).read_text()


def test_refuses_unknown_axes(tmp_path: Path) -> None:
    done = measured(tmp_path, "bench-costs", "--axes=messages,length")
    assert done.returncode == 3
    assert "messages, tables, columns, whole-columns, row-bytes, epoch-messages" in done.stderr
    assert done.stdout == ""
