"""A fault of the surroundings is counted against no message: the lane waits or stops, quarantines nothing, and goes on
when it is mended."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from app.config.settings import CommitMode
from app.errors import TargetMismatch
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.poison import row
from tests.waiting import eventually
from tools.devstack import Postgres

MODES = list(CommitMode)
SMALL_MB = 8


@pytest.fixture
def small_disk(target: Target, target_server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tablespace on a file system of SMALL_MB megabytes."""
    if os.geteuid() != 0:
        pytest.skip("needs the right to mount a file system")
    folder = target_server.data_dir.parent / f"small-{target.lane}"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_MB}m,mode=0777", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("mounting is not allowed here")
    name = target.lane.replace("-", "_")
    own = folder / "space"
    own.mkdir()
    owner = target_server.data_dir.stat()
    os.chown(own, owner.st_uid, owner.st_gid)
    try:
        target_server.execute(f"create tablespace {name} location '{own}'")
        target_server.execute(f"grant create on tablespace {name} to public")
        yield name
    finally:
        target.execute("drop table if exists filler, flat")
        target.execute(f'alter database "{target.database}" reset default_tablespace')
        for table in target.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables where tablespace = :name", name=name
        ):
            target.execute(f"drop table {table[0]}")
        target_server.execute(f"drop tablespace {name}")
        subprocess.run(["umount", str(folder)], check=True)


def fill(target: Target, space: str) -> None:
    """Leave next to nothing on that disk."""
    target.execute(f"create unlogged table filler (v text) tablespace {space}")
    rows = 64
    while rows:
        try:
            target.execute(
                "insert into filler select string_agg(md5(random()::text), '') from generate_series(1, 250),"
                " generate_series(1, :rows) r group by r",
                rows=rows,
            )
        except Exception:  # noqa: BLE001  # full: go on with less
            rows //= 4


@pytest.mark.costly(2)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("what", ["the table's", "the staging table's"])
def test_a_full_disk(
    what: str, mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, small_disk: str
) -> None:
    made = lane(mode, epoch={"max_messages": 100})
    if what == "the table's":
        target.execute(f"create table flat (id int primary key, v text) tablespace {small_disk}")
    else:
        target.execute("create table flat (id int primary key, v text)")
        target.execute(f'alter database "{target.database}" set default_tablespace = {small_disk}')
    topic.send([row(number) for number in range(10)])
    made.run_until_caught_up()
    fill(target, small_disk)
    topic.send([row(number, "x" * 900) for number in range(5, 405)])
    made.start()
    eventually(lambda: _is_waiting(target), why="the lane to wait for room on the disk")
    target.execute("drop table filler")
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic, exactly_once=made.exactly_once)


def _is_waiting(target: Target) -> bool:
    rows = target.execute("select last_error from surelane.lane_state where lane = :lane", lane=target.lane)
    return any("53100" in (found.last_error or "") for found in rows)


@pytest.mark.costly(2)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize(
    ("taken", "given"),
    [
        ("alter table flat rename to elsewhere", "alter table elsewhere rename to flat"),
        ("alter table flat rename v to w", "alter table flat rename w to v"),
        ("revoke update on flat from surelane_owner", "grant update on flat to surelane_owner"),
    ],
    ids=["table gone", "column gone", "privilege gone"],
)
def test_what_an_operator_has_to_mend(
    taken: str, given: str, mode: CommitMode, lane: MakeLane, target: Target, topic: Topic
) -> None:
    target.execute("create table flat (id int primary key, v text)")
    made = lane(mode)
    topic.send([row(number) for number in range(10)])
    made.run_until_caught_up()
    target.execute(taken)
    topic.send([row(number, "later") for number in range(5, 20)])
    with pytest.raises(TargetMismatch):
        made.run_until_caught_up()
    target.execute(given)
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once)


@pytest.mark.costly(1)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_target_that_goes_away_and_comes_back(
    mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, target_server: Postgres
) -> None:
    """More often than a message may fail. The broker's restarts are in the crash matrix."""
    target.execute("create table flat (id int primary key, v text)")
    made = lane(mode, epoch={"max_messages": 20}, guard={"max_attempts": 1, "max_losses": 1})
    _start(made, topic)
    for at in range(3):
        target_server.restart("immediate")
        topic.send([row(number, f"target {at}") for number in range(50)])
        made.until_caught_up(topic)
    made.stop()
    questions(target, topic, exactly_once=made.exactly_once)


def _start(made: LaneUnderTest, topic: Topic) -> None:
    topic.send([row(number) for number in range(50)])
    made.start()
    made.until_caught_up(topic)
