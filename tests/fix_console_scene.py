"""A lane that is down and has what the console shows: skipped messages, a decided and prepared epoch, a topic."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.config.on_skip import OnSkip
from app.config.settings import CommitMode
from tests import messages as m
from tests.commands import Ended
from tests.fix_bare_lane import BareLane, MakeBareLane
from tests.fix_doubt import LANE, Doubt, counted
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.waiting import eventually
from tests.workload import COUNTER
from tools.devstack import Kafka

#: its column `note` takes ten characters
NARROW = Table("narrow", {"id": m.INT, "note": m.TEXT})
LONG = "x" * 11
_TABLES = ("quarantine", "quarantine_event", "indoubt_answer")
_DEBEZIUM = Debezium()


def narrow(number: int, note: str = LONG) -> Message:
    """A change that the target refuses, unless its note is short."""
    return _DEBEZIUM.create(NARROW, {"id": number, "note": note})


@contextmanager
def blocked(target: Target, statement: str) -> Iterator[None]:
    """A session that waits for a lock; at the end it goes on."""
    with target.engine.connect() as connection:
        pid = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
        waiter = threading.Thread(target=lambda: connection.exec_driver_sql(statement))
        waiter.start()
        waiting = "select 1 from pg_locks where not granted and pid = :pid"
        eventually(lambda: target.execute(waiting, pid=pid), why="the session to wait")
        yield
        waiter.join(30)
        assert not waiter.is_alive(), "the answer lets it go on"


@dataclass
class Scene:
    """Rows 7, 8 and 9 of `narrow` were refused, a later change of 7 is parked; epoch 2 is decided and prepared."""

    doubt: Doubt
    lane: BareLane
    surelane: Callable[..., Ended]
    gid: str

    @property
    def target(self) -> Target:
        return self.doubt.target

    def ids(self, state: str = "quarantined") -> list[int]:
        found = self.target.execute("select id from surelane.quarantine where state = :state order by id", state=state)
        return [number for (number,) in found]

    def left(self) -> tuple[Any, ...]:
        """Everything that an action changes."""
        rows = [self.target.execute(f"select t::text from surelane.{name} t order by 1") for name in _TABLES]
        return (*map(tuple, rows), self.target.prepared())

    def widened(self) -> None:
        """The cause is mended."""
        self.target.execute("alter table narrow alter note type text")

    def started(self) -> None:
        """As a new process of the lane: it settles what is in doubt, and takes up what was requested."""
        for gid in self.target.prepared():
            assert self.surelane("indoubt", "commit", gid).status == 0
        self.lane.reopen()
        self.lane.release()

    def json(self, *words: str) -> Any:
        """What a verb prints."""
        return json.loads(self.surelane(*words, "--json").out.splitlines()[-1])


@pytest.fixture
def scene(
    target: Target,
    bare_lane: MakeBareLane,
    kafka: Kafka,
    new_topic: Callable[..., Topic],
    surelane: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    """The folder has surelane.yaml."""
    monkeypatch.chdir(tmp_path)
    target.create(COUNTER)
    target.execute("create table narrow (id int primary key, note varchar(10))")
    lane = bare_lane(name=LANE, mode=CommitMode.TWO_PHASE, on_skip=OnSkip.PARK)
    doubt = Doubt(target, lane, tmp_path, surelane)
    doubt.configure(source={"bootstrap_servers": kafka.bootstrap, "topics": [new_topic().name]})
    doubt.identify()
    doubt.plan(0)
    lane.apply(counted(0))
    doubt.decide(0)
    lane.apply([narrow(7), narrow(7, "newer"), narrow(8), narrow(9)])
    doubt.plan(2)
    lane.prepare(counted(3))
    lane.die()
    doubt.decide(2)
    return Scene(doubt, lane, surelane, doubt.gid)
