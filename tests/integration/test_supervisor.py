"""A lane whose process is hit: the supervisor starts it again, and nothing is lost or done twice on the way."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.fix_http import Http, Metrics
from tests.fix_lane import LaneProcess, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.waiting import eventually
from tests.workload import TABLES, Shop

EPOCH_MESSAGES = 60
MESSAGES = 300
#: enough for the first epoch of a cold JVM on a busy machine
HANG_SECONDS = 12
at_least_once, two_phase, ledger = CommitMode.AT_LEAST_ONCE, CommitMode.TWO_PHASE, CommitMode.LEDGER


class Held:
    """A lane process whose workers wait in the middle of their second epoch; the file shows that, and holds them."""

    def __init__(self, process: LaneProcess, file: Path) -> None:
        self.process, self.file = process, file

    def reached(self) -> tuple[psutil.Process, psutil.Process]:
        """Wait for the first worker to stand there; gives it and its JVM."""
        self.process.until(self.file.exists, why="the second epoch")
        worker, jvm = self.process.worker, self.process.jvm
        assert worker is not None
        assert jvm is not None
        return worker, jvm

    def until_caught_up(self, target: Target, topic: Topic) -> None:
        """Let each worker go on that comes there."""

        def caught_up() -> bool:
            self.file.unlink(missing_ok=True)
            return dict(target.position()) == topic.ends

        self.process.until(caught_up, why="the lane to catch up")

    @property
    def death(self) -> dict[str, Any]:
        """The one death."""
        (death,) = self.process.events("worker died")
        return death


MakeHeld = Callable[..., Held]


@pytest.fixture
def held(lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path) -> MakeHeld:
    """`held(mode, **configuration)`, started, with messages for five epochs."""

    def make(mode: CommitMode, **overrides: Any) -> Held:
        target.create(*TABLES)
        topic.send(Shop(seed=11).messages(MESSAGES))
        failpoint = f"after-merge=wait:{tmp_path}@2"
        process = lane_process(mode, failpoint=failpoint, epoch={"max_messages": EPOCH_MESSAGES}, **overrides)
        return Held(process.start(), tmp_path / "after-merge")

    return make


def gone(process: psutil.Process) -> bool:
    """Whether it lives no more."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.costly(1)
@pytest.mark.parametrize(
    ("mode", "victim", "cause", "detail"),
    [
        pytest.param(two_phase, "worker", "signal", "SIGKILL", marks=pytest.mark.full),
        (ledger, "worker", "signal", "SIGKILL"),
        (two_phase, "jvm", "exit", "SparkGone"),
        pytest.param(at_least_once, "jvm", "exit", "SparkGone", marks=pytest.mark.full),
    ],
    ids=lambda value: getattr(value, "value", value),
)
def test_what_is_killed_in_the_middle_of_an_epoch_is_started_again(
    mode: CommitMode, victim: str, cause: str, detail: str, held: MakeHeld, target: Target, topic: Topic, http: Http
) -> None:
    running = held(mode, metrics=http.settings)
    worker, jvm = running.reached()
    with Reader(target, topic) as reader:
        {"worker": worker, "jvm": jvm}[victim].kill()
        running.process.until(lambda: running.process.events("worker died"), why="the death to be noticed")
        assert gone(worker)
        assert gone(jvm)
        running.until_caught_up(target, topic)
    assert (running.death["cause"], running.death["detail"]) == (cause, detail)
    (event,) = running.process.events("started after a death")
    assert (event["cause"], event["detail"]) == (cause, detail)
    metrics = Metrics(http.get("/metrics")[1])
    assert metrics.value("surelane_restarts_total", lane=target.lane, cause=detail) == 1
    assert running.process.stop() == ExitStatus.OK
    questions(target, topic, reader=reader, exactly_once=mode is not at_least_once)
    assert len({row.generation for row in target.epochs()}) == 2


@pytest.mark.parametrize("how", ["it waits", pytest.param("it is frozen", marks=pytest.mark.full)])
def test_what_hangs_is_killed_and_started_again(how: str, held: MakeHeld, target: Target, topic: Topic) -> None:
    running = held(two_phase, guard={"message_timeout": f"{HANG_SECONDS} seconds"})
    worker, jvm = running.reached()
    if how == "it is frozen":
        worker.suspend()
        running.file.unlink()
    running.process.until(lambda: running.process.events("worker died"), why="the watchdog")
    assert running.death["cause"] == "hang"
    assert gone(worker)
    assert gone(jvm)
    running.until_caught_up(target, topic)
    assert running.process.stop() == ExitStatus.OK
    assert running.death, "and no other one"
    questions(target, topic)


def test_sigterm_between_two_workers_is_a_clean_stop(
    held: MakeHeld, lane: MakeLane, target: Target, topic: Topic
) -> None:
    restart = {"strategy": "fixed-delay", "fixed_delay": {"delay": "10 minutes"}}
    running = held(two_phase, restart=restart)
    worker, _ = running.reached()
    worker.kill()
    running.process.until(lambda: running.process.events("worker died"), why="the death to be noticed")
    assert running.death["restart_in_seconds"] == 600
    assert running.process.stop() == ExitStatus.OK
    lane(two_phase).run_until_caught_up()
    questions(target, topic)


def test_a_worker_that_cannot_even_start_is_a_crash_loop(lane_process: MakeProcess, target: Target) -> None:
    backoff = {"initial_backoff": "10 milliseconds", "max_backoff": "10 milliseconds"}
    process = lane_process(
        two_phase, spark={"conf": {"spark.driver.memory": "1k"}}, restart={"exponential_delay": backoff}
    )
    assert process.start().wait() == ExitStatus.CRASH_LOOP
    assert len(process.events("worker died")) == 5
    *workers, stopped = process.events("stopped")
    assert [line["error"] for line in workers] == ["SparkGone"] * 5
    assert all("before it was up" in line["message"] and "spark.driver.memory" in line["hint"] for line in workers)
    assert stopped["error"] == "CrashLoop"
    assert "before they began any work" in stopped["message"]
    assert stopped["hint"]


def test_a_worker_whose_supervisor_is_killed_ends_with_its_epoch(
    held: MakeHeld, lane: MakeLane, target: Target, topic: Topic
) -> None:
    running = held(two_phase)
    worker, jvm = running.reached()
    assert running.process.process is not None
    running.process.process.kill()
    assert running.process.wait() == -signal.SIGKILL
    eventually(lambda: running.process.events("stopping at the end of the epoch"), 60, "the worker to notice")
    assert not gone(worker)
    running.file.unlink()
    eventually(lambda: gone(worker) and gone(jvm), 60, "the end of both")
    assert len(target.epochs()) == 2
    assert target.prepared() == []
    lane(two_phase).run_until_caught_up()
    questions(target, topic)


def test_killing_the_group_leaves_nothing_behind(held: MakeHeld, target: Target) -> None:
    running = held(two_phase)
    worker, jvm = running.reached()
    running.process.kill()
    eventually(lambda: gone(worker) and gone(jvm), 60, "the end of both")
    assert len(target.epochs()) == 1
