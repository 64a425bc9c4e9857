"""What the benchmark's own commands make of their figures: growth, verdicts, goals, and the page they write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tools.bench import costs, features, page, restart, soak, start, windows
from tools.bench.axes import BASE_EPOCH, BASE_MESSAGES, JVM_LIMIT, LONG_ROWS, NAMES, axes, base, growth, memory
from tools.bench.latency import Sightings
from tools.bench.page import Goal, Section, Table
from tools.bench.results import rehearse, tried
from tools.bench.samples import CHECKPOINT_FILES_LIMIT, GROWTH_LIMITS, Sample, growth_goals, hourly, second_half, slope
from tools.bench.summary import Group
from tools.devstack.sections import merged
from tools.peers.child import SystemFailed
from tools.testbed.machine import Snapshot
from tools.testbed.pacer import Paced

MINUTE = 60.0


def sample(seconds: float, *, driver: float = 150.0, jvm: float = 400.0, lag: int = 10, files: int = 100) -> Sample:
    memory = {"supervisor": 40.0, "driver": driver, "jvm": jvm}
    return {
        "seconds": seconds,
        "pss": memory,
        "threads": {"supervisor": 1, "driver": 20, "jvm": 50},
        "files": {"supervisor": 4, "driver": 30, "jvm": 300},
        "checkpoint_files": files,
        "ledger_rows": round(seconds),
        "ledger_megabytes": 1.0,
        "guard_megabytes": 0.1,
        "table_megabytes": 10.0,
        "lag_messages": lag,
    }


def cost(microseconds: float | None, *, correct: bool = True, **fields: Any) -> dict[str, Any]:
    costs = {"cpu_microseconds_per_message": microseconds, "cpu_seconds_per_gigabyte": microseconds, "correct": correct}
    return {"row_bytes": None, "peak_megabytes": {"supervisor": 40, "driver": 500, "jvm": 900}, **costs, **fields}


def sizes(*costs: dict[str, Any]) -> list[Group]:
    """One run of each size."""
    return [Group([{"run": 1, **one}]) for one in costs]


def found(asked: Sequence[Goal]) -> dict[str, str]:
    return {goal.what: goal.verdict for goal in asked}


def tables(section: Section) -> dict[str, Table]:
    """By their titles."""
    return {part.title: part for part in section.body if isinstance(part, Table)}


def test_the_slope_does_not_see_outliers() -> None:
    at = np.arange(200, dtype=np.float64)
    values = 3.0 * at
    values[::5] += 1000.0
    assert slope(at, values) == pytest.approx(3.0, rel=0.05)
    assert slope(np.arange(5000.0), 2.0 * np.arange(5000.0)) == pytest.approx(2.0)


def test_only_the_second_half_counts() -> None:
    grown = [sample(minute * MINUTE, driver=100 + min(minute, 30) * 10) for minute in range(61)]
    assert second_half(grown)[0]["seconds"] == 30 * MINUTE
    assert hourly(second_half(grown), lambda one: one["pss"]["driver"]) == 0.0
    assert found(growth_goals(grown, 1000))["growth of memory, driver"] == "reached"


def test_a_leak_is_seen() -> None:
    leak = GROWTH_LIMITS["driver"] + 5
    grown = [sample(minute * MINUTE, driver=100 + minute / 60 * leak) for minute in range(61)]
    judged = {goal.what: goal for goal in growth_goals(grown, 1000)}
    assert judged["growth of memory, driver"].found == pytest.approx(leak, rel=0.01)
    assert judged["growth of memory, driver"].verdict == "MISSED"
    assert judged["growth of memory, jvm"].verdict == "reached"
    assert judged["growth of threads"].found == 0


def test_a_short_soak_is_not_judged_by_growth() -> None:
    few = [sample(10.0 * number, files=CHECKPOINT_FILES_LIMIT + 1) for number in range(10)]
    judged = found(growth_goals(few, 1000))
    assert judged["growth of memory, jvm"] == "not judged"
    assert judged["files of the checkpoint"] == "MISSED"
    assert judged["lag at any time"] == "reached"
    assert set(found(growth_goals([], 1000)).values()) == {"not judged"}


def test_late_is_late() -> None:
    late = [sample(minute * MINUTE, lag=20_000 if minute == 40 else 5) for minute in range(61)]
    lag = growth_goals(late, 1000)[-1]
    assert (lag.what, lag.found, lag.verdict) == ("lag at any time", 20.0, "MISSED")


def test_cheaper_at_larger_sizes_is_linear() -> None:
    one = growth("epoch-messages", "message", sizes(cost(90), cost(30), cost(20), cost(22)))
    assert one.growth == pytest.approx(1.1)
    assert one.spread == pytest.approx(4.5)
    assert "linear or better" in one.sentence
    assert one.goal.verdict == "reached"


def test_dearer_at_any_larger_size_is_not() -> None:
    one = growth("columns", "byte", sizes(cost(20), cost(10), cost(16), cost(11)))
    assert one.growth == pytest.approx(1.6)
    assert "dearer than linear" in one.sentence
    assert one.goal.verdict == "MISSED"


def test_where_the_ceiling_grows_as_much_is_granted() -> None:
    def long(own: float, alone: float) -> dict[str, Any]:
        return cost(own, ceiling_cpu_seconds_per_gigabyte=alone)

    one = growth("row-bytes", "byte", sizes(long(10, 5), long(16, 10), long(18, 10)))
    assert (one.growth, one.limit, one.goal.verdict) == (1.8, 2.0, "reached")
    assert "dearer than linear" in one.sentence
    assert "2.00 times for Postgres alone" in one.sentence
    one = growth("row-bytes", "byte", sizes(long(10, 5), long(16, 10), long(27, 10)))
    assert (one.growth, one.limit, one.goal.verdict) == (2.7, 2.0, "MISSED")
    one = growth("row-bytes", "byte", sizes(long(10, 5), long(16, 5), long(30, 20)))
    assert (one.growth, one.judged, one.limit, one.goal.verdict) == (3.0, 1.6, 1.5, "MISSED")
    assert "at most 3.00 times" in one.sentence
    assert "1.6 times where 1.5 are granted" in one.sentence
    one = growth("row-bytes", "byte", sizes(long(10, 5), long(18, 19)))
    assert (one.growth, one.limit, one.ceiling, one.goal.verdict) == (1.8, 1.5, None, "MISSED"), "no ceiling"
    one = growth("row-bytes", "byte", sizes(long(10, 5), cost(16)))
    assert (one.growth, one.limit, one.ceiling, one.goal.verdict) == (1.6, 1.5, None, "MISSED")


@pytest.mark.parametrize("rows", [[cost(10), cost(10, correct=False)], [cost(10), cost(None)], [cost(10)], []])
def test_a_row_that_failed_judges_nothing(rows: list[dict[str, Any]]) -> None:
    one = growth("tables", "message", sizes(*rows))
    assert (one.growth, one.goal.verdict, one.sentence) == (None, "not judged", "tables: not judged.")


def test_memory_is_judged_by_the_longest_rows() -> None:
    assert memory(sizes(cost(1))) == []
    long = cost(1, row_bytes=LONG_ROWS, peak_megabytes={"driver": 900, "jvm": JVM_LIMIT + 1})
    driver, jvm = memory(sizes(cost(1, peak_megabytes={"driver": 9000, "jvm": 9}), long))
    assert (driver.found, driver.verdict, jvm.verdict) == (900, "reached", "MISSED")
    assert {goal.verdict for goal in memory(sizes({**long, "correct": False}))} == {"not judged"}


def test_each_axis_varies_one_thing() -> None:
    for axis in axes(NAMES):
        assert len(axis.cases) >= 3
        assert list(axis.cases) == sorted(axis.cases)
    cases = {axis.name: axis.cases for axis in axes(NAMES)}
    assert base() == cases["messages"][BASE_MESSAGES] == cases["tables"][1] == cases["epoch-messages"][BASE_EPOCH]
    assert {case.shape for case in cases["messages"].values()} == {base().shape}
    assert [case.shape.columns for case in cases["columns"].values()] == [5, 20, 50, 100, 200]
    assert cases["row-bytes"][100_000].messages < cases["row-bytes"][1000].messages / 50


def test_scaled_down_it_is_the_same_in_small() -> None:
    (small,) = axes(["epoch-messages"], 0.01)
    assert [(size, case.messages) for size, case in small.cases.items()] == [
        (20, 2000),
        (100, 10_000),
        (1000, 10_000),
        (5000, 30_000),
    ]
    assert base(0.01).shape.most_rows == 2000


def feature(variant: str, microseconds: float, rate: float, run: int, **fields: Any) -> dict[str, Any]:
    what = {"measure": "feature", "variant": variant, "run": run, "rate": rate, "other_load": 0.0}
    return cost(microseconds, **what, **fields)


def rounds(variant: str, *ratios: tuple[float, float]) -> list[dict[str, Any]]:
    """The default at 100 µs and 100 messages/s in each round, and a variant at these of its figures."""
    return [
        one
        for run, (cpu, rate) in enumerate(ratios, start=1)
        for one in (feature(features.DEFAULT, 100, 100, run), feature(variant, 100 * cpu, 100 * rate, run))
    ]


TIMED = {
    "measure": "feature-timed",
    "cpu_seconds_after_first_look": {"driver": 40, "jvm": 60, "bench": 900},
    "metered_cpu_seconds": {"metrics": 0.4, "accounting": 0.1, "guard": 0.9},
    "correct": True,
}


def test_what_features_cost_and_what_was_timed_together() -> None:
    done = [*rounds(features.GUARD, (0.9, 1.1), (1.1, 0.8), (0.95, 1.2)), TIMED]
    assert features.shares(done) == pytest.approx({"metrics": 0.4, "accounting": 0.1, "guard": 0.9})
    section = features.section(done, "")
    together, rollups = section.goals
    assert (together.found, together.verdict, rollups.verdict) == (pytest.approx(1.4), "reached", "not judged")
    usual, unguarded = tables(section)["With one thing changed"].rows
    assert usual == [features.DEFAULT, "100.00", "", "100", "", "0.0", "right"]
    assert unguarded[1:5] == ["95.00", "0.95 (0.90 - 1.10)", "110", "1.10 (0.80 - 1.20)"]
    assert tables(section)["Timed"].rows[0] == ["metrics", "0.40"]
    done[1]["correct"] = False
    section = features.section(done, "")
    assert tables(section)["With one thing changed"].rows[1][-1] == "WRONG"
    assert {goal.verdict for goal in section.goals} == {"not judged"}
    assert features.shares([{**TIMED, "correct": False}]) == {}


def test_settings_of_a_variant_keep_the_rest_of_their_section() -> None:
    known = {"lane": "bench", "source": {"topics": ["t"], "compiled": True}, "delivery": "exactly-once"}
    assert merged(known, {"source": {"compiled": False}, "guard": {"enabled": False}, "delivery": "at-least-once"}) == {
        "lane": "bench",
        "source": {"topics": ["t"], "compiled": False},
        "guard": {"enabled": False},
        "delivery": "at-least-once",
    }


def test_what_two_rollups_cost() -> None:
    def goal(*rates: float) -> Goal:
        return features.section(rounds(features.WITH_ROLLUPS, *((1.0, rate) for rate in rates)), "").goals[1]

    assert (goal(0.8, 0.9, 0.7).found, goal(0.8, 0.9, 0.7).verdict) == (20.0, "reached")
    assert (goal(0.6, 0.9, 0.6).found, goal(0.6, 0.9, 0.6).verdict) == (40.0, "MISSED")


def test_a_windowed_count_is_compared_with_the_better_setting_of_flink() -> None:
    seconds = {windows.SURELANE: 30.0, windows.FLINK: 40.0, windows.FLINK_PARALLEL: 25.0}
    what = {"measure": "windows", "run": 1, "correct": True}
    done = [{**what, "system": name, "seconds": taken} for name, taken in seconds.items()]
    (goal,) = windows.section(done).goals
    assert (goal.found, goal.verdict) == (1.2, "MISSED")
    done[2] = {**done[2], "correct": False, "error": "SystemFailed: gone"}
    (goal,) = windows.section(done).goals
    assert goal.verdict == "not judged"
    table = tables(windows.section(done))["Windows"]
    assert table.rows[2] == [windows.FLINK_PARALLEL, "1", "", "25.0", "", "", "failed: SystemFailed: gone"]


def test_the_sections_of_costs(tmp_path: Path) -> None:
    (axis,) = axes(["tables"], 0.01)
    figures = {"value_bytes": 7_920_000, "epochs": 20, "rate": 70_000, "other_load": 0.3}
    runs = [(12.5, 500), (10.0, 600), (13.0, 400)]
    one, ten, hundred = axis.cases.values()
    done = [
        {**cost(microseconds, **figures, peak_megabytes={"driver": driver}), **case.fields, "run": run}
        for case in (one, ten)
        for run, (microseconds, driver) in enumerate(runs, start=1)
    ]
    done.append({**hundred.fields, "run": 1, "correct": False, "error": "SystemFailed: it ended\nlog"})
    section = costs.section(axis, done)
    table = tables(section)["Sizes"]
    assert table.rows[0][:7] == ["1", "10,000", "792", "20", "70,000", "12.5", "12.5"]
    assert table.rows[0][-4:] == ["600", "", "0.3, noisy", "right"]
    assert table.rows[2][-1] == "failed: SystemFailed: it ended"
    assert all(len(row) == len(table.columns) for row in table.rows)
    file = tmp_path / "COSTS.md"
    page.put(file, section, "./run bench-costs")
    text = file.read_text()
    assert "<!-- costs-tables: begin -->" in text
    assert "\nTables: not judged." in text
    assert f"| {section.goals[0].what} | at most 1.5 times |  | not judged |" in text


def test_when_a_killed_lane_is_back() -> None:
    # ten messages a second; killed at 5 s, seen again from 9 s on
    load = restart.Load(rate=10, before=5, after=10)
    sent = np.arange(150) / 10
    looks = [(second / 10 + 0.1, second) for second in range(1, 51)]
    looks += [(9.0, 60), (9.5, 80), (10.0, 95), (10.2, 101), (10.25, 102), (15.1, 150)]
    sightings = Sightings(at=[at for at, _ in looks], newest=[end for _, end in looks])
    paced = Paced(sent_at=sent, expected={})
    back = restart.back(sightings, paced, load, restarted=5.2, first_epoch=9.0)
    assert back["first_epoch_seconds"] == 3.8
    assert back["caught_up_seconds"] == pytest.approx(10.0 - 5.2)
    assert back["before_p99_milliseconds"] == pytest.approx(200, abs=1)
    # what came at 10.25 had been sent at 10.1
    assert back["as_before_seconds"] == pytest.approx(10.25 - 5.2)


def test_medians_of_the_kills() -> None:
    kills = [dict(zip(restart.FIGURES, (first, 9.0, None), strict=True)) for first in (4.0, 6.0, 11.0)]
    done = [{**kill, "correct": True, "run": number, "messages": 1} for number, kill in enumerate(kills, start=1)]
    section = restart.section(done)
    assert tables(section)["Restarts"].rows[-1] == ["median", "6.0", "9.0", "", "", "", "", ""]
    assert [(goal.found, goal.verdict) for goal in section.goals] == [(6.0, "MISSED"), (9.0, "reached")]
    section = restart.section([*done, {"correct": False, "run": 4, "error": "gone\nfor good"}])
    assert [goal.verdict for goal in section.goals] == ["not judged", "not judged"]
    assert [row[-1] for row in tables(section)["Restarts"].rows[-2:]] == ["failed: gone", ""]


def test_medians_of_the_starts() -> None:
    def started(mode: str, visible: float, **fields: Any) -> dict[str, Any]:
        marks = {**dict.fromkeys(start.MARKS, 1.0), "visible": visible}
        return {"measure": "start", "mode": mode, "seconds": marks, "correct": True, "run": 1, **fields}

    done = [started("two-phase", seconds, run=run) for run, seconds in enumerate((6.0, 4.0, 4.5))]
    done.append(started("ledger", 9.0))
    section = start.section(done)
    assert tables(section)["Starts"].rows[-2][:7] == ["median", "two-phase", *["1.00"] * 4, "4.50"]
    assert [(goal.found, goal.verdict) for goal in section.goals] == [(4.5, "reached")]
    wrong = [*done, started("ledger", 1.0, correct=False)]
    assert [goal.verdict for goal in start.section(wrong).goals] == ["not judged"]
    alone = start.section([started("two-phase", 5.1)])
    assert [goal.verdict for goal in alone.goals] == ["MISSED"]
    assert len(tables(alone)["Starts"].rows) == 1


def test_what_fails_is_a_row() -> None:
    def fails() -> dict[str, object]:
        raise SystemFailed("the lane ended")

    rehearse("what fails", fails)  # is left to what counts
    row = tried({"messages": 5}, fails)
    assert row == {"messages": 5, "correct": False, "error": "SystemFailed: the lane ended"}
    assert tried({"messages": 5}, lambda: {"correct": True}) == {"messages": 5, "correct": True}


def test_each_section_of_a_page_is_written_by_itself(tmp_path: Path) -> None:
    """What is written by hand stays, and where a section is."""
    file = tmp_path / "docs/COSTS.md"
    table = Table("Rows", ("a", "b"), [("1", "2")])
    page.put(file, Section("one", "One", ["first", table]), "./run one")
    file.write_text(file.read_text() + "\nBy hand.\n")
    page.put(file, Section("two", "Two", [r"back\1slash"]), "./run two")
    page.put(file, Section("one", "One", ["second"]), "./run one")
    text = file.read_text()
    assert text.startswith("# Costs")
    assert "first" not in text
    assert text.index("second") < text.index("By hand.") < text.index(r"back\1slash")
    assert text.count("## One") == text.count("## Two") == 1


def test_the_soaks_section_has_its_picture(tmp_path: Path) -> None:
    samples = [sample(minute * MINUTE, jvm=400 + minute) for minute in range(61)]
    result = {"messages": 5, "rate": 1000, "every": 10.0, "correct": True, "prepared_left": 0}
    page.put(tmp_path / "COSTS.md", soak.section(result, samples), "./run bench-soak")
    text = (tmp_path / "COSTS.md").read_text()
    assert "](soak.svg)" in text
    assert "| growth of memory, jvm | at most 40 MB/h | 60.00 | MISSED |" in text
    drawn = ElementTree.fromstring((tmp_path / "soak.svg").read_text())
    assert [len((one.get("points") or "").split()) for one in drawn.findall("{*}polyline")] == [61] * 3


def test_a_failed_soak_is_written_too(tmp_path: Path) -> None:
    result = {"messages": 5, "rate": 1000, "every": 10.0, "correct": False, "error": "SystemFailed: gone"}
    page.put(tmp_path / "COSTS.md", soak.section(result, []), "./run bench-soak")
    text = (tmp_path / "COSTS.md").read_text()
    assert "WRONG" in text
    assert "SystemFailed: gone" in text


def test_more_than_the_machine_has_is_no_figure() -> None:
    """A process that was there before the measurement has to be counted from there on."""
    start, end = (Snapshot(at=at, cpu=cpu, busy=at, stolen=0.0) for at, cpu in ((0.0, {}), (10.0, {"client": 9.0})))
    assert end.since(start) == {"cpu_seconds": {"client": 9.0}, "other_load": 0.1, "stolen_load": 0.0}
    with pytest.raises(ValueError, match="more CPU seconds"):
        replace(end, cpu={"client": 43.0}).since(start)
