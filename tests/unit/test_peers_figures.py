"""The benchmark against others: what its runs come to, what is reached, and what it takes for a failure."""

import datetime
import json
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import ConfigInvalid
from tests.fix_bench import PLAN, echoing
from tools.bench import budget, drain_page, groups, latency_page, page
from tools.bench.drain import messages_until
from tools.bench.groups import Group
from tools.bench.latency import EARLY, Inserts, Sightings
from tools.bench.measures import of_measure
from tools.bench.page import Goal, Section
from tools.peers import child, debezium
from tools.peers.child import Child, SystemFailed
from tools.peers.lane import Epoch
from tools.peers.systems import CEILING, FLINK_TABLE, FLINK_XA, LEDGER, REPLICATION, SURELANE, SYSTEMS
from tools.testbed.distance import proxied
from tools.testbed.tables import BEGIN_MICROS, TABLE
from tools.testbed.workload import SENTINEL, Kind, Workload, key_of, value_of

OWN, TABLE_PEER = SURELANE, FLINK_TABLE
BEGIN = datetime.datetime.fromtimestamp(BEGIN_MICROS // 1_000_000, datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def drained(system: str, rate: int | None, *, cpu: float = 1.0, **fields: Any) -> dict[str, Any]:
    """One run of 1,000,000 messages."""
    used = {"postgres": 2.0, "kafka": 1.0, "bench": 99.0, "proxy": 50.0, "driver": cpu / 2, "jvm": cpu / 2}
    result = {"system": system, "workload": "uniform", "messages": 1_000_000, "run": 1}
    return (
        result | {"rate": rate, "rate_from_start": 10, "cpu_seconds": used, "correct": True, "other_load": 0.0} | fields
    )


def held(system: str, p50: float, p99: float, **fields: Any) -> dict[str, Any]:
    """One run at a rate."""
    what = {"system": system, "asked_rate": 1000, "messages": 30_000, "run": 1}
    found = {"p50_milliseconds": p50, "p99_milliseconds": p99, "max_milliseconds": p99 + 1, "other_load": 0.3}
    return {**what, **found, "cpu_seconds": {"jvm": 3.0}, "correct": True, **fields}


def drains(done: list[dict[str, Any]]) -> list[Group]:
    return groups.grouped(done, "system", "workload", "messages", "round_trip")


def sections(*done: dict[str, Any]) -> list[Section]:
    """Of drains and latencies."""
    rates, latencies = ([one for one in done if ("asked_rate" in one) is held] for held in (False, True))
    return [*drain_page.sections(PLAN, rates), *latency_page.sections(PLAN, latencies)]


def verdicts(*done: dict[str, Any]) -> dict[str, Goal]:
    return {goal.what: goal for section in sections(*done) for goal in section.goals}


def tables(*done: dict[str, Any]) -> dict[str, page.Table]:
    """By the first word of their titles."""
    parts = [part for section in sections(*done) for part in section.body]
    found = {part.title.split()[0].strip(":"): part for part in parts if isinstance(part, page.Table)}
    assert all(len(row) == len(table.columns) for table in found.values() for row in table.rows)
    return found


def test_medians_of_the_runs() -> None:
    done = [drained(OWN, rate, cpu=rate / 10, messages=2_000_000, run=rate) for rate in (10, 90, 20)]
    (found,) = drains(done)
    assert (found.median(groups.rate), sorted(found.all_of(groups.rate))) == (20, [10, 20, 90])
    # for one million of two; the benchmark's own, and the proxy's, belong to no system
    assert [found.median(groups.cpu_of(part)) for part in groups.PARTS] == [1.0, 1.0, 0.5]
    assert found.median(groups.cpu) == 2.5
    assert found.is_right


def test_what_one_more_message_costs() -> None:
    later = {
        "messages_at_first_look": 600_000,
        "cpu_seconds_after_first_look": {"jvm": 1.5, "kafka": 0.5, "bench": 9.0},
    }
    assert groups.cpu_after_start(drained(OWN, 10, **later)) == 5.0


def test_wrong_runs_are_not_counted_and_make_the_system_wrong() -> None:
    failed = {"system": OWN, "workload": "uniform", "messages": 1_000_000, "run": 3}
    done = [drained(OWN, 10), drained(OWN, 1000, correct=False, run=2), {**failed, "correct": False, "error": "ended"}]
    (found,) = drains(done)
    assert (found.all_of(groups.rate), found.is_right, found.state) == ([10], False, "WRONG")


def test_a_system_that_was_never_right_has_no_figures() -> None:
    (found,) = drains([drained(OWN, 10, correct=False)])
    assert [found.median(one) for one in (groups.rate, groups.rate_from_start, groups.cpu)] == [None] * 3


def test_workloads_are_kept_apart() -> None:
    found = drains([drained(OWN, 10), drained(OWN, 20, workload="hot")])
    assert {one.get("workload"): one.median(groups.rate) for one in found} == {Kind.UNIFORM: 10, Kind.HOT: 20}


def test_latency_is_the_median_of_quantiles_and_the_worst_of_all() -> None:
    done = [held(OWN, 10, 100), held(OWN, 30, 200, run=2), held(OWN, 20, 900, run=3)]
    (row,) = tables(*done, held(OWN, 1, 1, correct=False, run=4))["Latency"].rows
    assert row == ["1,000", OWN, "20", "200", "901", "100", "WRONG", "0.3, noisy"]


@pytest.mark.parametrize(("rate", "verdict"), [(279, "MISSED"), (280, "reached"), (281, "reached")])
def test_a_rate_is_reached_from_its_limit_on(rate: int, verdict: str) -> None:
    own = drained(OWN, rate, rate_from_start=300)
    goal = verdicts(own, drained(TABLE_PEER, 100, rate_from_start=100))["rate against Flink's JDBC table"]
    assert (goal.found, goal.verdict) == (rate / 100, verdict)


def test_the_worst_of_counts_and_of_beginnings_is_judged() -> None:
    """From the first row, and from process start; each number of messages by itself."""

    def pair(count: int, first: int, start: int) -> list[dict[str, Any]]:
        own = drained(OWN, first, rate_from_start=start, messages=count)
        return [own, drained(TABLE_PEER, 100, rate_from_start=100, messages=count)]

    def goal(*done: dict[str, Any]) -> Goal:
        return verdicts(*done)["rate against Flink's JDBC table"]

    both = [*pair(1_000_000, 500, 300), *pair(2_000_000, 600, 400)]
    assert goal(*both).detail == (
        "1,000,000 from the first row: 5.00; 1,000,000 from process start: 3.00; "
        "2,000,000 from the first row: 6.00; 2,000,000 from process start: 4.00"
    )
    assert (goal(*both).found, goal(*both).verdict) == (3.0, "reached")
    assert goal(*pair(1_000_000, 500, 270), *pair(2_000_000, 600, 400)).verdict == "MISSED"
    assert goal(*pair(1_000_000, 500, 300), *pair(2_000_000, 270, 400)).verdict == "MISSED"
    assert goal(*both[:3], {**both[3], "correct": False}).verdict == "not judged"


@pytest.mark.parametrize(("cpu", "verdict"), [(0.5, "reached"), (1.5, "reached"), (2.0, "MISSED")])
def test_a_cost_is_reached_up_to_its_limit(cpu: float, verdict: str) -> None:
    goal = verdicts(drained(OWN, 1, cpu=cpu), drained(TABLE_PEER, 1, cpu=7.0))[
        "CPU a message against Flink's JDBC table"
    ]
    assert (goal.found, goal.verdict) == (pytest.approx((cpu + 3) / 10), verdict)


def test_latency_is_judged_for_both_ways_of_exactly_once() -> None:
    slow = held(OWN, 41, 100, asked_rate=100)
    found = verdicts(held(OWN, 40, 101), held(LEDGER, 26, 70), slow, held(TABLE_PEER, 900, 900))
    assert {what: goal.verdict for what, goal in found.items()} == {
        "surelane, 100/s: p50": "MISSED",
        "surelane, 100/s: p99": "reached",
        "surelane, 1,000/s: p50": "reached",
        "surelane, 1,000/s: p99": "MISSED",
        "surelane-ledger, 1,000/s: p50": "MISSED",
        "surelane-ledger, 1,000/s: p99": "reached",
    }


def away(one: dict[str, Any], round_trip: float) -> dict[str, Any]:
    """Measured through a proxy, for which `SELECT 1` takes a tenth of a millisecond longer."""
    return {**one, "round_trip": round_trip, "select_milliseconds": round_trip + 0.1, "direct_milliseconds": 0.05}


def test_distance_is_judged_by_the_nearest() -> None:
    near = [away(drained(OWN, 100), 0.1), away(drained(TABLE_PEER, 90), 0.1), away(held(OWN, 50, 90), 0.1)]
    far = [away(drained(OWN, 84), 2.5), away(drained(TABLE_PEER, 9), 2.5), away(held(OWN, 64.3, 120), 2.5)]
    found = verdicts(*near, *far)
    assert {what: (goal.found, goal.verdict) for what, goal in found.items()} == {
        "drain at 2.5 ms to that at 0.1 ms: uniform, 1,000,000 messages": (0.84, "MISSED"),
        "p50 of surelane at 1,000/s grows from 0.1 to 2.5 ms by": (pytest.approx(5.96, abs=0.01), "reached"),
    }
    shown = tables(*near, *far)
    assert [[row[0], *row[3:6]] for row in shown["Messages/s"].rows] == [
        *([OWN, "0.1", "100", ""], [TABLE_PEER, "0.1", "90", ""]),
        *([OWN, "2.5", "84", "0.84"], [TABLE_PEER, "2.5", "9", "0.10"]),
    ]
    assert [row[2:7] for row in shown["Latency"].rows] == [
        ["0.1", "0.20", "50", "90", ""],
        ["2.5", "2.60", "64", "120", "6.0"],
    ]
    assert [goal.verdict for goal in verdicts(*near, {**far[0], "correct": False}).values()] == ["not judged"]
    assert verdicts(*near) == {}


def test_a_proxy_delays_and_keeps_every_byte() -> None:
    """Both ways, many bytes at once: they are under way together, and the delay is paid once."""
    sent = bytes(range(256)) * (4 << 12)
    with (
        echoing() as port,
        proxied(port, 200.0) as (through, _),
        socket.create_connection(("127.0.0.1", through)) as end,
    ):
        begin = time.monotonic()
        end.sendall(sent)
        end.shutdown(socket.SHUT_WR)
        found = b"".join(iter(lambda: end.recv(1 << 16), b""))
        taken = time.monotonic() - begin
    assert found == sent
    assert 0.2 <= taken < 2.0, (
        f"{len(sent) >> 18} pieces one after the other would take {len(sent) / (1 << 18) * 0.2} s"
    )


def test_where_a_latency_goes() -> None:
    """Two-phase: visible after its entry; one phase: visible before it."""
    sent = np.array([10.0, 10.1, 10.2, 10.3])
    steps, staging = {"stage": 5.0, "pre-commit": 2.0}, {"fetch": 1.0, "server": 3.0}
    within = {"of stage: fetch": 1.0, "of stage: server": 3.0}
    done = {**steps, "commit": 6.0}
    first = Epoch(number=1, began=10.17, at=10.25, messages=2, end=3, steps=done, staging=staging)
    second = Epoch(number=2, began=10.37, at=10.42, messages=2, end=5, steps=done, staging=staging)
    offsets, commits = {1: 10.15, 2: 10.36}, {1: 10.2, 2: 10.4}
    found = budget.budget([first, second], offsets, commits, sent)
    parts = {"gathered": 105.0, "plan": 15.0, **steps, "entry": 23.0, "commit": 6.0, "finish": 29.0}
    assert found == {**parts, **within}
    assert sum(parts.values()) == pytest.approx(185.0), "from sent to visible"
    at_once = Epoch(number=2, began=10.37, at=10.38, messages=2, end=5, steps=steps, staging={})
    one_phase = budget.budget([at_once], offsets, {2: 10.5}, sent)
    assert (one_phase["entry"], one_phase["commit"], one_phase["finish"]) == (3.0, 0.0, 0.0)
    assert budget.budget([second], offsets, {}, sent) == {}


def test_what_is_synced() -> None:
    lines = [
        "901 fdatasync(5</var/target/cluster/pg_wal/000000010000000000000007>) = 0 <0.000800>",
        "901 fdatasync(5</var/target/cluster/pg_wal/000000010000000000000007>) = 0 <0.001200>",
        "77 fsync(201</bench/checkpoint/offsets/.12.tmp>) = 0 <0.000400>",
        "77 fsync(9</tmp/other>) = -1 EIO (Input/output error) <0.000100>",
        "77 +++ exited with 0 +++",
    ]
    assert budget.counted(budget.parsed(lines), 2) == {
        "Postgres: its log": {"an_epoch": 1.0, "milliseconds": 1.0},
        "Spark: offsets/N": {"an_epoch": 0.5, "milliseconds": 0.4},
        "other": {"an_epoch": 0.5, "milliseconds": 0.1},
    }


def test_ratios_are_of_the_same_runs() -> None:
    """Machine twice as slow in the second run, in the third for one of them only; a wrong run takes its ratio along."""
    own, others = (
        [drained(system, rate, cpu=cost, run=run) for run, (rate, cost) in enumerate(runs, start=1)]
        for system, runs in (
            (OWN, ((90, 3.0), (45, 9.0), (80, 3.0), (20, 3.0))),
            (TABLE_PEER, ((60, 7.0), (30, 21.0), (20, 3.0), (20, 3.0))),
        )
    )
    (first,), (second,) = (drains(done) for done in (own, others))
    assert first.ratio(second, groups.rate) == (1.5, 1.0, 4.0)
    assert first.ratio(second, groups.cpu) == (0.8, 0.5, 1.0)
    assert first.ratio(second, groups.cpu_after_start) is None
    others[2]["correct"] = False
    (wrong,) = drains(others)
    assert first.ratio(wrong, groups.rate) == (1.5, 1.0, 1.5)

    def shown(*done: dict[str, Any]) -> list[str]:
        table = tables(*done)["Rates"]
        return [row[table.columns.index("ratio")] for row in table.rows]

    assert shown(*own, *others[:2]) == ["", "1.50"]
    assert shown(*own, *others) == ["", ""], "a system was wrong"
    others[2]["correct"] = True
    assert shown(*own, *others) == ["", "1.50 (1.00 - 4.00)"]


def test_only_what_was_measured_is_judged() -> None:
    found = verdicts(drained(OWN, 60), drained(CEILING, 100), drained(OWN, 61, workload="hot"))
    assert {what: goal.verdict for what, goal in found.items()} == {
        "rate against the ceiling": "reached",
        "rate of hot rows against uniform ones": "reached",
    }


def test_the_ceiling_is_judged_with_the_largest_backlog() -> None:
    large = {"messages": 2_000_000}
    found = verdicts(drained(OWN, 50), drained(CEILING, 100), drained(OWN, 70, **large), drained(CEILING, 100, **large))
    goal = found["rate against the ceiling"]
    assert (goal.found, goal.verdict) == (0.7, "reached")


def test_nothing_is_judged_by_a_wrong_table() -> None:
    found = verdicts(drained(OWN, 1000), drained(OWN, 1000, correct=False, run=2), drained(TABLE_PEER, 1))
    assert [goal.verdict for goal in found.values()] == ["not judged"] * 2


def test_tables_say_ratios_verdicts_and_what_is_wrong() -> None:
    done = [drained(OWN, 300), drained(TABLE_PEER, 100), drained(CEILING, 600), drained(FLINK_XA, 1, correct=False)]
    found = tables(*done)
    column = found["Rates"].columns.index("ratio")
    assert {row[2]: row[column] for row in found["Rates"].rows} == {
        "surelane": "",
        "flink-table": "3.00",
        "flink-xa": "",
        "ceiling": "0.50",
    }
    assert "WRONG" in found["Rates"].rows[-1]
    assert [(row[0], row[-1]) for row in found["Goals"].rows] == [
        ("rate against Flink's JDBC table", "MISSED"),
        ("rate against Flink over XA", "not judged"),
        ("CPU a message against Flink's JDBC table", "MISSED"),
        ("CPU a message against Flink over XA", "not judged"),
        ("rate against the ceiling", "MISSED"),
    ]


def test_sections_say_what_was_measured_and_how_often(tmp_path: Path) -> None:
    done = [drained(OWN, 300), drained(OWN, 320, run=2), drained(TABLE_PEER, 100), held(OWN, 10, 20)]
    for section in sections(*done):
        page.put(tmp_path / "PAGE.md", section, "./run bench --runs 2")
    text = (tmp_path / "PAGE.md").read_text()
    assert "`./run bench --runs 2`" in text
    assert "1,000,000 messages a backlog; runs: 2." in text
    assert f"| uniform | 1,000,000 | surelane | 310 | {'█' * 24} | 300 - 320 |" in text
    assert f"| uniform | 1,000,000 | flink-table | 100 | {'█' * 8} |" in text
    assert "| 1,000 | surelane | 10 | 20 | 21 | 100 | right | 0.3, noisy |" in text


def test_each_run_has_everything_and_begins_with_another_system() -> None:
    systems = [SYSTEMS[name] for name in (OWN, TABLE_PEER, CEILING)]
    passes = [
        (run, place, item, system.name)
        for run, place, item, system in replace(PLAN, systems=systems, runs=4, round_trips=[0.1, 10.0]).passes("ab")
    ]
    orders = [(OWN, TABLE_PEER, CEILING), (TABLE_PEER, CEILING, OWN), (CEILING, OWN, TABLE_PEER)]
    assert passes == [
        (run, place, item, name)
        for run, order in enumerate([*orders, orders[0]], start=1)
        for place in (0.1, 10.0)
        for item in "ab"
        for name in order
    ]


def test_each_measure_has_the_systems_that_it_can_measure() -> None:
    def names(measure: str, *chosen: str, round_trips: Sequence[float] = ()) -> list[str]:
        plan = replace(PLAN, systems=[SYSTEMS[name] for name in chosen], round_trips=round_trips)
        return [one.name for one in of_measure(plan, measure).systems]

    assert names("drain", OWN, CEILING) == [OWN, CEILING]
    assert names("drain", OWN, CEILING, REPLICATION, round_trips=[1.0]) == [OWN]
    assert names("latency", OWN, CEILING, REPLICATION) == [OWN, REPLICATION]
    assert names("kill", LEDGER, TABLE_PEER, round_trips=[1.0]) == [LEDGER]
    assert names("costs", TABLE_PEER) == []
    for measure, chosen in (("start", CEILING), ("drain", CEILING), ("latency", REPLICATION)):
        with pytest.raises(ConfigInvalid, match=f"{measure} has nothing to measure"):
            names(measure, chosen, round_trips=[1.0])


def test_the_last_epoch_is_judged_by_the_worst_run() -> None:
    runs = [held(OWN, 10, 20, last_hidden_milliseconds=hidden, run=run) for run, hidden in enumerate((9.0, 301.0, 8.0))]
    goal = verdicts(*runs)["the last epoch visible after its checkpoint entry, worst"]
    assert (goal.found, goal.verdict) == (301.0, "MISSED")


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
    with child.running(command, tmp_path, Child) as peer, pytest.raises(SystemFailed, match="no such topic"):
        child.until(lambda: None, peer, "a row", every=0.01, seconds=60)


def test_a_peer_that_gives_up_is_a_failure_though_it_lives(tmp_path: Path) -> None:
    ending = [sys.executable, "-c", "import signal; print('Task is being killed', flush=True); signal.pause()"]
    with child.running(ending, tmp_path, Child, fatal=debezium.GIVEN_UP) as peer:
        with pytest.raises(SystemFailed, match="has given up"):
            child.until(lambda: None, peer, "a row", every=0.01, seconds=60)
        assert peer.process.poll() is None
    assert peer.process.poll() is not None


def test_a_peer_that_does_nothing_is_a_failure(tmp_path: Path) -> None:
    waiting = [sys.executable, "-c", "import signal; signal.pause()"]
    with child.running(waiting, tmp_path, Child) as peer, pytest.raises(SystemFailed, match="waiting for a row"):
        child.until(lambda: None, peer, "a row", every=0.01, seconds=0.05)
