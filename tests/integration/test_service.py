"""`surelane run` as a process: how it ends, its log, and its health."""

import json
import signal
from pathlib import Path

import pytest

from app.errors import ExitStatus
from tests import messages as m
from tests.fix_http import Http, Metrics
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.waiting import eventually
from tests.workload import TABLES, Shop

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})


def test_a_running_process_shows_what_it_does_and_ends_on_sigterm_with_nothing_in_doubt(
    lane_process: MakeProcess, target: Target, topic: Topic, http: Http
) -> None:
    """Numbers of /metrics are those of the ledger; ready when it applies; status 0 after SIGTERM."""
    target.create(*TABLES)
    topic.send(Shop(seed=7).messages(300))
    process = lane_process("two-phase", metrics=http.settings, epoch={"max_messages": 100})
    process.start()
    process.until(lambda: http.get("/healthz")[0] == 200, why="/healthz")
    assert http.get("/readyz") == (503, "no lane has started yet\n")
    process.until(lambda: http.get("/readyz")[0] == 200, why="/readyz")
    process.until(lambda: dict(target.position()) == topic.ends, why="the lane to catch up")
    lane, total = target.lane, target.ledger_sum()

    def shown() -> Metrics | None:
        scrape = Metrics(http.get("/metrics")[1])
        return scrape if scrape.value("surelane_messages_consumed_total", lane=lane) == total.consumed else None

    process.until(shown, why="the last epoch to be published")
    metrics = process.until(
        lambda: (s := shown()) and not s.value("surelane_lag_seconds", lane=lane) and s, why="no lag"
    )
    for outcome in ("applied", "compacted", "filtered", "duplicate", "quarantined"):
        assert metrics.value("surelane_messages_total", lane=lane, outcome=outcome) == getattr(total, outcome)
    epochs = target.epochs()
    assert metrics.value("surelane_epochs_total", lane=lane) == len(epochs)
    assert metrics.value("surelane_epoch", lane=lane) == epochs[-1].epoch
    assert metrics.value("surelane_generation", lane=lane) == 1
    assert metrics.value("surelane_up", lane=lane) == metrics.value("surelane_state", lane=lane, state="running") == 1
    position = {"topic": topic.name, "partition": "0"}
    assert metrics.value("surelane_position", lane=lane, **position) == topic.end
    assert metrics.value("surelane_lag_messages", lane=lane, **position) == 0
    assert metrics.value("surelane_in_doubt_transactions", lane=lane) == 0
    assert metrics.value("surelane_prepared_slots_limit", lane=lane) == 64
    for step in ("stage", "apply", "pre-commit"):
        assert metrics.value("surelane_epoch_step_seconds_count", lane=lane, step=step) == len(epochs)
    changes = sum(one.message.change is not None for one in topic.sent)
    assert metrics.value("surelane_freshness_seconds_count", lane=lane) == changes
    assert http.get("/nothing")[0] == 404

    process.terminate()
    assert process.wait() == ExitStatus.OK
    questions(target, topic)
    (state,) = target.execute("select state, last_error from surelane.lane_state")
    assert tuple(state) == ("stopped", None)
    first = next(index for index, line in enumerate(process.log) if "timestamp" in line)
    assert all("timestamp" in line for line in process.log[first:]), process.tail()  # before it the JVM speaks


@pytest.mark.costly(1)
@pytest.mark.parametrize(
    ("number", "to_group"), [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)]
)
def test_a_signal_in_the_middle_of_an_epoch_lets_it_end(
    lane: MakeLane,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
    tmp_path: Path,
    number: signal.Signals,
    to_group: bool,
) -> None:
    """The epoch in progress is applied and committed, the next one is not begun. The JVM is not hit either: it writes
    the checkpoint, without which the epoch would be in doubt."""
    target.create(FLAT)
    d = Debezium()
    topic.send([d.create(FLAT, {"id": number, "v": "a"}) for number in range(6)])
    held = tmp_path / "after-merge"
    process = lane_process("two-phase", epoch={"max_messages": 2}, failpoint=f"after-merge=wait:{tmp_path}@2")
    process.start()
    process.until(held.exists, why="the second epoch")
    if to_group:
        process.signal_group(number)
    else:
        process.terminate()
    process.until(lambda: process.events("stopping at the end of the epoch"), why="the signal")
    held.unlink()
    assert process.wait() == ExitStatus.OK
    assert sorted(target.rows("public.flat")) == [(0,), (1,), (2,), (3,)]
    assert target.prepared() == []
    (state,) = target.execute("select state, last_error from surelane.lane_state")
    assert tuple(state) == ("stopped", None)
    lane("two-phase").run_until_caught_up()
    questions(target, topic)


def test_an_error_ends_the_process_with_its_own_status_and_is_logged_once(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    target.create(FLAT)
    d = Debezium()
    sent = topic.send([d.create(FLAT, {"id": 2**31, "v": "too large"})])
    process = lane_process("two-phase", guard={"on_skip": "stop"}).start()
    assert process.wait() == ExitStatus.BAD_MESSAGE
    (line,) = process.events("stopped")
    assert line["error"] == "BadMessage"
    assert line["exit_status"] == ExitStatus.BAD_MESSAGE
    assert line["hint"]
    assert str(sent[0].position) in line["message"]
    lines = [line for line in process.log if str(sent[0].position) in json.dumps(line)]
    assert lines == [line], process.tail()
    assert target.prepared() == []


def test_faults_of_the_configuration_come_all_at_once_and_before_anything_starts(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    made = lane("two-phase")
    made.config_file.write_text(made.config_file.read_text().replace("two-phase", "three-phase") + "chekpoint: x\n")
    process = lane_process(made).start()
    assert process.wait() == ExitStatus.CONFIG
    for word in ("commit", "chekpoint", "did you mean checkpoint"):
        assert word in process.tail()
    assert target.ledger() is None


def test_waiting_for_a_target_that_is_away_is_alive_and_not_ready(
    lane_process: MakeProcess, target: Target, topic: Topic, http: Http
) -> None:
    """And it comes back with it, without help."""
    target.create(FLAT)
    d = Debezium()
    topic.send([d.create(FLAT, {"id": 1, "v": "a"})])
    process = lane_process("two-phase", metrics=http.settings).start()
    process.until(lambda: dict(target.position()) == topic.ends, why="the lane to catch up")
    target.server.stop("immediate")
    topic.send([d.create(FLAT, {"id": 2, "v": "a"})])
    process.until(lambda: http.get("/readyz")[0] == 503, why="the lane to notice")
    assert http.get("/healthz")[0] == 200
    target.server.start()
    process.until(lambda: http.get("/readyz")[0] == 200, why="the lane to be back")
    eventually(lambda: dict(target.position()) == topic.ends, 60, "the lane to catch up")
    restarts = Metrics(http.get("/metrics")[1]).value("surelane_restarts_total", lane=target.lane, cause="Unreachable")
    assert restarts >= 1
    assert process.stop() == ExitStatus.OK
    questions(target, topic)
