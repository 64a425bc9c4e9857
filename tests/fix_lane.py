"""Lanes under test: inside the test process, with the session's Spark, or as a real `surelane run` process."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import yaml
from pyspark.sql import SparkSession

from app import failpoint
from app.config.settings import CommitMode, Settings
from app.errors import SurelaneError
from app.metrics.health import Health
from app.spark.session import ComingSession
from app.worker.retry_loop import RetryLoop
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.processes import name_of
from tests.waiting import eventually
from tools.devstack import Kafka
from tools.devstack.sections import merged

MODES = tuple(CommitMode)
ROOT = Path(__file__).resolve().parents[1]
#: a cold start of Python, Java and Spark on a busy machine
START_SECONDS = 300.0
STOP_SECONDS = 180.0
_FAILPOINT = failpoint.VARIABLE
#: of a session that computes the rows of a query: as a lane's, it does not compile code well for a few messages
_FEW_MESSAGES = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

_DELIVERY = {
    CommitMode.AT_LEAST_ONCE: {"delivery": "at-least-once"},
    CommitMode.TWO_PHASE: {"delivery": "exactly-once", "commit": "two-phase"},
    CommitMode.LEDGER: {"delivery": "exactly-once", "commit": "ledger"},
}


class CheckpointFiles:
    """Spark's checkpoint, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def planned(self) -> list[int]:
        """Epochs that have an `offsets` entry."""
        return self._numbers("offsets")

    def complete(self) -> list[int]:
        """Epochs that have a `commits` entry."""
        return self._numbers("commits")

    def commit_file(self, epoch: int) -> Path:
        """`commits/N`; with its checksum file gone Spark accepts any content."""
        return self.folder / "commits" / str(epoch)

    def forget_commit(self, epoch: int) -> None:
        """Delete `commits/N`: a crash before the checkpoint was finished."""
        self.commit_file(epoch).unlink()
        (self.folder / "commits" / f".{epoch}.crc").unlink(missing_ok=True)

    def _numbers(self, kind: str) -> list[int]:
        folder = self.folder / kind
        names = [path.name for path in folder.iterdir()] if folder.exists() else []
        return sorted(int(name) for name in names if name.isdigit())


class LaneUnderTest:
    """A lane's configuration, and the lane inside this process."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        config_file: Path,
        target: Target,
        spark: Callable[[], SparkSession],
        query: str | None = None,
    ) -> None:
        """`query`: this one of the configuration, instead of the lane."""
        self.raw, self.config_file, self._target, self._spark = raw, config_file, target, spark
        whole = Settings.of(dict(raw))
        self.settings = whole if query is None else whole.of_query(query)
        self.name = self.settings.lane
        self.exactly_once = self.settings.mode is not CommitMode.AT_LEAST_ONCE
        self.checkpoint = Path(self.settings.checkpoint)
        self.checkpoint_files = CheckpointFiles(self.checkpoint)
        #: where it keeps what it consumed, if it does
        self.archive = Path(self.settings.archive.path) if self.settings.archive else None
        self.health = Health()
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def changed(self, **overrides: Any) -> "LaneUnderTest":
        """The same with another configuration, in the same file."""
        raw = merged(self.raw, overrides)
        self.config_file.write_text(yaml.safe_dump(raw))
        return LaneUnderTest(raw, self.config_file, self._target, self._spark)

    def of_query(self, name: str) -> "LaneUnderTest":
        """A query of the configuration."""
        return LaneUnderTest(self.raw, self.config_file, self._target, self._spark, name)

    def run_until_caught_up(self) -> None:
        """Apply what the topics hold now, then stop; raises what the service raises."""
        RetryLoop(self.settings, ComingSession.of(self._spark()), self.health, threading.Event(), True).keep_running()

    def start(self) -> None:
        """Run in a thread until `stop`."""
        spark = self._spark()
        self._stop.clear()
        self.error = None
        self._thread = threading.Thread(target=self._run, args=(spark,), name="lane under test", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """As SIGTERM does."""
        self._stop.set()

    def stop(self) -> None:
        """Stop as SIGTERM does and wait; raises what ended the lane."""
        self.request_stop()
        self.join()
        if self.error is not None:
            raise self.error

    def give_up(self) -> BaseException | None:
        """Stop one whose target is gone; gives what it ended with, if it did before."""
        self._stop.set()
        return self.join()

    def join(self, timeout: float = STOP_SECONDS) -> BaseException | None:
        """Wait until it ends by itself; gives the error that it ended with."""
        if self._thread is not None:
            self._thread.join(timeout)
            assert not self._thread.is_alive(), f"lane {self.name} did not end within {timeout:g} s"
            self._thread = None
        return self.error

    def at(self, place: Target) -> "LaneUnderTest":
        """The same lane, its configuration pointed to another target."""
        raw = merged(self.raw, {"target": {"url": place.url}})
        file = self.config_file.with_name(f"{place.database}-{urlsplit(place.url).port}.yaml")
        file.write_text(yaml.safe_dump(raw))
        return LaneUnderTest(raw, file, place, self._spark)

    @property
    def running(self) -> bool:
        """Whether the thread lives."""
        return self._thread is not None and self._thread.is_alive()

    def caught_up(self, *topics: Topic) -> bool:
        """Whether a reader of the target sees everything the topics hold; raises when the lane has failed."""
        if self.error is not None:
            raise self.error
        ends = {tp: offset for topic in topics for tp, offset in topic.ends.items()}
        return dict(self._target.position(self.name)) == ends

    def until_caught_up(self, *topics: Topic, timeout: float = 240.0) -> None:
        """Wait for that."""
        eventually(lambda: self.caught_up(*topics), timeout, f"lane {self.name} to catch up")

    def _run(self, spark: SparkSession) -> None:
        try:
            RetryLoop(self.settings, ComingSession.of(spark), self.health, self._stop, False).keep_running()
        except (SurelaneError, Exception) as error:  # noqa: BLE001  # handed to the test by `stop` and `join`
            self.error = error


class LaneProcess:
    """A real `surelane run`, in a process group of its own."""

    def __init__(
        self,
        config_file: Path,
        log_file: Path,
        *,
        until_caught_up: bool = False,
        failpoint: str | None = None,
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.config_file, self.log_file = config_file, log_file
        self.arguments = arguments
        self.until_caught_up = until_caught_up
        own = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(env or {})}
        self.env = {**os.environ, **own} | ({_FAILPOINT: failpoint} if failpoint else {})
        if not failpoint:
            self.env.pop(_FAILPOINT, None)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "LaneProcess":
        """Start; returns at once."""
        command = [sys.executable, "-m", "app.cli", "run", "--config", str(self.config_file)]
        command += ["--until-caught-up"] if self.until_caught_up else []
        command += self.arguments
        folder = self.log_file.parent
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                cwd=folder,
                start_new_session=True,
            )
        return self

    @property
    def pid(self) -> int:
        """Of the leader of the process group."""
        assert self.process is not None, "started"
        return self.process.pid

    @property
    def worker(self) -> psutil.Process | None:
        """The process that runs the lane: the child of the one that was started."""
        return next(iter(psutil.Process(self.pid).children()), None)

    @property
    def jvm(self) -> psutil.Process | None:
        """The JVM of that."""
        children = self.worker.children() if self.worker else []
        return next((child for child in children if name_of(child) == "java"), None)

    def wait(self, timeout: float = START_SECONDS) -> int:
        """Exit status, negative for a signal; fails when it still runs after `timeout` seconds."""
        assert self.process is not None, "started"
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout:g} s:\n{self.tail()}") from None

    def kill(self) -> None:
        """SIGKILL of the whole process group: supervisor, worker, Java and Spark's Python workers."""
        self.signal_group(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(STOP_SECONDS)

    def terminate(self) -> None:
        """SIGTERM, as an init system sends it."""
        assert self.process is not None, "started"
        self.process.terminate()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.terminate()
        return self.wait(STOP_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> list[dict[str, Any]]:
        """Its log lines; what is no JSON (a traceback of the interpreter) comes as `{"event": text}`."""
        return [_parsed(line) for line in self._text().splitlines() if line.strip()]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Log lines of that event."""
        return [line for line in self.log if line.get("event") == name]

    def until(self, condition: Callable[[], Any], timeout: float = START_SECONDS, why: str = "") -> Any:
        """Wait for a condition; fails at once, with the log's end, when the process ends before."""

        def met() -> Any:
            answer = condition()
            assert answer or self.alive, f"ended before {why or condition}: {self.process}\n{self.tail()}"
            return answer

        try:
            return eventually(met, timeout, why)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    def until_running(self) -> None:
        """Wait for its first query."""
        self.until(lambda: self.events("start"), why="the lane's start")

    def tail(self, lines: int = 25) -> str:
        """The end of its log."""
        return "\n".join(self._text().splitlines()[-lines:])

    def _text(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def signal_group(self, number: signal.Signals) -> None:
        """To all of it, as a terminal sends Ctrl-C."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return


def _parsed(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {"event": line}
    return parsed if isinstance(parsed, dict) else {"event": line}


class Held:
    """A lane that waits at a failpoint: `reached` waits for it, `release` lets it go on."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / name
        self.setting = f"{name}=wait:{folder}"

    def reached(self, timeout: float = 240.0) -> None:
        """Wait until the lane reaches the failpoint."""
        eventually(self.file.exists, timeout, f"failpoint {self.file.name}")

    def release(self) -> None:
        """Let it go on."""
        self.file.unlink(missing_ok=True)


Hold = Callable[..., Held]


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """`hold("after-merge", at=2)`: the lane inside this process waits there the second time it comes by."""
    held: list[Held] = []

    def make(name: str, at: int = 1) -> Held:
        one = Held(tmp_path, name)
        failpoint._reached.clear()  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setenv(_FAILPOINT, f"{one.setting}@{at}")
        held.append(one)
        return one

    yield make
    monkeypatch.delenv(_FAILPOINT, raising=False)
    for one in held:
        one.release()


MakeLane = Callable[..., LaneUnderTest]
MakeProcess = Callable[..., LaneProcess]


@pytest.fixture
def lane(request: pytest.FixtureRequest, kafka: Kafka, target: Target, tmp_path: Path) -> Iterator[MakeLane]:
    """`lane(mode, **overrides)`: overrides as in surelane.yaml, e.g. `epoch={"max_messages": 50}`.

    `topics`, a shorthand for source.topics, takes Topics; without it the test's `topic` is read. `archived=True`: with
    an archive, in a folder of its own.
    """
    made: list[LaneUnderTest] = []

    def make(
        mode: CommitMode | str, *, topics: tuple[Topic, ...] = (), archived: bool = False, **overrides: Any
    ) -> LaneUnderTest:
        chosen = topics or (() if _names_topics(overrides) else (request.getfixturevalue("topic"),))
        source = {"bootstrap_servers": kafka.bootstrap} | ({"topics": [t.name for t in chosen]} if chosen else {})
        raw: dict[str, Any] = {
            "lane": target.lane,
            "source": source,
            "target": target.section,
            "checkpoint": str(tmp_path / "checkpoint"),
            "spark": {"master": "local[2]"},
            "metrics": {"port": 0},
            **_DELIVERY[CommitMode(mode)],
        }
        if archived:
            (tmp_path / "archive").mkdir(exist_ok=True)
            raw["archive"] = {"path": str(tmp_path / "archive")}
        if "queries" in overrides:
            raw["spark"]["conf"] = _FEW_MESSAGES
        raw = merged(raw, overrides)
        file = tmp_path / f"{raw['lane']}-{len(made)}.yaml"
        file.write_text(yaml.safe_dump(raw))
        made.append(LaneUnderTest(raw, file, target, lambda: request.getfixturevalue("spark")))
        return made[-1]

    yield make
    for one in made:
        one.give_up()


def _names_topics(overrides: Mapping[str, Any]) -> bool:
    source = overrides.get("source", {})
    return "topics" in source or "topic_pattern" in source


@pytest.fixture
def lane_process(lane: MakeLane, tmp_path: Path) -> Iterator[MakeProcess]:
    """`lane_process(lane_or_mode, until_caught_up=False, failpoint=None, env=None, arguments=(), **overrides)`.

    Not started yet.
    """
    made: list[LaneProcess] = []

    def make(
        what: LaneUnderTest | CommitMode | str,
        *,
        until_caught_up: bool = False,
        failpoint: str | None = None,
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        **overrides: Any,
    ) -> LaneProcess:
        configured = what if isinstance(what, LaneUnderTest) else lane(what, **overrides)
        log_file = tmp_path / f"process-{len(made)}.log"
        process = LaneProcess(
            configured.config_file,
            log_file,
            until_caught_up=until_caught_up,
            failpoint=failpoint,
            env=env,
            arguments=arguments,
        )
        made.append(process)
        return process

    yield make
    for process in made:
        process.kill()
