"""A target with a snapshot that was made while an epoch was prepared, gone on with for a while, and recovered."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from app.config.settings import SourceSettings
from app.failpoint import VARIABLE
from app.kafka.broker import Broker
from tests.commands import Ended
from tests.fix_bare_lane import TOPIC
from tests.fix_doubt import EPOCH, LANE, counted
from tests.fix_lane import ROOT, Hold, LaneUnderTest, MakeLane
from tests.fix_snapshot import Snapshotting, stop_cluster
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message
from tests.oracle import questions
from tests.rollups import BY_COUNTER, BY_STATUS, RollupUnderTest
from tests.runbook import commands
from tests.workload import COUNTER, TABLES, Shop
from tools.devstack import Kafka, Postgres, Stack
from tools.devstack.ports import remembered_port
from tools.devstack.postgres import SUPERUSER
from tools.devstack.postgres_binaries import bin_dir

EPOCH_MESSAGES = 50
#: sent before, and after the snapshot
MESSAGES, MORE = 120, 60
COMMAND_SECONDS = 300.0


PAGE = "restore-and-replay.md"


@dataclass
class Lost:
    """A snapshot `name`, made while `gids` were prepared; the lane went on after it, and is stopped."""

    lane: LaneUnderTest
    target: Target
    topic: Topic
    name: str
    #: one for each partition
    gids: list[str]
    #: where it is recovered to
    copy: Target
    #: words of the command line
    to: tuple[str, ...]
    surelane: Callable[..., Ended]
    rollups: Sequence[RollupUnderTest]

    @property
    def gid(self) -> str:
        """Of a lane with one partition."""
        (gid,) = self.gids
        return gid

    def __call__(self, *more: str) -> Ended:
        """`surelane recover run`, in this process but for the lane."""
        return self.surelane(*self.words(*more))

    def words(self, *more: str) -> tuple[str, ...]:
        return ("recover", "run", "--snapshot", self.name, *more, "--config", str(self.lane.config_file))

    def process(self, *more: str, failpoint: str) -> "subprocess.Popen[bytes]":
        """The same as a process, in a group of its own."""
        return process(*self.words(*more), failpoint=failpoint)

    def killed(self, failpoint: str, *more: str) -> None:
        """SIGKILL of the recovery and of everything it started ends it there."""
        killed(failpoint, *self.words(*more))

    def course(self) -> dict[str, str]:
        """State of each step."""
        report = self("--status", "--json").json
        return {one["step"]: one["state"] for one in report["steps"]}

    def play(self, section: str, run: Callable[..., Ended] | None = None, **values: str) -> None:
        """Every command of a section of the runbook, in order."""
        found = [command for command in commands(PAGE) if command.section == section]
        assert found
        values = {"snapshot": self.name, "lane": self.target.lane, "gid": self.gid, **values}
        for command in found:
            ended = command.check(lambda _, *words: (run or self.surelane)(*words), **values)
            assert ended.status == 0, f"{command}: {ended.err}"

    def questions(self) -> None:
        """The copy is as if nothing had been lost, and the original as it was."""
        for place in (self.copy, self.target):
            questions(place, self.topic)
            for one in self.rollups:
                assert one.differences(place) == []
                assert one.groups(place)

    def answers(self) -> list[tuple[Any, ...]]:
        """On record in the copy."""
        return [tuple(row) for row in self.copy.execute("select gid, answer, state from surelane.indoubt_answer")]


def process(*words: str, failpoint: str) -> "subprocess.Popen[bytes]":
    """A command in a process group of its own."""
    environment = os.environ | {VARIABLE: failpoint, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "app.cli", *words]
    return subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE)


def killed(failpoint: str, *words: str) -> None:
    """SIGKILL of a command and of everything it started ends it there; at `name@3` the third time it comes by."""
    name, _, count = failpoint.partition("@")
    with process(*words, failpoint=f"{name}=kill@{count or 1}") as running:
        _, output = running.communicate(timeout=COMMAND_SECONDS)
        assert running.returncode == -signal.SIGKILL, output.decode()


MakeLost = Callable[..., Lost]


@pytest.fixture
def lost(
    lane: MakeLane,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    servers: Stack,
    hold: Hold,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeLost]:
    """`lost("basebackup")`; SURELANE_CONFIG names the lane's configuration. `lost(driver, several)`: a topic of several
    partitions, each a lane of its own. With "rds" the copy is there already: what RDS would have made of it.
    `archived=True`: a lane with an archive; `source=`, `epoch=`: more of its configuration."""
    undo: list[Callable[[], None]] = []

    def make(
        driver: str,
        several: Topic | None = None,
        rds: Mapping[str, Any] | None = None,
        *,
        archived: bool = False,
        **sections: dict[str, Any],
    ) -> Lost:
        target.create(*TABLES)
        # lanes of partitions that prepare their transactions have none
        kept = (BY_STATUS, BY_COUNTER) if several is None else ()
        rollups = {one.name: one.prepare(target) for one in kept}
        shop, read = Shop(seed=5), several or topic
        send = read.send if several is None else lambda messages: read.send(spread(read, len(list(messages))))
        snapshots = {
            "driver": driver,
            "directory": str(tmp_path / "snapshots"),
            "url": target.server.url(target.database, SUPERUSER),
            "bin_dir": str(bin_dir()),
            "rds": rds or {},
        }
        source = {"order": "total" if several is None else "partition", **sections.get("source", {})}
        epoch = {"max_messages": EPOCH_MESSAGES, **sections.get("epoch", {})}
        more = {"epoch": epoch, "snapshots": snapshots, "source": source, "rollups": rollups}
        made = lane("two-phase", topics=(read,), archived=archived, **more)
        monkeypatch.setenv("SURELANE_CONFIG", str(made.config_file))
        held = hold("before-commit", at=1 + read.partitions)
        # several lanes: no third epoch, whose beginning would commit what the others have prepared
        first = MESSAGES if several is None else EPOCH_MESSAGES * 3 // 2
        send(shop.messages(first))
        made.start()
        held.reached()
        gids = target.prepared()
        send(shop.messages(MESSAGES - first))
        (line,) = (
            one for one in surelane("snapshot", "create", "--json").out.splitlines() if one.startswith('{"format"')
        )
        if driver == "rds":  # what it would have copied
            assert surelane("snapshot", "create", "--name", "behind", "--driver", "basebackup").status == 0
        monkeypatch.delenv(VARIABLE)
        held.release()
        send(shop.messages(MORE))
        made.until_caught_up(read)
        made.stop()
        questions(target, read, archive=made.archive)
        copy, to = place(driver)
        return Lost(made, target, read, json.loads(line)["name"], gids, copy, to, surelane, kept)

    def place(driver: str) -> tuple[Target, tuple[str, ...]]:
        if driver == "dump":
            copy = new_database(target, "back", undo)
            return copy, ("--to", target.server.url(copy.database, SUPERUSER))
        folder = servers.data_dir / f"recovered-{target.database}"
        port = remembered_port(tmp_path / "port")
        undo.append(lambda: stop_cluster(folder))
        copy = Target(Postgres(folder, port=port), target.database, target.lane)
        to = ("--to", str(folder), "--port", str(port))
        if driver == "rds":
            assert surelane("snapshot", "restore", "behind", *to).status == 0
            return copy, ("--to", "shop-restored")
        return copy, to

    yield make
    for one in undo:
        one()


def spread(topic: Topic, count: int) -> list[Message]:
    """Changes of some counters, each in the partition of its key."""
    first, debezium = len(topic.sent), Debezium()
    return [debezium.update(COUNTER, {"id": n % 7, "hits": n}) for n in range(first, first + count)]


def new_database(target: Target, suffix: str, undo: list[Callable[[], None]]) -> Target:
    """A name for one on the target's server, which is not there yet."""
    made = Target(target.server, f"{target.database}-{suffix}", target.lane)

    def drop() -> None:
        for name in (made.database, f"{made.database}.surelane-part"):
            target.server.execute(f'drop database if exists "{name}" with (force)')

    undo.append(drop)
    return made


def opened(kafka: Kafka, name: str) -> Broker:
    """A connection that reads one topic."""
    return Broker(SourceSettings.model_validate({"bootstrap_servers": kafka.bootstrap, "topics": [name]}))


def forget(kafka: Kafka, name: str, before: int, partition: int = 0) -> None:
    """As retention does it."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.delete_records([KafkaPartition(name, partition, before)]).values():
        done.result()


@pytest.fixture
def made_up(new_topic: Callable[..., Topic], kafka: Kafka, snapshotting: Snapshotting) -> Topic:
    """The topic that bare lanes say they read; it has what the lane applied, and three messages more."""
    topic = new_topic(name=f"{TOPIC.topic}-{uuid.uuid4().hex[:6]}")
    topic.send(counted(0))
    topic.send(counted(EPOCH))
    renamed = '{"%s": {"0": %d}}' % (topic.name, EPOCH)  # noqa: UP031
    snapshotting.target.execute("update surelane.ledger set end_position = cast(:end as jsonb)", end=renamed)
    snapshotting.target.execute(
        "insert into surelane.topic values (:lane, :topic, :id)", lane=LANE, topic=topic.name, id=_id(kafka, topic)
    )
    source = {"bootstrap_servers": kafka.bootstrap, "topics": [topic.name]}
    configure(snapshotting, source=source)
    return topic


def _id(kafka: Kafka, topic: Topic) -> str:
    with opened(kafka, topic.name) as broker:
        return broker.topics()[topic.name].topic_id


def configure(snapshotting: Snapshotting, **sections: Any) -> None:
    """Put sections in place of those of surelane.yaml."""
    file = snapshotting.folder / "surelane.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | sections))
