"""What has rows in it is for its user alone from the moment it is made, whatever the umask is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config.settings import CommitMode
from app.private import opened
from tests import messages as m
from tests.fix_archive import Kept
from tests.fix_lane import MakeLane
from tests.fix_snapshot import Snapshotting
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
d = Debezium()


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def exposed(folder: Path) -> list[str]:
    """What others may see of a folder, itself included, with its mode."""
    paths = [folder, *folder.rglob("*")]
    assert len(paths) > 1
    return [f"{path} {path.stat().st_mode & 0o777:o}" for path in paths if path.stat().st_mode & 0o077]


def test_a_file_is_private_while_it_is_written(tmp_path: Path) -> None:
    with opened(tmp_path / "file", "wb") as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600


def test_an_archive(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.epoch(1, 0, t=(0, 3))
    assert exposed(kept.folder.path) == []


@pytest.mark.parametrize("driver", ["dump", "basebackup"])
def test_a_snapshot(driver: str, snapshotting: Snapshotting) -> None:
    """Manifest, sums, and what pg_dump writes."""
    snapshotting.configure(driver=driver)
    snapshotting.json("create", "--name", "one")
    # files of a base backup keep the modes that the server's have, in a folder that no other user may enter
    assert [one for one in exposed(snapshotting.directory) if driver == "dump" or "/data/" not in one] == []


def test_a_checkpoint(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    topic.send([d.create(FLAT, {"id": 1, "v": "a"})])
    made = lane(CommitMode.LEDGER)
    made.run_until_caught_up()
    assert exposed(made.checkpoint) == []
