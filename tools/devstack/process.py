"""A background process that outlives the command that started it; a later command finds it by its pid file.

The pid file has the pid and the start time, because pids are reused, in particular after a reboot. A signal is sent
only to a process that matches both.
"""

import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.errors import EnvironmentMissing
from tools.devstack.wait import wait_for

#: psutil computes start times from the boot time, which clock corrections shift slightly.
SAME_START_SECONDS = 2.0
#: after SIGTERM; then SIGKILL
STOP_SECONDS = 30.0
KILL_SECONDS = 10.0
LOG_TAIL_LINES = 15


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """One background process with its pid file and log file."""

    name: str  #: for messages
    pid_file: Path
    log_file: Path

    def start(self, command: list[str], environment: Mapping[str, str]) -> None:
        """Start the process in a new session, so that neither a closed terminal nor Ctrl-C reaches it."""
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self.log_file), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        pid = os.posix_spawn(command[0], command, environment, file_actions=files, setsid=True)
        mark = {"pid": pid, "started": psutil.Process(pid).create_time()}
        part = self.pid_file.with_suffix(".part")
        part.write_text(json.dumps(mark))
        part.replace(self.pid_file)

    def process(self) -> psutil.Process | None:
        """The process, or None if it is not running."""
        if not self.pid_file.exists():
            return None
        mark = json.loads(self.pid_file.read_text())
        return running(mark["pid"], mark["started"])

    @property
    def pid(self) -> int | None:
        process = self.process()
        return process.pid if process else None

    def stop(self) -> None:
        """Send SIGTERM; after STOP_SECONDS, SIGKILL."""
        if process := self.process():
            send(process, signal.SIGTERM)
            if not has_ended(process, STOP_SECONDS):
                self.kill()
        self.pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash does."""
        if process := self.process():
            send(process, signal.SIGKILL)
            has_ended(process, KILL_SECONDS)
        self.pid_file.unlink(missing_ok=True)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; for example SIGSTOP and SIGCONT, for a server that is running but does not answer."""
        if process := self.process():
            send(process, number)

    def must_live(self) -> None:
        """Raise EnvironmentMissing with the end of the log if the process has ended."""
        if self.process() is None:
            words = f"{self.name} ended while it was starting:\n{self.log_tail()}"
            raise EnvironmentMissing(words, hint=f"read {self.log_file}")

    def log_tail(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        return "\n".join(f"  {line}" for line in lines[-LOG_TAIL_LINES:])


class DaemonServer(ABC):
    """A server that is one background process."""

    @property
    @abstractmethod
    def daemon(self) -> Daemon: ...

    @abstractmethod
    def launch(self) -> None:
        """Start the process if it is not running; `wait_ready` waits until it accepts requests."""

    @abstractmethod
    def wait_ready(self) -> None: ...

    @property
    def pid(self) -> int | None:
        return self.daemon.pid

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def stop(self) -> None:
        self.daemon.stop()

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash does."""
        self.daemon.kill()

    def restart(self) -> None:
        self.stop()
        self.start()


def running(pid: int, started: float) -> psutil.Process | None:
    """The process with this pid if it started at `started` (seconds since 1970); None if not, or if it has ended."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < SAME_START_SECONDS
    except psutil.NoSuchProcess:
        return None
    return process if same and not _is_over(process) else None


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal; does nothing if the process has ended."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def has_ended(process: psutil.Process, seconds: float) -> bool:
    """Wait for the process to end; False if it still runs after `seconds`."""
    try:
        wait_for(lambda: _is_over(process), reason=f"the end of process {process.pid}", seconds=seconds)
    except EnvironmentMissing:
        return False
    return True


def _is_over(process: psutil.Process) -> bool:
    """Whether the process is gone or a zombie; reaps it if it is our child."""
    try:
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            return False
    except psutil.NoSuchProcess:
        return True
    with suppress(ChildProcessError):  # not our child: its parent, or init, reaps it
        os.waitpid(process.pid, os.WNOHANG)
    return True
