"""A lane that is down and has left a prepared transaction, without Kafka and Spark: only database and checkpoint."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml
from sqlalchemy import Connection

import app.recover.answering
from app.config.settings import CommitMode
from app.spark.entries import IDENTITY_FILE
from tests.commands import Ended
from tests.fix_bare_lane import TOPIC, BareLane, Death, MakeBareLane
from tests.fix_target import Target
from tests.messages import Debezium, Message
from tests.workload import COUNTER
from tools.devstack.roles import LOGIN, OWNER

#: messages in each epoch
EPOCH = 3
LANE = "orders"
_DEBEZIUM = Debezium()


def counted(first: int) -> list[Message]:
    """An epoch's changes."""
    return [_DEBEZIUM.update(COUNTER, {"id": n, "hits": n}) for n in range(first, first + EPOCH)]


def changes(first: int, count: int = 30) -> list[Message]:
    """Changes of as many rows, a multiple of EPOCH."""
    return [one for number in range(first, first + count, EPOCH) for one in counted(number)]


@dataclass
class Doubt:
    """The lane `orders`: epoch 0 is applied, epoch 1 is prepared after `prepare`; the command is called by `()`."""

    target: Target
    lane: BareLane
    folder: Path
    surelane: Callable[..., Ended]

    def __call__(self, *arguments: str) -> Ended:
        return self.surelane("indoubt", *arguments)

    @property
    def checkpoint(self) -> Path:
        """The configured one."""
        return self.folder / "checkpoint"

    @property
    def gid(self) -> str:
        """Of the lane's prepared transaction."""
        (gid,) = (gid for gid in self.target.prepared() if gid.startswith(f"surelane:{LANE}:"))
        return gid

    def configure(self, **more: Any) -> None:
        """Write surelane.yaml; Kafka is not there, and not needed."""
        sections = {
            "lane": LANE,
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC.topic]},
            "target": self.target.section,
            "checkpoint": str(self.checkpoint),
        }
        (self.folder / "surelane.yaml").write_text(yaml.safe_dump(sections | more))

    def identify(self, *, checkpoint: str = "none", generation: int = 1) -> None:
        """Write surelane.json; a bare lane runs on the checkpoint `none`."""
        self.checkpoint.mkdir(exist_ok=True)
        start = json.dumps({TOPIC.topic: {str(TOPIC.partition): 0}})
        text = {"lane": LANE, "checkpoint": checkpoint, "generation": generation, "start": start}
        (self.checkpoint / IDENTITY_FILE).write_text(json.dumps(text))

    def plan(self, epoch: int) -> None:
        """Write offsets/N."""
        end = json.dumps({TOPIC.topic: {str(TOPIC.partition): (epoch + 1) * EPOCH}})
        self._write("offsets", epoch, f"v1\n{{}}\n{end}")

    def decide(self, epoch: int = 1) -> None:
        """Write commits/N."""
        self._write("commits", epoch, "v1\n{}")

    def prepare(self, *, decided: bool) -> str:
        """Epoch 1, up to its pre-commit, and the decision if there is one; gives its gid."""
        self.plan(1)
        self.lane.prepare(counted(EPOCH))
        self.lane.die()
        if decided:
            self.decide()
        return self.gid

    def foreign(self, gid: str = "other-program-17", user: str = LOGIN) -> str:
        """Another program's prepared transaction; the lane's login makes it as the owner."""
        self.target.execute("create table if not exists public.stock (id int, left_over int)")
        connection = psycopg2.connect(self.target.server.url(self.target.database, user))
        with connection, connection.cursor() as cursor:
            cursor.execute(f"set role {OWNER if user == LOGIN else user}")
        connection.tpc_begin(gid)
        with connection.cursor() as cursor:
            cursor.execute("insert into public.stock values (1, 5)")
        connection.tpc_prepare()
        connection.close()
        return gid

    def copy(self) -> Path:
        """A copy of the checkpoint as it is now."""
        return Path(shutil.copytree(self.checkpoint, self.folder / "copy", dirs_exist_ok=True))

    def answers(self) -> list[dict[str, Any]]:
        """The record."""
        with self.target.engine.connect() as connection:
            found = connection.exec_driver_sql("select * from surelane.indoubt_answer order by id").mappings().all()
        return [dict(row) for row in found]

    def _write(self, kind: str, epoch: int, text: str) -> None:
        folder = self.checkpoint / kind
        folder.mkdir(exist_ok=True)
        (folder / str(epoch)).write_text(text)


@pytest.fixture
def doubt(
    target: Target,
    bare_lane: MakeBareLane,
    surelane: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Doubt:
    """Epoch 0 is applied and complete; nothing is prepared yet."""
    monkeypatch.chdir(tmp_path)
    target.create(COUNTER)
    lane = bare_lane(name=LANE, mode=CommitMode.TWO_PHASE)
    made = Doubt(target, lane, tmp_path, surelane)
    made.configure()
    made.identify()
    made.plan(0)
    lane.apply(counted(0))
    made.decide(0)
    return made


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`dies(sent)`: the next answer's process dies with COMMIT PREPARED sent, or just before that."""
    end = app.recover.answering.end

    def at(*, sent: bool) -> None:
        def ending(connection: Connection, gid: str, *, commit: bool) -> None:
            monkeypatch.setattr(app.recover.answering, "end", end)
            if sent:
                end(connection, gid, commit=commit)
            raise Death

        monkeypatch.setattr(app.recover.answering, "end", ending)

    return at
