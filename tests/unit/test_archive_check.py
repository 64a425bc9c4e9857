"""What `doctor` says of the archive."""

from pathlib import Path

import pytest

from app.archive.committed_files import Folder
from app.cli.doctor_checks.archive_check import archive
from app.cli.doctor_checks.finding import Level
from app.config.settings import Settings
from app.model.offsets import Offsets, TopicPartition
from app.recover.archive_reach import archive_reach
from tests.fix_archive import LANE, Kept


def settings(path: Path | None, order: str = "total") -> Settings:
    """Of a lane that keeps what it consumes there."""
    section = {} if path is None else {"archive": {"path": str(path)}}
    return Settings.of(
        {
            "lane": LANE,
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["t"], "order": order},
            "target": {"url": "postgresql://user@127.0.0.1:1/none"},
            **section,
        }
    )


def test_as_it_should_be(tmp_path: Path) -> None:
    """Not configured, empty, and with files; of each partition's lane."""
    assert archive(settings(None)) == []
    assert [one.level for one in archive(settings(tmp_path))] == [Level.OK]
    Kept(tmp_path).epoch(1, 0, t=(0, 10))
    Kept(tmp_path, f"{LANE}.1").epoch(1, 0, t=(0, 5))
    found = archive(settings(tmp_path))
    assert [one.level for one in found] == [Level.OK, Level.OK]
    assert "t[0] 0 to 9; 1 files" in found[0].message


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_read(tmp_path: Path, what: str) -> None:
    """As an earlier version made it."""
    kept = Kept(tmp_path)
    kept.epoch(1, 0, t=(0, 10))
    (kept.folder.path if what == "folder" else kept.folder.files()[0].path).chmod(0o755)
    (one,) = archive(settings(tmp_path))
    assert (one.level, f"chmod -R go= {kept.folder.path}" in str(one.hint)) == (Level.WARN, True)


@pytest.mark.parametrize("what", ["missing", "gap", "broken"])
def test_what_is_amiss(tmp_path: Path, what: str) -> None:
    """Named, with what to do."""
    kept = Kept(tmp_path)
    for number in range(3):
        kept.epoch(1, number, t=(number * 10, number * 10 + 10))
    middle = Folder(tmp_path, LANE).files()[1].path
    if what == "gap":
        middle.unlink()
    if what == "broken":
        middle.write_bytes(b"")
    (one,) = archive(settings(tmp_path / "gone" if what == "missing" else tmp_path))
    expected = {"missing": "there is no folder", "gap": "lacks t[0] 10 to 19", "broken": "1-1.jsonl.zst is broken"}
    assert expected[what] in one.message
    assert one.level is (Level.FAULT if what == "missing" else Level.WARN)
    assert one.hint


def test_how_far_it_reaches(tmp_path: Path) -> None:
    """From a position on; of the lane that the partition is of."""
    tp = TopicPartition("t", 0)
    Kept(tmp_path).epoch(1, 0, t=(5, 10))
    Kept(tmp_path, f"{LANE}.0").epoch(1, 0, t=(5, 20))
    for start, order, end in ((5, "total", 10), (7, "partition", 20), (4, "total", 4), (10, "total", 10)):
        assert dict(archive_reach(settings(tmp_path, order), Offsets.of({tp: start}))) == {tp: end}
    assert dict(archive_reach(settings(None), Offsets.of({tp: 5}))) == {tp: 5}
