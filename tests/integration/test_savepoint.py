"""Savepoints of a lane that goes on writing, from the command line. Kafka is not there, and not needed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from app.config.settings import CommitMode
from app.errors import ExitStatus
from app.failpoint import SAVEPOINT_NAMES, VARIABLE
from app.model.offsets import Offsets
from app.savepoint.folder import SavepointFolder
from tests.fix_doubt import EPOCH, counted
from tests.fix_lane import ROOT, MakeLane, MakeProcess
from tests.fix_snapshot import Snapshotting
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.savepoints import called, configure
from tests.waiting import eventually
from tests.workload import COUNTER


def test_one_of_a_lane_that_writes(snapshotting: Snapshotting) -> None:
    """Its position is that of an epoch of the ledger; the lane goes on beside it."""
    configure(snapshotting)
    with snapshotting.writing():
        made = [called(snapshotting, "create", f"point-{number}") for number in range(5)]
    for one in made:
        (lane,) = one["lanes"]
        found = snapshotting.target.execute(
            "select end_position from surelane.ledger where generation = :generation and epoch = :epoch",
            generation=lane["generation"],
            epoch=lane["epoch"],
        )
        assert [row for (row,) in found] == [one["position"]] == [lane["applied"]]
        assert called(snapshotting, "verify", one["name"]) == {"name": one["name"], "usable": True, "problem": None}
    positions = [Offsets.from_nested(one["position"]) for one in made]
    assert len(set(positions)) > 1, "the lane went on"
    assert [one["name"] for one in called(snapshotting, "list")["savepoints"]] == [one["name"] for one in made]


def test_nothing_of_this_machine_and_no_password_is_inside(snapshotting: Snapshotting) -> None:
    configure(snapshotting, source={"options": {"kafka.ssl.key.password": "a secret"}})
    called(snapshotting, "create", "one")
    content = (snapshotting.folder / "savepoints/one/savepoint.json").read_text()
    assert [word for word in (str(snapshotting.folder), "a secret", "127.0.0.1", "postgresql") if word in content] == []


def test_moved_checked_and_disposed_of(snapshotting: Snapshotting) -> None:
    """For people, too."""
    configure(snapshotting)
    assert "position" in snapshotting.surelane("savepoint", "create", "one").out
    shutil.move(snapshotting.folder / "savepoints", snapshotting.folder / "elsewhere")
    configure(snapshotting, savepoints={"directory": str(snapshotting.folder / "elsewhere")})
    assert "generation" in snapshotting.surelane("savepoint", "show", "one").out
    assert called(snapshotting, "check", "one")["fits"]
    more = {"directory": str(snapshotting.folder / "elsewhere")}
    configure(snapshotting, savepoints=more, target={"tables": {"shop.*": "public.*"}})
    found = called(snapshotting, "check", "one", status=ExitStatus.DIFFERENT)
    assert [one["item"] for one in found["items"] if one["compatibility"] == "loses"] == ["routes:public.*"]
    assert called(snapshotting, "check", "one", "--allow-non-restored", "routes:public.*")["fits"]
    assert snapshotting.surelane("savepoint", "dispose", "one", "--yes").status == 0
    ended = snapshotting.surelane("savepoint", "show", "one")
    assert ended.status == ExitStatus.REFUSED
    assert "there is no savepoint one" in ended.err


def test_a_dump_of_the_very_position(snapshotting: Snapshotting) -> None:
    """While the lane writes: the dump's ledger ends where the savepoint is."""
    configure(snapshotting)
    with snapshotting.writing():
        made = called(snapshotting, "create", "one", "--with-snapshot")
    assert made["snapshot"]["name"] == "one"
    stored = snapshotting.json("list")["snapshots"]
    assert [(one["name"], one["exact"], one["position"]) for one in stored] == [("one", True, made["position"])]
    ended = snapshotting.surelane("run", "--from-savepoint", "one")
    assert ended.status == ExitStatus.REFUSED
    assert "surelane snapshot restore one --to PLACE" in ended.err
    ended = snapshotting.surelane("savepoint", "create", "one")
    assert (ended.status, "there is a savepoint one already" in ended.err) == (ExitStatus.REFUSED, True)
    assert snapshotting.surelane("savepoint", "create", "Not a name").status == ExitStatus.CONFIG


def test_a_run_from_another_position_is_refused(snapshotting: Snapshotting) -> None:
    """Before anything is written; with the three ways that lead there."""
    configure(snapshotting)
    called(snapshotting, "create", "one")
    snapshotting.lane.apply(counted(len(snapshotting.lane.sent)))
    before = snapshotting.target.epochs()
    ended = snapshotting.surelane("run", "--from-savepoint", "one")
    assert ended.status == ExitStatus.REFUSED
    assert f"{EPOCH:,} messages past it" in ended.err
    for way in ("surelane run", "no snapshot to restore", "surelane replay --from earliest --to made-up[0]@"):
        assert way in ended.err
    configure(snapshotting, target={"tables": {"shop.*": "public.*"}})
    ended = snapshotting.surelane("run", "--from-savepoint", "one")
    assert (ended.status, "routes:public.*" in ended.err) == (ExitStatus.REFUSED, True)
    assert snapshotting.target.epochs() == before


@pytest.mark.parametrize("place", SAVEPOINT_NAMES)
def test_killed(snapshotting: Snapshotting, place: str) -> None:
    """What is half written, or half removed, is no savepoint; the next one may have the same name."""
    configure(snapshotting)
    command = [sys.executable, "-m", "app.cli", "savepoint"]
    verb = ["dispose", "one", "--yes"] if place == "savepoint-disposed" else ["create", "one"]
    if verb[0] == "dispose":
        called(snapshotting, "create", "one")
    done = subprocess.run(
        [*command, *verb],
        env={**os.environ, VARIABLE: f"{place}=kill", "PYTHONPATH": str(ROOT)},
        cwd=snapshotting.folder,
        start_new_session=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    directory = str(snapshotting.folder / "savepoints")
    assert called(snapshotting, "list") == {"directory": directory, "savepoints": [], "broken": {}}
    called(snapshotting, "create", "one")
    called(snapshotting, "verify", "one")
    assert snapshotting.surelane("savepoint", "dispose", "one", "--yes").status == 0
    assert [one for one in (snapshotting.folder / "savepoints").iterdir() if "disposed" in one.name] == []


@pytest.mark.parametrize("mode", CommitMode)
def test_a_run_from_the_position_where_the_target_is(
    lane: MakeLane, target: Target, topic: Topic, tmp_path: Path, mode: CommitMode
) -> None:
    """It goes on from the ledger. Afterwards the same savepoint is behind the target, and nothing is applied twice."""
    target.create(COUNTER)
    made = lane(mode, savepoints={"directory": str(tmp_path / "savepoints")})
    command = [sys.executable, "-m", "app.cli"]
    topic.send(counted(0))
    made.run_until_caught_up()
    config = ["--config", str(made.config_file)]
    created = subprocess.run([*command, "savepoint", "create", "one", *config], check=True, timeout=60)
    assert created.returncode == 0
    topic.send(counted(EPOCH))
    run = [*command, "run", "--until-caught-up", "--from-savepoint", "one", *config]
    first = subprocess.run(run, check=False, timeout=120, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    assert "the target is at the position of savepoint one" in first.stderr
    questions(target, topic, exactly_once=made.exactly_once)
    second = subprocess.run(run, check=False, timeout=120, capture_output=True, text=True)
    assert second.returncode == ExitStatus.REFUSED
    assert f"{EPOCH:,} messages past it" in second.stderr
    questions(target, topic, exactly_once=made.exactly_once)


def test_the_last_thing_that_a_lane_does(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """It ends by itself with status 0, and does not start again, though messages wait, before it is resumed: from the
    savepoint, which was moved meanwhile."""
    target.create(COUNTER)
    made = lane("two-phase", savepoints={"directory": str(tmp_path / "savepoints")})
    command, config = [sys.executable, "-m", "app.cli"], ["--config", str(made.config_file)]
    topic.send(counted(0))
    process = lane_process(made).start()
    process.until(lambda: made.caught_up(topic), why="the first messages")
    created = subprocess.run(
        [*command, "savepoint", "create", "one", "--stop", "--json", *config],
        check=False,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert created.returncode == 0, created.stderr
    assert process.wait() == 0
    position = Offsets.from_nested(json.loads(created.stdout)["position"])
    assert dict(target.position()) == dict(position)
    topic.send(counted(EPOCH))
    run = [*command, "run", "--until-caught-up", *config]
    refused = subprocess.run(run, check=False, timeout=120, capture_output=True, text=True)
    assert refused.returncode == ExitStatus.REFUSED
    assert "surelane run --from-savepoint one" in refused.stderr
    assert dict(target.position()) == dict(position)
    shutil.move(tmp_path / "savepoints", tmp_path / "of another machine")
    made.changed(savepoints={"directory": str(tmp_path / "of another machine")})
    resumed = subprocess.run([*run, "--from-savepoint", "one"], check=False, timeout=120, capture_output=True)
    assert resumed.returncode == 0
    questions(target, topic)


def test_a_lane_makes_them_by_itself(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """Each is of an epoch's end; the oldest go, and one that an operator has made stays."""
    target.create(COUNTER)
    folder = SavepointFolder(tmp_path / "savepoints")
    made = lane("two-phase", savepoints={"directory": str(folder.root), "every": "1 second", "keep": 3})
    process = lane_process(made).start()
    process.until(lambda: len(folder.names()) >= 1, why="the first one")
    config = ["--config", str(made.config_file)]
    subprocess.run([sys.executable, "-m", "app.cli", "savepoint", "create", "mine", *config], check=True, timeout=60)
    first = set(folder.names()) - {"mine"}

    def sent() -> bool:
        topic.send(counted(topic.end))
        return not first & set(folder.names())

    process.until(sent, why="the first ones to be disposed of")
    process.until(lambda: made.caught_up(topic), why="the last messages")
    assert process.stop() == 0
    names = set(folder.names())
    assert (len(names), "mine" in names) == (4, True)
    ends = {Offsets.from_nested(end) for (end,) in target.execute("select end_position from surelane.ledger")}
    assert {folder.get(name).position for name in names} <= ends
    questions(target, topic)


def test_a_place_that_cannot_be_written_stops_no_lane(
    lane: MakeLane, target: Target, topic: Topic, tmp_path: Path
) -> None:
    target.create(COUNTER)
    (tmp_path / "file").write_text("")
    made = lane("two-phase", savepoints={"directory": str(tmp_path / "file/savepoints"), "every": "1 second"})
    topic.send(counted(0))
    made.start()
    name, labels = "surelane_savepoint_failures_total", {"lane": made.name}
    eventually(lambda: (REGISTRY.get_sample_value(name, labels) or 0) >= 1, 60, "a failure")
    made.until_caught_up(topic)
    questions(target, topic)
