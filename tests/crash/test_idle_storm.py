"""Kills of an idle lane: one message an epoch, so that every kill hits the same message again. Nothing is quarantined.

Where the lane works: anywhere, with and without its supervisor. Where it waits: for a lock of a foreign session, killed
again and again because it looks stuck. Its role has the timeouts of a server that is not set up for Surelane.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil
import pytest
from sqlalchemy import text

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.fix_lane import LaneProcess, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.hostile import make_hostile
from tests.oracle import Reader, questions
from tests.poison import row
from tests.waiting import eventually

#: kills in a round: amid its work, while it waits for a lock, with its supervisor
ROUND = (2, 3, 1)
#: rounds of the sample, which has 6 kills, and of the full storm
SAMPLE, FULL = 1, 20
#: seconds between a message and the kill, at most: an epoch of one message takes some hundredths
DELAY_SECONDS = 0.3
LIFE_SECONDS = 240.0
TIMEOUT_SECONDS = 3600
_WAITS = """
    select count(*) from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where not l.granted and a.datname = current_database() and a.application_name like 'surelane%'
"""


@dataclass
class IdleStorm:
    """One message at a time, and moments to kill."""

    target: Target
    topic: Topic
    process: LaneProcess
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter[str])
    #: messages sent
    sent: int = 0

    def send(self) -> None:
        """One change of a row that is always the same."""
        self.sent += 1
        self.topic.send([row(1, f"version {self.sent}")])

    def until_applied(self) -> None:
        """Wait until it is idle again."""
        self.process.until(lambda: self._position() == self.topic.end, LIFE_SECONDS, "the message to be applied")

    def _position(self) -> int:
        return max(self.target.position().values(), default=0)

    def kill_at_work(self) -> None:
        """The worker alone: the supervisor reports what it was doing."""
        worker = self.process.until(lambda: self.process.worker, LIFE_SECONDS, "a worker")
        self.send()
        self._wait()
        self._kill(worker, "at work")
        self.until_applied()

    def kill_waiting(self, times: int) -> None:
        """The message waits for a row that a foreign session holds; each worker is killed over it."""
        with self.held_row():
            self.send()
            for _ in range(times):
                self.process.until(self.waits, LIFE_SECONDS, "the lane to wait for the lock")
                worker = self.process.worker
                assert worker is not None
                self._kill(worker, "waiting")
                eventually(lambda: not self.waits(), why="the end of its session")
        self.until_applied()

    def kill_group(self) -> None:
        """With the supervisor: no process reports anything."""
        self.send()
        self._wait()
        self.process.kill()
        self.kills["group"] += 1
        before = len(self.process.events("start"))
        self.process.start()
        self.process.until(lambda: len(self.process.events("start")) > before, LIFE_SECONDS, "the next start")
        self.until_applied()

    def waits(self) -> bool:
        """Whether the lane's session waits for a lock."""
        return self.target.execute(_WAITS)[0][0] > 0

    @contextmanager
    def held_row(self) -> Iterator[None]:
        """A foreign transaction that has written the row."""
        with self.target.engine.connect() as connection:
            connection.execute(text("update flat set v = 'foreign' where id = 1"))
            yield
            connection.rollback()

    def _kill(self, worker: psutil.Process, where: str) -> None:
        """Until it is reaped: one that is dead and still a child would be taken for the next one."""
        worker.kill()
        self.kills[where] += 1
        eventually(lambda: not worker.is_running(), 60, "its end")

    def _wait(self) -> None:
        threading.Event().wait(self.chance.uniform(0, DELAY_SECONDS))  # any moment: that is what is tested


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("rounds", [SAMPLE, pytest.param(FULL, marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", [CommitMode.TWO_PHASE, pytest.param(CommitMode.LEDGER, marks=pytest.mark.full)])
def test_kills_of_an_idle_lane(
    mode: CommitMode,
    rounds: int,
    seed: int,
    lane: MakeLane,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
) -> None:
    target.execute("create table flat (id int primary key, v text)")
    make_hostile(target)
    delays = {"initial_backoff": "100 milliseconds", "max_backoff": "500 milliseconds"}
    made = lane(mode, guard={"max_attempts": 2, "max_losses": 2}, restart={"exponential_delay": delays})
    at_work, waiting, groups = ROUND
    with Reader(target, topic) as reader:
        storm = IdleStorm(target, topic, lane_process(made).start(), random.Random(seed))
        storm.send()
        storm.until_applied()
        for _ in range(rounds):
            for _ in range(at_work):
                storm.kill_at_work()
            storm.kill_waiting(waiting)
            for _ in range(groups):
                storm.kill_group()
        assert storm.process.stop() == ExitStatus.OK, storm.process.tail()
        assert storm.kills.total() == rounds * sum(ROUND)
        assert target.execute("select from surelane.quarantine where lane = :lane", lane=target.lane) == []
        assert target.execute("select from surelane.suspect where lane = :lane", lane=target.lane) == []
        questions(target, topic, reader=reader)
    print(f"idle storm: {dict(storm.kills)}, {storm.sent} messages, 0 quarantined")  # shown with -s


#: seconds for which sessions are ended, and so many at least
FLAPPING_SECONDS = 15.0
LEAST_ENDED = 11
_END = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and application_name like 'surelane%' and pid <> pg_backend_pid()
"""


@pytest.mark.costly(1)
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
def test_a_target_that_flaps_under_an_idle_lane(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """Sessions are ended as soon as they are there, far more often than a message may lose its connection."""
    target.execute("create table flat (id int primary key, v text)")
    target.execute(
        "create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.2); return new; end'"
    )
    target.execute("create trigger slow before insert or update on flat for each row execute function slow()")
    made = lane(mode, guard={"max_losses": 1})
    topic.send([row(1, "before")])
    made.start()
    made.until_caught_up(topic)
    topic.send([row(1, "after")])
    begun, ended = time.monotonic(), 0

    def flapped() -> bool:
        nonlocal ended
        ended += target.execute(_END)[0][0]
        return ended >= LEAST_ENDED and time.monotonic() - begun > FLAPPING_SECONDS

    eventually(flapped, LIFE_SECONDS, "sessions to end")
    made.until_caught_up(topic)
    made.stop()
    assert target.execute("select from surelane.quarantine where lane = :lane", lane=target.lane) == []
    questions(target, topic, exactly_once=made.exactly_once)
