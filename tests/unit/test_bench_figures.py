"""What the benchmark's own commands make of their figures: growth, verdicts, goals, and the page they write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fix_bench import PLAN
from tools.bench import costs, features, kill, page, soak, start, windows
from tools.bench.axes import AXES, BASE, BASE_EPOCH, JVM_LIMIT, LONG_ROWS, growth, memory, scaled
from tools.bench.groups import Group
from tools.bench.latency import Sightings
from tools.bench.page import Goal, Section, Table, bar, sparkline
from tools.bench.results import rehearse, tried
from tools.bench.samples import CHECKPOINT_FILES_LIMIT, GROWTH_LIMITS, Sample, growth_goals, hourly, second_half, slope
from tools.devstack.sections import merged
from tools.peers.child import SystemFailed
from tools.peers.systems import CEILING, LEDGER, SURELANE
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


def cost(cpu: float | None, *, correct: bool = True, system: str = SURELANE, **fields: Any) -> dict[str, Any]:
    """CPU seconds of a million messages, which are a gigabyte."""
    used = {} if cpu is None else {"jvm": cpu, "bench": 99.0}
    figures = {"cpu_seconds": used, "cpu_seconds_after_first_look": used, "messages": 1_000_000, "value_bytes": 10**9}
    peaks = {"supervisor": 40, "driver": 500, "jvm": 900, "tasks": 700}
    what = {"system": system, "run": 1, "row_bytes": None, "correct": correct, "other_load": 0.0}
    return {**what, **figures, "peak_megabytes": peaks, **fields}


def sizes(*costs: dict[str, Any]) -> list[Group]:
    """One run of each size."""
    return [Group([one]) for one in costs]


def grown(axis: str, *costs: float | None, alone: Sequence[float | None] | None = None) -> Goal:
    """The goal, by the costs of a lane and of the ceiling at each size; None: it failed."""
    ceilings = sizes(*(cost(one, system=CEILING, correct=one is not None) for one in alone or []))
    return growth(axis, list(zip(sizes(*map(cost, costs)), ceilings or [None] * len(costs), strict=True)))


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
    goal = grown("epoch-messages", 90, 30, 20, 22)
    assert (goal.found, goal.verdict) == (1.1, "reached")


def test_dearer_at_any_larger_size_is_not() -> None:
    goal = grown("columns", 20, 10, 16, 11)
    assert (goal.found, goal.verdict) == (1.6, "MISSED")


def test_where_the_ceiling_grows_as_much_is_granted() -> None:
    def judged(*costs: float, alone: Sequence[float | None]) -> tuple[float | None, float, str]:
        goal = grown("row-bytes", *costs, alone=alone)
        return goal.found, goal.limit, goal.verdict

    assert judged(10, 16, 18, alone=(5, 10, 10)) == (1.8, 2.0, "reached")
    assert judged(10, 16, 27, alone=(5, 10, 10)) == (2.7, 2.0, "MISSED"), "more than that"
    assert judged(10, 16, 30, alone=(5, 5, 20)) == (1.6, 1.5, "MISSED"), "3.0 are granted 4.0"
    assert judged(10, 18, alone=(5, 19)) == (1.8, 1.5, "MISSED"), "no ceiling"
    assert judged(10, 12, alone=(5, None)) == (None, 1.5, "not judged"), "the ceiling failed"


def test_a_row_that_failed_judges_nothing() -> None:
    failed = [[cost(10), cost(10, correct=False)], [cost(10), cost(None)], [cost(10)], []]
    for rows in failed:
        goal = growth("tables", [(one, None) for one in sizes(*rows)])
        assert (goal.found, goal.verdict) == (None, "not judged")


def test_memory_is_judged_by_the_longest_rows() -> None:
    assert memory(sizes(cost(1))) == []
    long = cost(1, row_bytes=LONG_ROWS, peak_megabytes={"driver": 900, "jvm": JVM_LIMIT + 1, "tasks": 9})
    driver, tasks, jvm = memory(sizes(cost(1, peak_megabytes={"driver": 9000, "jvm": 9}), long))
    assert (driver.found, driver.verdict, tasks.found, jvm.verdict) == (900, "reached", 9, "MISSED")
    assert {goal.verdict for goal in memory(sizes({**long, "correct": False}))} == {"not judged"}


def test_each_axis_varies_one_thing() -> None:
    cases = {name: axis.cases() for name, axis in AXES.items()}
    for name, axis in AXES.items():
        assert len(cases[name]) >= 3
        assert [case.fields[axis.field] for case in cases[name]] == list(axis.sizes)
    assert BASE in cases["messages"]
    assert BASE in cases["tables"]
    assert BASE in cases["epoch-messages"]
    assert {case.shape for case in cases["messages"]} == {BASE.shape}
    short, *_, long = cases["row-bytes"]
    assert long.messages < short.messages / 50
    assert [(case.epoch, case.messages) for case in cases["epoch-messages"]] == [
        *((100, 20_000), (1000, 200_000), (10_000, 1_000_000)),
        *((BASE_EPOCH, 1_000_000), (500_000, 3_000_000)),
    ]


def test_scaled_down_it_is_the_same_in_small() -> None:
    cases = AXES["epoch-messages"].cases(0.01)
    small = [(20, 2000), (100, 10_000), (1000, 10_000), (5000, 30_000)]
    assert [(case.epoch, case.messages) for case in cases] == small
    assert scaled(BASE, 0.01).shape.most_rows == 2000


def rounds(variant: str, *ratios: tuple[float, float]) -> list[dict[str, Any]]:
    """The default at 100 µs and 100 messages/s in each run, and a variant at these of its figures."""
    return [
        cost(100 * cpu, variant=name, rate=100 * rate, run=run, epoch_messages=100)
        for run, ratio in enumerate(ratios, start=1)
        for name, (cpu, rate) in ((features.DEFAULT, (1, 1)), (variant, ratio))
    ]


def section_of(done: list[dict[str, Any]]) -> Section:
    (found,) = features.sections(PLAN, done)
    return found


METERED = {"metrics": 0.4, "accounting": 0.1, "guard": 0.9}
USED = {"driver": 40, "jvm": 60, "bench": 900}


def test_what_features_cost_and_what_was_timed_together() -> None:
    timed = cost(1, variant=features.TIMED, metered_cpu_seconds=METERED, cpu_seconds_after_first_look=USED)
    done = [*rounds(features.GUARD, (0.9, 1.1), (1.1, 0.8), (0.95, 1.2)), timed]
    assert features.shares(Group([timed])) == pytest.approx(METERED)
    section = section_of(done)
    together, rollups = section.goals
    assert (together.found, together.verdict, rollups.verdict) == (pytest.approx(1.4), "reached", "not judged")
    usual, unguarded = tables(section)["With one thing changed"].rows
    assert usual == [features.DEFAULT, "100.00", "", "100", "", "right", "0.0"]
    assert unguarded[1:5] == ["95.00", "0.95 (0.90 - 1.10)", "110", "1.10 (0.80 - 1.20)"]
    assert tables(section)["Timed"].rows[0] == ["metrics", "0.40"]
    done[1]["correct"] = False
    section = section_of(done)
    assert "WRONG" in tables(section)["With one thing changed"].rows[1]
    assert {goal.verdict for goal in section.goals} == {"not judged"}
    assert features.shares(Group([{**timed, "correct": False}])) == {}


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
        return section_of(rounds(features.WITH_ROLLUPS, *((1.0, rate) for rate in rates))).goals[1]

    assert (goal(0.8, 0.9, 0.7).found, goal(0.8, 0.9, 0.7).verdict) == (20.0, "reached")
    assert (goal(0.6, 0.9, 0.6).found, goal(0.6, 0.9, 0.6).verdict) == (40.0, "MISSED")


def test_a_windowed_count_is_compared_with_the_better_setting_of_flink() -> None:
    seconds = {windows.SURELANE: 30.0, windows.FLINK: 40.0, windows.FLINK_PARALLEL: 25.0}
    done = [cost(1, system=name, seconds=taken) for name, taken in seconds.items()]
    (section,) = windows.sections(PLAN, done)
    assert [(goal.found, goal.verdict) for goal in section.goals] == [(1.2, "MISSED")]
    done[2] = {**done[2], "correct": False, "error": "SystemFailed: gone"}
    (section,) = windows.sections(PLAN, done)
    assert section.goals[0].verdict == "not judged"
    assert tables(section)["Windows, medians"].rows[2][-2] == "failed: SystemFailed: gone"


def test_the_sections_of_costs(tmp_path: Path) -> None:
    cases = AXES["tables"].cases(0.01)
    figures = {"value_bytes": 7_920_000, "epochs": 20, "rate": 70_000, "other_load": 0.3}
    runs = [(0.125, 500), (0.1, 600), (0.13, 400)]
    one, ten, hundred = cases
    done = [
        {**cost(cpu, **figures, peak_megabytes={"driver": driver}), **case.fields, "run": run}
        for case in (one, ten)
        for run, (cpu, driver) in enumerate(runs, start=1)
    ]
    done.append({**hundred.fields, "system": SURELANE, "run": 1, "correct": False, "error": "SystemFailed: it ended\n"})
    done.append({**cost(0.05, system=CEILING, rate=90_000, value_bytes=7_920_000), **one.fields})
    section = costs.section("tables", cases, done)
    table = tables(section)["Sizes"]
    assert table.rows[0][:7] == ["1", "10,000", "792", "20", "70,000", "12.5", "15.8"]
    assert table.rows[0][7:] == ["", "600", "", "", "0.3, noisy", "90,000", "5.0", "6.3", "right"]
    assert table.rows[2][-1] == "failed: SystemFailed: it ended"
    wrong = [*done[:-1], {**done[-1], "correct": False}]
    assert tables(costs.section("tables", cases, wrong))["Sizes"].rows[0][-1] == "WRONG", "the ceiling was"
    file = tmp_path / "COSTS.md"
    page.put(file, section, "./run bench --measures costs")
    text = file.read_text()
    assert "<!-- costs-tables: begin -->" in text
    assert f"| {section.goals[0].what} | at most 1.5 times |  | not judged |" in text


def test_when_a_killed_lane_is_back() -> None:
    # ten messages a second; killed at 5 s, seen again from 9 s on
    load = kill.Load(rate=10, seconds=5)
    sent = np.arange(150) / 10  # it goes on for longer
    looks = [(second / 10 + 0.1, second) for second in range(1, 51)]
    looks += [(9.0, 60), (9.5, 80), (10.0, 95), (10.2, 101), (10.25, 102), (15.1, 150)]
    sightings = Sightings(at=[at for at, _ in looks], newest=[end for _, end in looks])
    paced = Paced(sent_at=sent, expected={})
    back = kill.back(sightings, paced, load, restarted=5.2, back_at=9.0)
    assert back["first_epoch_seconds"] == 3.8
    assert back["caught_up_seconds"] == pytest.approx(10.0 - 5.2)
    assert back["before_p99_milliseconds"] == pytest.approx(200, abs=1)
    # what came at 10.25 had been sent at 10.1
    assert back["as_before_seconds"] == pytest.approx(10.25 - 5.2)


def killed(first: float, run: int, **fields: Any) -> dict[str, Any]:
    what = {"asked_rate": 1000, "trigger": kill.AT_ONCE, "counted_messages": 2000, "messages_an_epoch": 40.0}
    back = {"first_epoch_seconds": first, "caught_up_seconds": 9.0, "as_before_seconds": None}
    return cost(1.0, run=run, **(what | back | fields))


def test_medians_of_the_kills() -> None:
    done = [killed(first, number) for number, first in enumerate((4.0, 6.0, 11.0), start=1)]
    (section,) = kill.sections(PLAN, [*done, killed(30.0, 1, trigger="10 seconds")])
    table = tables(section)["Kills, medians"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["CPU ms for 1,000"], row["first new epoch, s"], row["from - to"]) == ("500", "6.0", "4.0 - 11.0")
    assert (row["lag under 1 s, s"], row["as before, s"]) == ("9.0", "")
    assert [(goal.found, goal.verdict) for goal in section.goals] == [(6.0, "MISSED"), (9.0, "reached")]
    (section,) = kill.sections(PLAN, [*done, killed(1.0, 4, correct=False, error="gone\nfor good")])
    assert [goal.verdict for goal in section.goals] == ["not judged", "not judged"]
    assert "failed: gone" in tables(section)["Kills, medians"].rows[0]


def test_medians_of_the_starts() -> None:
    def started(system: str, visible: float, **fields: Any) -> dict[str, Any]:
        return cost(1.0, system=system, seconds={**dict.fromkeys(start.MARKS, 1.0), "visible": visible}, **fields)

    def section(*done: dict[str, Any]) -> Section:
        (found,) = start.sections(PLAN, done)
        return found

    done = [started(SURELANE, seconds, run=run) for run, seconds in enumerate((6.0, 4.0, 4.5))]
    done.append(started(LEDGER, 9.0))
    usual, other = tables(section(*done))["Starts, medians"].rows
    assert usual[:7] == [SURELANE, *["1.00"] * 4, "4.50", "4.00 - 6.00"]
    assert other[5:7] == ["9.00", ""]
    assert [(goal.found, goal.verdict) for goal in section(*done).goals] == [(4.5, "reached")]
    assert section(*done, started(SURELANE, 1.0, correct=False)).goals[0].verdict == "not judged"
    assert section(started(SURELANE, 5.1)).goals[0].verdict == "MISSED"


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


def soaked(*runs: dict[str, Any]) -> Section:
    result = {"system": SURELANE, "messages": 5, "rate": 1000, "every": 10.0, "correct": True, "prepared_left": 0}
    (found,) = soak.sections(PLAN, [result | run for run in runs])
    return found


def test_the_soaks_section_shows_memory_over_time() -> None:
    section = soaked({"samples": [sample(minute * MINUTE, jvm=400 + minute) for minute in range(61)]})
    jvm = next(goal for goal in section.goals if goal.what == "growth of memory, jvm")
    assert (jvm.found, jvm.verdict) == (60.0, "MISSED")
    assert tables(section)["Memory (PSS)"].rows[2] == ["jvm", "▇" * 10 + "█" * 11, "400", "460"]


def test_a_failed_soak_is_written_too(tmp_path: Path) -> None:
    failed = {"correct": False, "error": "SystemFailed: gone", "samples": [sample(9.0), sample(10.0, files=7777)]}
    page.put(tmp_path / "PAGE.md", soaked(failed, {}), "./run bench --measures soak --runs 2")
    text = (tmp_path / "PAGE.md").read_text()
    assert "failed: SystemFailed: gone" in text
    assert "| files of the checkpoint | at most 1000 files | 7,777.00 | MISSED |" in text, "until then"
    assert "100,000 rows at most: right;" in text, "the second run"


def test_pictures_of_figures() -> None:
    assert [bar(value, 200.0) for value in (200.0, 100.0, 0.0, None)] == ["█" * 24, "█" * 12, "", ""]
    assert sparkline([0.0, 35.0, 70.0]) == "▁▅█"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert len(sparkline([1.0] * 1000)) <= 24


def test_more_than_the_machine_has_is_no_figure() -> None:
    """A process that was there before the measurement has to be counted from there on."""
    start, end = (Snapshot(at=at, cpu=cpu, busy=at, stolen=0.0) for at, cpu in ((0.0, {}), (10.0, {"client": 9.0})))
    assert end.since(start) == {"cpu_seconds": {"client": 9.0}, "other_load": 0.1, "stolen_load": 0.0}
    with pytest.raises(ValueError, match="more CPU seconds"):
        replace(end, cpu={"client": 43.0}).since(start)
