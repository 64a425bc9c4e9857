"""A background process is found again by a later command, and nothing but that process is ever ended."""

import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.errors import EnvironmentMissing
from tools.devstack.ports import LOOPBACK, is_free, remembered_port
from tools.devstack.process import Daemon, has_ended

SLEEP = [str(shutil.which("sleep")), "600"]


def daemon_in(folder: Path) -> Daemon:
    return Daemon(name="sleeper", pid_file=folder / "pid", log_file=folder / "log")


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Daemon]:
    daemon = daemon_in(tmp_path)
    daemon.start(SLEEP, os.environ)
    yield daemon
    daemon.kill()


def test_a_process_is_found_and_stopped_by_another_command(sleeper: Daemon, tmp_path: Path) -> None:
    later = daemon_in(tmp_path)
    process = later.process()
    assert process is not None
    assert os.getsid(process.pid) == process.pid, "it has to outlive the terminal it was started from"
    later.stop()
    assert sleeper.process() is None
    assert not process.is_running()


def test_a_killed_process_counts_as_gone_even_before_its_parent_fetched_it(sleeper: Daemon) -> None:
    process = sleeper.process()
    assert process is not None
    process.send_signal(signal.SIGKILL)
    assert has_ended(process, seconds=10)
    assert sleeper.pid is None


def test_a_process_that_only_has_the_same_pid_is_left_alone(sleeper: Daemon, tmp_path: Path) -> None:
    mark = json.loads(sleeper.pid_file.read_text())
    (tmp_path / "other").mkdir()
    stranger = daemon_in(tmp_path / "other")
    stranger.pid_file.write_text(json.dumps({**mark, "started": mark["started"] - 3600}))
    assert stranger.process() is None
    stranger.kill()
    stranger.stop()
    assert psutil.pid_exists(mark["pid"])
    assert sleeper.pid == mark["pid"]


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    daemon = daemon_in(tmp_path)
    daemon.start(["/bin/sh", "-c", "echo no such luck >&2; exit 3"], os.environ)
    process = daemon.process()
    assert process is None or has_ended(process, seconds=10)
    with pytest.raises(EnvironmentMissing, match="sleeper ended while it was starting:\n  no such luck"):
        daemon.must_live()


def test_a_port_is_remembered_until_another_process_takes_it(tmp_path: Path) -> None:
    file = tmp_path / "port"
    first = remembered_port(file)
    assert remembered_port(file) == first
    with socket.create_server((LOOPBACK, first)):
        assert not is_free(first)
        second = remembered_port(file)
    assert second != first
    assert remembered_port(file) == second
