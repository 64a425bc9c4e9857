"""The archive as a participant of epochs, by itself: steps, what a dead process left, and what the disk refuses."""

from pathlib import Path

import pytest

from app.archive.names import Name
from app.errors import EnvironmentMissing, TopicChanged, Unreachable, Verdict
from app.model.gid import Gid
from app.model.offsets import TopicPartition
from tests.fix_archive import LANE, Kept, work

TP = TopicPartition("t", 0)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """One epoch is committed."""
    made = Kept(tmp_path)
    made.epoch(1, 0, t=(0, 10))
    return made


def test_nothing_shows_before_the_commit(kept: Kept) -> None:
    """Begun and pre-committed; committed twice is committed."""
    archive, one = kept.opened(), work(1, 1, t=(10, 20))
    archive.begin(one)
    archive.pre_commit()
    assert (kept.reader.spans(), archive.handles()) == ({TP: [(0, 10)]}, [one.gid])
    archive.commit(one.gid)
    archive.commit(one.gid)
    assert (kept.reader.spans(), archive.handles()) == ({TP: [(0, 20)]}, [])
    assert kept.offsets("t", 20) == list(range(20))


@pytest.mark.parametrize("pre_committed", [False, True])
def test_aborted(kept: Kept, pre_committed: bool) -> None:
    archive, one = kept.opened(), work(1, 1, t=(10, 20_000))
    archive.begin(one)
    if pre_committed:
        archive.pre_commit()
    assert archive.abort(one.gid)
    assert kept.names() == ["orders@1-0.jsonl.zst"]
    archive.begin(one)
    archive.pre_commit()
    archive.commit(one.gid)
    assert kept.offsets("t", 20_000) == list(range(20_000))


def test_found_again_by_another_process(kept: Kept) -> None:
    """By name: of this lane only. What was combining files is cleared away, other lanes' files stay."""
    one = work(3, 7, t=(10, 20))
    died = kept.opened()
    died.begin(one)
    died.pre_commit()
    strangers = [".part-other@3-7.jsonl.zst", ".part-orders@3-7", "notes.txt"]
    for name in (*strangers, ".part-orders@1-0..3-7.jsonl.zst"):
        (kept.folder.path / name).touch()
    archive = kept.opened()
    assert archive.handles() == [Gid(LANE, 3, 7)]
    archive.commit(Gid(LANE, 3, 7))
    assert kept.offsets("t", 20) == list(range(20))
    assert kept.names() == sorted([*strangers, "orders@1-0.jsonl.zst", "orders@3-7.jsonl.zst"])


def test_a_position_is_kept_once(kept: Kept) -> None:
    """Replayed by another generation: nothing is missing, or a part of it."""
    archive = kept.opened()
    for number, end in enumerate((10, 15)):
        one = work(2, number, t=(5, end))
        archive.begin(one)
        archive.pre_commit()
        archive.commit(one.gid)
    assert kept.names() == ["orders@1-0.jsonl.zst", "orders@2-1.jsonl.zst"]
    assert kept.offsets("t", 15) == list(range(15))


def test_no_room(kept: Kept) -> None:
    """Tried again; when there is room, it goes on."""
    archive, one = kept.opened(), work(1, 1, t=(10, 20))
    part = kept.folder.path / Name.of(one.gid).part
    part.symlink_to("/dev/full")
    archive.begin(one)
    with pytest.raises(Unreachable, match="No space left on device") as caught:
        archive.pre_commit()
    assert caught.value.verdict is Verdict.RETRY
    assert "make room" in str(caught.value)
    archive.abort(one.gid)
    assert kept.names() == ["orders@1-0.jsonl.zst"]
    archive.begin(one)
    archive.pre_commit()
    archive.commit(one.gid)
    assert kept.offsets("t", 20) == list(range(20))


def test_no_folder(tmp_path: Path) -> None:
    """It is not made: a mount that is missing looks the same. Nor is a file taken for one."""
    with pytest.raises(EnvironmentMissing, match="mkdir -p"):
        Kept(tmp_path / "missing").opened()
    (tmp_path / LANE).touch()
    with pytest.raises(EnvironmentMissing, match="File exists"):
        Kept(tmp_path).opened()


def test_another_topic_of_that_name(tmp_path: Path) -> None:
    """Its offsets mean other messages."""
    kept = Kept(tmp_path)
    archive, one = kept.opened({"t": "old"}), work(1, 0, t=(0, 10))
    archive.begin(one)
    archive.pre_commit()
    archive.commit(one.gid)
    kept.opened({"t": "old"})
    with pytest.raises(TopicChanged, match="another topic t"):
        kept.opened({"t": "new"})
