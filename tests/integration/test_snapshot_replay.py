"""A lost target put back from a snapshot, and replayed by a real lane: afterwards it is as if nothing had been."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.db.locks import lock_holder
from app.embedded import Postgres, Stack
from app.embedded.ports import remembered_port
from app.embedded.postgres import SUPERUSER
from app.embedded.postgres_binaries import bin_dir
from tests.fix_cli import Ended
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_snapshot import stop_cluster
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.runbook import commands
from tests.waiting import eventually
from tests.workload import TABLES, Shop

PAGE = "lost-target.md"
EPOCH_MESSAGES = 50
#: sent before, and after the snapshot
MESSAGES, MORE = 120, 60


@pytest.fixture
def place(servers: Stack, target: Target) -> Iterator[Path]:
    """For a restored server."""
    folder = servers.data_dir / f"replayed-{target.database}"
    yield folder
    stop_cluster(folder)


@pytest.mark.parametrize("driver", ["basebackup", "dump"])
def test_the_way_back(
    driver: str,
    lane: MakeLane,
    lane_process: MakeProcess,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed with an epoch decided and prepared, copied like that, gone on with for a while, lost; then the runbook."""
    target.create(*TABLES)
    shop = Shop(seed=5)
    topic.send(shop.messages(MESSAGES))
    told = {
        "driver": driver,
        "directory": str(tmp_path / "snapshots"),
        "url": target.server.url(target.database, SUPERUSER),
        "bin_dir": str(bin_dir()),
    }
    made = lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, snapshots=told)
    victim = lane_process(made, failpoint="before-commit=kill@2").start()
    assert victim.wait() == -signal.SIGKILL, victim.tail()
    with target.engine.connect() as connection:
        eventually(lambda: lock_holder(connection, made.name) is None, why="the lane's session to be gone")
    (gid,) = target.prepared()
    position = target.position()

    def call(*arguments: str) -> Any:
        ended = surelane(*arguments, "--json", "--config", str(made.config_file))
        assert ended.status == 0, ended.err
        return ended.json

    name = call("snapshot", "create")["name"]
    made.run_until_caught_up()
    topic.send(shop.messages(MORE))
    made.run_until_caught_up()
    questions(target, topic)

    plan = call("recover", "plan", "--snapshot", name)
    assert (plan["ok"], plan["messages_at_most"]) == (True, topic.end - position[next(iter(position))])
    assert (gid in " ".join(plan["steps"])) is (driver == "basebackup")
    if driver == "basebackup":
        port = remembered_port(tmp_path / "port")
        copy = Target(Postgres(place, port=port), target.database, target.lane)
        section, values = "Restore a base backup", {"folder": str(place), "port": str(port)}
    else:
        copy = Target(target.server, f"{target.database}-back", target.lane)
        section, values = "Restore a dump", {"url": target.server.url(copy.database, SUPERUSER)}
    values |= {"snapshot": name, "lane": target.lane, "position": str(position)}
    monkeypatch.setenv("SURELANE_CONFIG", str(made.config_file))
    play("Plan", surelane, **values)
    play(section, surelane, **values)
    assert copy.prepared() == ([gid] if driver == "basebackup" else [])
    assert copy.position() == position

    raw = {**made.raw, "target": {"url": copy.url}}
    file = tmp_path / "restored.yaml"
    file.write_text(yaml.safe_dump(raw))
    back = LaneUnderTest(raw, file, copy, made._spark)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setenv("SURELANE_CONFIG", str(file))

    def run(*words: str) -> Ended:
        if words[0] != "run":
            return surelane(*words)
        back.run_until_caught_up()  # with the session's Spark
        return Ended(0, "", "")

    play("Go on", run, **values, other=str(target.url))
    questions(copy, topic)
    questions(target, topic)
    if driver == "dump":
        copy.drop()


def play(section: str, run: Callable[..., Ended], **values: str) -> None:
    """Every command of a section of the runbook, in order; the first word of each is `surelane`."""
    found = [command for command in commands(PAGE) if command.section == section]
    assert found
    for command in found:
        ended = command.check(lambda _, *words: run(*words), **values)
        assert ended.status == 0, f"{command}: {ended.err}"
