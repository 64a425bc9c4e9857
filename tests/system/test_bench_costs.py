"""The benchmark's measures of Surelane alone, tiny: each measures, writes its section, and looks whether the table is
right."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fix_bench import measured, measurements
from tools.bench import features
from tools.bench.axes import AXES

PAGE = "docs/PAGE.md"
#: of one small measurement on a busy machine: what takes longer says what it did
MOST_SECONDS = 400.0


def results(
    folder: Path, *arguments: str, goals: int, seconds: float | None = None, unjudged: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """What it says, in a folder where its page is written; with so many goals, which are judged, or not if they begin
    with one of `unjudged`."""
    done = measured(folder, *arguments, f"--report={PAGE}", seconds=seconds)
    lines, kept = done.stdout.splitlines(), (folder / "var/bench/results.jsonl").read_text().splitlines()
    assert kept[-len(lines) :] == lines
    judged = [goal for line in lines for goal in json.loads(line).get("goals", [])]
    assert [goal["what"] for goal in judged if goal["found"] is None and not goal["what"].startswith(unjudged)] == []
    assert len(judged) == goals
    return measurements(done)


@pytest.mark.full
@pytest.mark.timeout(1200)  # twelve starts, on a machine that may be busy
def test_each_measures_and_checks(tmp_path: Path, stack_name: str) -> None:
    measure = partial(results, tmp_path, f"--stack={stack_name}", "--rehearsal=0", seconds=MOST_SECONDS)
    two_phase, ledger = measure("--measures=start", "--systems=surelane,surelane-ledger", goals=1)
    marks = list(two_phase["seconds"].values())
    assert marks == sorted(marks)
    assert 0 < marks[0] < ledger["seconds"]["visible"]

    load = ("--rates=200", "--seconds=5")
    at_once, gathering = measure("--measures=kill", *load, "--triggers=0 seconds,1 second", goals=2)
    assert at_once["prepared_left"] == gathering["prepared_left"] == 0
    assert 0 < at_once["first_epoch_seconds"] <= at_once["caught_up_seconds"] + 0.1
    assert (at_once["trigger"], gathering["trigger"]) == ("0 seconds", "1 second")
    assert at_once["messages_an_epoch"] < gathering["messages_an_epoch"]

    (ledger,) = measure("--measures=kill", *load, "--systems=surelane-ledger", goals=2)
    assert 0 < ledger["first_epoch_seconds"] <= ledger["caught_up_seconds"] + 0.1

    short = ("growth of", "lag at any time")  # too short for them
    soaks = ("--measures=soak,soak-query", "--systems=surelane,surelane-ledger")
    found = measure(*soaks, *load, goals=24, unjudged=short)
    for system in ("surelane", "surelane-ledger", "query"):
        (whole,) = [one for one in found if one["measure"] != "soak-sample" and one["system"] == system]
        assert len(whole["samples"]) >= 3
        assert all(one["pss"]["jvm"] > 50 and one["lag_messages"] >= 0 for one in whole["samples"])
        kept = [one for one in found if one["measure"] == "soak-sample" and one["system"] == system]
        assert [one["seconds"] for one in kept] == [one["seconds"] for one in whole["samples"]]

    rows = measure("--measures=costs", "--axes=row-bytes", "--scale=0.0005", goals=4)
    lanes = [row for row in rows if row["system"] == "surelane"]
    assert [row["row_bytes"] for row in lanes] == [100, 1000, 10_000, 100_000]
    assert len(rows) == 2 * len(lanes), "each with the ceiling"
    assert all(row["epochs"] > 1 and min(row["peak_megabytes"].values()) > 0 for row in lanes)
    assert lanes[0]["messages"] == 500
    assert lanes[-1]["value_bytes"] > 100_000 * lanes[-1]["messages"]

    text = (tmp_path / PAGE).read_text()
    keys = ("start", "kill", "soak-surelane", "soak-query", "costs-row-bytes")
    assert all(f"<!-- {key}: begin -->" in text for key in keys)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_axes_and_features(tmp_path: Path, stack_name: str) -> None:
    rows = results(tmp_path, "--measures=costs", "--scale=0.005", f"--stack={stack_name}", goals=9)
    cases = {case for axis in AXES.values() for case in axis.cases(0.005)}
    assert sum(row["system"] == "surelane" for row in rows) == len(cases), "equal cases are measured once"

    *drains, timed = results(tmp_path, "--measures=features", "--scale=0.02", f"--stack={stack_name}", goals=2)
    assert [one["variant"] for one in drains] == list(features.VARIANTS)
    # so short a drain may be over before a connection has used what the system counts by
    assert all(seconds > 0 for part, seconds in timed["metered_cpu_seconds"].items() if part != features.CONNECTIONS)
    assert set(timed["metered_cpu_seconds"]) == {"metrics", "accounting", "guard", "their connections"}
    assert "| with an archive |" in (tmp_path / PAGE).read_text()
