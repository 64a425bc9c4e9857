"""The benchmark against others: what its runs come to, what is reached, and what it takes for a failure."""

import datetime
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tools.bench.peers import chart, child, debezium, goals, look, page, report, rows, suite, summary
from tools.bench.peers.child import PeerFailed
from tools.bench.peers.drain import messages_until
from tools.bench.peers.latency import EARLY, Inserts, Sightings
from tools.bench.peers.page import Place
from tools.bench.peers.system import System
from tools.bench.peers.target import TABLE

from tools.bench.tables import BEGIN_MICROS
from tools.bench.workload import SENTINEL, Kind, Workload, key_of, value_of

OWN, TABLE_PEER, CEILING = System.SURELANE, System.FLINK_TABLE, System.CEILING
BEGIN = datetime.datetime.fromtimestamp(BEGIN_MICROS // 1_000_000, datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def drained(system: System, rate: int | None, *, cpu: float = 1.0, **fields: Any) -> dict[str, Any]:
    """One run of 1,000,000 messages."""
    used = {"postgres": 2.0, "kafka": 1.0, "bench": 99.0, "driver": cpu / 2, "jvm": cpu / 2}
    result = {"measure": summary.DRAIN, "system": str(system), "workload": "uniform", "messages": 1_000_000, "run": 1}
    return (
        result | {"rate": rate, "rate_from_start": 10, "cpu_seconds": used, "correct": True, "other_load": 0.0} | fields
    )


def held(system: System, p50: float, p99: float, *, correct: bool = True) -> dict[str, Any]:
    """One run at a rate."""
    result = {"measure": summary.LATENCY, "system": str(system), "asked_rate": 1000, "correct": correct}
    return result | {"p50_milliseconds": p50, "p99_milliseconds": p99, "max_milliseconds": p99 + 1, "other_load": 0.3}


def verdicts(*done: dict[str, Any]) -> dict[str, goals.Verdict]:
    return {verdict.goal.what: verdict for verdict in goals.judged(summary.drains(done))}


def test_medians_of_the_runs() -> None:
    done = [drained(OWN, rate, cpu=rate / 10, messages=2_000_000) for rate in (10, 90, 20)]
    (found,) = summary.drains(done).values()
    assert (found.runs, found.rate, found.slowest, found.fastest) == (3, 20, 10, 90)
    # for one million of two; the benchmark's own belongs to no system
    assert found.cpu == {"client": 1.0, "postgres": 1.0, "kafka": 0.5}
    assert found.cpu_total == 2.5
    assert found.right


def test_what_one_more_message_costs() -> None:
    later = {
        "messages_at_first_look": 600_000,
        "cpu_seconds_after_first_look": {"jvm": 1.5, "kafka": 0.5, "bench": 9.0},
    }
    (found,) = summary.drains([drained(OWN, 10, **later)]).values()
    assert found.cpu_after_start == 5.0


def test_wrong_runs_are_not_counted_and_make_the_system_wrong() -> None:
    failed = {"measure": summary.DRAIN, "system": "surelane", "workload": "uniform", "messages": 1_000_000}
    done = [drained(OWN, 10), drained(OWN, 1000, correct=False), {**failed, "correct": False, "error": "ended"}]
    (found,) = summary.drains(done).values()
    assert (found.runs, found.rate, found.right) == (1, 10, False)


def test_a_system_that_was_never_right_has_no_figures() -> None:
    (found,) = summary.drains([drained(OWN, 10, correct=False)]).values()
    assert (found.runs, found.rate, found.rate_from_start, found.cpu_total) == (0, None, None, None)


def test_workloads_are_kept_apart() -> None:
    found = summary.drains([drained(OWN, 10), drained(OWN, 20, workload="hot")])
    assert {kind: one.rate for (_, kind, _), one in found.items()} == {Kind.UNIFORM: 10, Kind.HOT: 20}


def test_latency_is_the_median_of_quantiles_and_the_worst_of_all() -> None:
    done = [held(OWN, 10, 100), held(OWN, 30, 200), held(OWN, 20, 900), held(OWN, 1, 1, correct=False)]
    (found,) = summary.latencies(done)
    assert (found.runs, found.p50, found.p99, found.worst, found.right) == (3, 20, 200, 901, False)


@pytest.mark.parametrize(("rate", "reached"), [(279, False), (280, True), (281, True)])
def test_a_rate_is_reached_from_its_limit_on(rate: int, reached: bool) -> None:
    own = drained(OWN, rate, rate_from_start=300)
    verdict = verdicts(own, drained(TABLE_PEER, 100, rate_from_start=100))["rate against Flink's JDBC table"]
    assert verdict.worst == (rate / 100,) * 3
    assert verdict.reached is reached


def test_the_worst_of_counts_and_of_beginnings_is_judged() -> None:
    """From the first row, and from process start; each number of messages by itself."""

    def pair(count: int, first: int, start: int) -> list[dict[str, Any]]:
        own = drained(OWN, first, rate_from_start=start, messages=count)
        return [own, drained(TABLE_PEER, 100, rate_from_start=100, messages=count)]

    def verdict(*done: dict[str, Any]) -> goals.Verdict:
        return verdicts(*done)["rate against Flink's JDBC table"]

    both = [*pair(1_000_000, 500, 300), *pair(2_000_000, 600, 400)]
    assert list(verdict(*both).found) == [
        *("1,000,000 from the first row", "1,000,000 from process start"),
        *("2,000,000 from the first row", "2,000,000 from process start"),
    ]
    assert verdict(*both).worst == (3.0, 3.0, 3.0)
    assert verdict(*both).reached
    assert not verdict(*pair(1_000_000, 500, 270), *pair(2_000_000, 600, 400)).reached
    assert not verdict(*pair(1_000_000, 500, 300), *pair(2_000_000, 270, 400)).reached
    failed = [*both[:3], {**both[3], "correct": False}]
    assert (verdict(*failed).worst, verdict(*failed).reached) == (None, False)


@pytest.mark.parametrize(("cpu", "reached"), [(0.5, True), (1.5, True), (2.0, False)])
def test_a_cost_is_reached_up_to_its_limit(cpu: float, reached: bool) -> None:
    verdict = verdicts(drained(OWN, 1, cpu=cpu), drained(TABLE_PEER, 1, cpu=7.0))[
        "CPU a message against Flink's JDBC table"
    ]
    assert verdict.worst == ((cpu + 3) / 10,) * 3
    assert verdict.reached is reached


def test_ratios_are_of_the_same_runs() -> None:
    """Machine twice as slow in the second run, in the third for one of them only; a wrong run takes its ratio along."""
    own, others = (
        [drained(system, rate, cpu=cost, run=run) for run, (rate, cost) in enumerate(runs, start=1)]
        for system, runs in (
            (OWN, ((90, 3.0), (45, 9.0), (80, 3.0), (20, 3.0))),
            (TABLE_PEER, ((60, 7.0), (30, 21.0), (20, 3.0), (20, 3.0))),
        )
    )
    first, second = (
        summary.drains(done)[who, Kind.UNIFORM, 1_000_000] for done, who in ((own, OWN), (others, TABLE_PEER))
    )
    assert summary.ratio(first, second, summary.rate) == (1.5, 1.0, 4.0)
    assert summary.ratio(first, second, summary.cpu) == (0.8, 0.5, 1.0)
    assert summary.ratio(first, second, summary.cpu_after_start) is None
    others[2]["correct"] = False
    wrong = summary.drains(others)[TABLE_PEER, Kind.UNIFORM, 1_000_000]
    assert summary.ratio(first, wrong, summary.rate) == (1.5, 1.0, 1.5)
    table = rows.drains(summary.drains(own + others[:2]))
    assert "1.50" in [row[table.columns.index("ratio")] for row in table.rows]
    table = rows.drains(summary.drains(own + others))
    assert [row[table.columns.index("ratio")] for row in table.rows] == ["", ""], "a system was wrong"
    others[2]["correct"] = True
    table = rows.drains(summary.drains(own + others))
    assert "1.50 (1.00 - 4.00)" in [row[table.columns.index("ratio")] for row in table.rows]


def test_what_was_disturbed_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quietest counts; what is wrong counts in any case, and what failed is not tried again."""
    monkeypatch.chdir(tmp_path)  # every measurement is written down
    loads = [(0.5, 0.1, True), (0.0, 0.2, True), (0.0, 0.0, True)]

    def measured(*attempts: tuple[float, float, bool]) -> tuple[int, float, bool]:
        results = [{"other_load": other, "stolen_load": stolen, "correct": right} for other, stolen, right in attempts]
        what = {"system": "surelane", "workload": "uniform", "messages": 10, "run": 1}
        found = suite.measured(suite.Task(name=summary.DRAIN, what=what, measure=iter(results).__next__), "1/1")
        return found["attempts"], found["other_load"] + found["stolen_load"], found["correct"]

    assert measured(*loads) == (2, 0.2, True)
    assert measured((0.9, 0.0, True), (0.0, 0.4, True), (0.3, 0.0, True)) == (3, 0.3, True)
    assert measured((0.9, 0.0, True), (0.0, 0.4, True), (0.0, 0.5, True), (0.0, 0.0, True)) == (3, 0.4, True)
    assert measured((0.9, 0.0, True), (0.0, 0.0, False)) == (2, 0.0, False)
    assert measured((0.9, 0.0, False), (0.0, 0.0, True)) == (1, 0.9, False)


def test_only_what_was_measured_is_judged() -> None:
    found = verdicts(drained(OWN, 60), drained(CEILING, 100), drained(OWN, 61, workload="hot"))
    assert {what: verdict.reached for what, verdict in found.items()} == {
        "rate against the ceiling": True,
        "rate of hot rows against uniform ones": True,
    }


def test_nothing_is_judged_by_a_wrong_table() -> None:
    found = verdicts(drained(OWN, 1000), drained(OWN, 1000, correct=False), drained(TABLE_PEER, 1))
    assert [(verdict.worst, verdict.reached) for verdict in found.values()] == [(None, False)] * 2


def test_tables_say_ratios_verdicts_and_what_is_wrong() -> None:
    done = [
        drained(OWN, 300),
        drained(TABLE_PEER, 100),
        drained(CEILING, 600),
        drained(System.FLINK_XA, 1, correct=False),
    ]
    found = summary.drains(done)
    shown = {row[2]: row for row in rows.drains(found).rows}
    column = rows.drains(found).columns.index("ratio")
    assert {system: row[column] for system, row in shown.items()} == {
        "surelane": "",
        "flink-table": "3.00",
        "flink-xa": "",
        "ceiling": "0.50",
    }
    assert "WRONG" in shown["flink-xa"]
    assert [(row[0], row[-1]) for row in rows.goals(found).rows] == [
        ("rate against Flink's JDBC table", "MISSED"),
        ("rate against Flink over XA", "not judged"),
        ("CPU a message against Flink's JDBC table", "MISSED"),
        ("CPU a message against Flink over XA", "not judged"),
        ("rate against the ceiling", "MISSED"),
    ]
    assert all(len(row) == len(table.columns) for table in report.tables(done) for row in table.rows)


def test_the_page_has_all_tables_and_its_picture(tmp_path: Path) -> None:
    done = [drained(OWN, 300), drained(TABLE_PEER, 100), held(OWN, 10, 20)]
    place = Place(command="./run bench-peers", messages=[1_000_000], runs=1, seconds=30, postgres="PostgreSQL 15.1")
    page.write(tmp_path / "docs/PAGE.md", done, place)
    text = (tmp_path / "docs/PAGE.md").read_text()
    assert "`./run bench-peers`" in text
    assert "| uniform | 1,000,000 | flink-table | 100 |" in text
    assert f"- `surelane`: {OWN.described}" in text
    assert "| surelane | 1,000 | 10 | 20 | 21 | right | 0.3, noisy |" in text
    assert f"]({page.PICTURE})" in text
    assert "made again" not in text
    assert "Of 3 measurements 1 were" in page.text([*done[:2], done[2] | {"attempts": 2}], place)
    picture = ElementTree.fromstring((tmp_path / "docs" / page.PICTURE).read_text())
    # the background, and two bars for each system
    assert len(picture.findall("{*}rect")) == 1 + 2 * 2


def test_the_picture_shows_every_system() -> None:
    done = [drained(OWN, None), drained(TABLE_PEER, 100, correct=False)]
    picture = ElementTree.fromstring(chart.rates(summary.drains(done)))
    words = [text.text for text in picture.findall("{*}text")]
    assert words[-4:] == ["surelane", "10", "flink-table", "no run was right"]


def test_a_picture_of_nothing_is_a_picture() -> None:
    assert ElementTree.fromstring(chart.rates({})).tag.endswith("svg")


def test_each_run_begins_with_another_system() -> None:
    systems = [OWN, TABLE_PEER, CEILING]
    assert [suite.turned(systems, number)[0] for number in (1, 2, 3, 4)] == [*systems, OWN]
    assert suite.turned(systems, 2) == [TABLE_PEER, CEILING, OWN]


def test_rows_say_how_many_messages_there_were() -> None:
    workload = Workload(Kind.UNIFORM.shape, 300)
    for ordinal, change in enumerate(workload):
        if change.after and (updated_at := change.after[-1]):
            since = datetime.datetime.fromisoformat(updated_at) - BEGIN
            assert messages_until(BEGIN_MICROS + since // MICROSECOND) == ordinal + 1


def test_inserts_are_dated_by_the_highest_key() -> None:
    sightings = Sightings(at=[10.0, 11.0], newest=[2, 5])
    keys, sent_at = np.array([1, 2, 3, 5, 6]), np.array([9.0, 9.5, 9.0, 10.5, 10.9])
    assert sightings.seconds(keys, sent_at).tolist() == [1.0, 0.5, 2.0, 0.5]


def test_inserts_of_a_workload() -> None:
    found = Inserts.of(200)
    changes = list(Workload(Kind.UNIFORM.shape, 200))
    assert [changes[ordinal].id for ordinal in found.ordinals] == found.keys.tolist()
    assert [changes[ordinal].op for ordinal in found.ordinals] == ["c"] * len(found.keys)
    assert SENTINEL not in found.keys
    assert sorted(found.keys) == found.keys.tolist()
    assert len(EARLY) == len(TABLE.columns)


def test_the_schema_of_the_worker_has_every_field_of_a_message() -> None:
    change = next(iter(Workload(Kind.UNIFORM.shape, 2)))
    schema = debezium.value_schema()
    assert _names(schema) == list(json.loads(value_of(change, 0, BEGIN_MICROS)))
    image, source = (_field(schema, name) for name in ("after", "source"))
    assert _names(image) == list(TABLE.columns)
    assert _names(source) == list(json.loads(value_of(change, 0, BEGIN_MICROS))["source"])
    assert _names(debezium.key_schema()) == list(json.loads(key_of(change)))


def _names(schema: Any) -> list[str]:
    return [field["field"] for field in schema["fields"]]


def _field(schema: Any, name: str) -> Any:
    return next(field for field in schema["fields"] if field["field"] == name)


def test_a_peer_that_ends_is_a_failure_with_its_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such topic')"]
    with child.running(command, tmp_path) as peer, pytest.raises(PeerFailed, match="no such topic"):
        look.until(lambda: None, peer, "a row", every=0.01, seconds=60)


def test_a_peer_that_gives_up_is_a_failure_though_it_lives(tmp_path: Path) -> None:
    ending = [sys.executable, "-c", "import signal; print('Task is being killed', flush=True); signal.pause()"]
    with child.running(ending, tmp_path, debezium.GIVEN_UP) as peer:
        with pytest.raises(PeerFailed, match="has given up"):
            look.until(lambda: None, peer, "a row", every=0.01, seconds=60)
        assert peer.process.poll() is None
    assert peer.process.poll() is not None


def test_a_peer_that_does_nothing_is_a_failure(tmp_path: Path) -> None:
    waiting = [sys.executable, "-c", "import signal; signal.pause()"]
    with child.running(waiting, tmp_path) as peer, pytest.raises(PeerFailed, match="waiting for a row"):
        look.until(lambda: None, peer, "a row", every=0.01, seconds=0.05)
