"""The supervisor with workers of a few lines: real processes, no lane. A lane: `integration/test_supervisor.py`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.config.loader import load
from app.errors import ExitStatus
from app.supervisor.supervisor import MOST_EARLY_DEATHS
from tests.waiting import eventually

TOP = Path(__file__).resolve().parents[2]
CONFIG = """
lane: orders
source: {bootstrap_servers: "127.0.0.1:9", topics: [none]}
target: {url: "postgresql://user@127.0.0.1:9/none"}
"""
QUICK = 'restart: {exponential_delay: {initial_backoff: "10 milliseconds", max_backoff: "20 milliseconds"}}'
SUPERVISE = """
import json
import os
import sys
from pathlib import Path
from app import logs
from app.config.loader import load
from app.errors import SurelaneError
from app.supervisor.supervisor import Supervisor
logs.configure("orders")
try:
    role = Supervisor(load(Path("surelane.yaml"))).run()
    if isinstance(role, int):
        sys.exit(role)
    os.set_inheritable(role.link, True)
    death = role.after_death
    before = death and {"cause": death.cause.value, "detail": death.detail, "restarts": dict(death.restarts)}
    os.execv(sys.executable, [sys.executable, "-u", "worker.py", str(role.link), json.dumps(before)])
except SurelaneError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
"""
#: what every worker begins with: `start` counts the starts, `before` is how the worker before it died
WORKER = """
import json, os, signal, subprocess, sys, threading, time
import psutil
from app.supervisor.link import Link
link = Link(int(sys.argv[1]))
before = json.loads(sys.argv[2])
with open("starts", "a") as starts: print(json.dumps(before), file=starts)
start = len(open("starts").readlines())
def die(number=signal.SIGKILL): os.kill(os.getpid(), number)
def runs(pid): return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
def wait_for_stop():
    signal.signal(signal.SIGTERM, lambda *_: None); signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    stop = threading.Event()
    link.on_stop(lambda reason: (print("stop for", reason, flush=True), stop.set()))
    print("waiting", flush=True)
    stop.wait()
"""


@dataclass
class Supervised:
    """A supervisor in a process group of its own."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    @property
    def deaths(self) -> list[dict[str, Any] | None]:
        """The death that each worker got as the one before it; None: no death."""
        return [json.loads(line) for line in (self.folder / "starts").read_text().splitlines()]

    def ends(self) -> int:
        return self.process.wait(60)

    def until(self, text: str) -> None:
        eventually(lambda: text in self.output, 60, f"{text!r} in the output")


Supervise = Callable[..., Supervised]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Supervise]:
    """`supervise(program, more configuration)`: with workers that run the program."""
    made: list[Supervised] = []

    def make(program: str, more: str = QUICK) -> Supervised:
        (tmp_path / "surelane.yaml").write_text(f"{CONFIG}\n{more}\n")
        (tmp_path / "worker.py").write_text(WORKER + program)
        load(tmp_path / "surelane.yaml")
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", SUPERVISE],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(TOP)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        made.append(Supervised(process, tmp_path))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()


@pytest.mark.parametrize("status", [ExitStatus.OK, ExitStatus.BAD_MESSAGE])
def test_a_status_that_is_known_is_passed_on_and_nothing_is_started_again(
    supervise: Supervise, status: ExitStatus
) -> None:
    ended = supervise(f"sys.exit({status.value})")
    assert ended.ends() == status
    assert ended.deaths == [None]


@pytest.mark.parametrize("status", [ExitStatus.OK, ExitStatus.CONFIG])
def test_a_status_in_the_midst_of_work_is_a_death(supervise: Supervise, status: ExitStatus) -> None:
    """Users' code may have ended the process with it."""
    ended = supervise(f"""
link.begin(1, "orders")
if start == 1: os._exit({status.value})
with link: pass
""")
    assert ended.ends() == ExitStatus.OK
    (death,) = [one for one in ended.deaths if one is not None]
    assert (death["cause"], death["detail"]) == ("exit", f"status {status.value}")


def test_deaths_are_counted_by_cause_and_passed_to_the_next_worker(supervise: Supervise) -> None:
    ended = supervise("""
link.begin(1, "orders")
if start == 3: sys.exit(1)
if start == 4:
    with link: raise KeyError("gone")
if start == 5: sys.exit(134)
if start <= 5: die(signal.SIGSEGV if start == 2 else signal.SIGKILL)
with link: pass
""")
    assert ended.ends() == ExitStatus.OK, ended.output
    deaths = [death for death in ended.deaths if death is not None]
    assert ended.deaths[0] is None
    assert [(death["cause"], death["detail"]) for death in deaths] == [
        ("signal", "SIGKILL"),
        ("signal", "SIGSEGV"),
        ("exit", "status 1"),
        ("exit", "KeyError"),
        ("exit", "status 134"),
    ]
    assert deaths[1]["restarts"] == {"SIGKILL": 1, "SIGSEGV": 1}
    assert sum(deaths[-1]["restarts"].values()) == 5


def test_workers_that_die_before_any_work_are_a_crash_loop(supervise: Supervise) -> None:
    ended = supervise("die()")
    assert ended.ends() == ExitStatus.CRASH_LOOP
    assert len(ended.deaths) == MOST_EARLY_DEATHS
    assert "killed (SIGKILL)" in ended.output
    assert "what to do" in ended.output


def test_work_that_was_begun_makes_it_none(supervise: Supervise) -> None:
    ended = supervise(f"""
if start > {3 * MOST_EARLY_DEATHS}: sys.exit(5)
if start % {MOST_EARLY_DEATHS} == 0: link.begin(1, "orders")
die()
""")
    assert ended.ends() == ExitStatus.BAD_MESSAGE, ended.output


def test_a_strategy_without_a_restart_left_ends_it(supervise: Supervise) -> None:
    ended = supervise("link.begin(1, 'orders'); die()", "restart: {strategy: none}")
    assert ended.ends() == ExitStatus.CRASH_LOOP
    assert ended.deaths == [None]
    assert "restart.strategy none" in ended.output


def test_what_hangs_is_killed_with_all_it_started(supervise: Supervise) -> None:
    ended = supervise(
        """
if start == 2: sys.exit(5 if runs(int(open("child").read())) else 0)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
open("child", "w").write(str(child.pid))
link.begin(10, "orders")
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
time.sleep(600)
""",
        f'{QUICK}\nguard: {{message_timeout: "500 milliseconds"}}',
    )
    assert ended.ends() == ExitStatus.OK, ended.output
    (_, death) = ended.deaths
    assert death is not None
    assert death["cause"] == "hang"
    assert "at most 10 messages" in death["detail"]
    assert death["restarts"] == {"hang": 1}


def test_what_a_dead_worker_leaves_is_ended_before_the_next_starts(supervise: Supervise) -> None:
    ended = supervise("""
if start == 2: sys.exit(5 if runs(int(open("child").read())) else 0)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
open("child", "w").write(str(child.pid))
die()
""")
    assert ended.ends() == ExitStatus.OK, ended.output
    assert len(ended.deaths) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("group", [True, False], ids=["to the group", "to the supervisor"])
def test_a_signal_is_one_request_to_stop_and_the_status_is_the_workers(
    supervise: Supervise, number: signal.Signals, group: bool
) -> None:
    ended = supervise("wait_for_stop(); time.sleep(0.3); sys.exit(0)")
    ended.until("waiting")
    for _ in range(2):
        (os.killpg if group else os.kill)(ended.process.pid, number)
    assert ended.ends() == ExitStatus.OK, ended.output
    assert ended.output.count(f"stop for {number.name}") == 1


def test_a_signal_to_the_group_before_the_worker_can_take_it_is_kept(supervise: Supervise) -> None:
    ended = supervise("""
print("early", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
wait_for_stop()
""")
    ended.until("early")
    os.killpg(ended.process.pid, signal.SIGINT)
    (ended.folder / "go").touch()
    assert ended.ends() == ExitStatus.OK, ended.output


def test_a_request_to_stop_while_no_worker_lives_is_met_at_once(supervise: Supervise) -> None:
    ended = supervise("die()", 'restart: {strategy: fixed-delay, fixed_delay: {delay: "10 minutes"}}')
    ended.until("worker died")
    ended.process.terminate()
    assert ended.ends() == ExitStatus.OK
    assert ended.deaths == [None]


def test_a_death_while_stopping_is_reported_and_not_repaired(supervise: Supervise) -> None:
    ended = supervise("wait_for_stop(); die()")
    ended.until("waiting")
    ended.process.terminate()
    assert ended.ends() == ExitStatus.CRASH_LOOP
    assert "while it was stopping" in ended.output


def test_a_worker_whose_supervisor_was_killed_stops(supervise: Supervise) -> None:
    ended = supervise('wait_for_stop(); open("stopped", "w").close()')
    ended.until("waiting")
    ended.process.kill()
    eventually((ended.folder / "stopped").exists, 60, "the worker's end")
    assert "stop for the supervisor is gone" in ended.output
