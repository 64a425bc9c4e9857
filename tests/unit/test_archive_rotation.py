"""Small files made one, old ones deleted: whatever happens on the way, every epoch is there once."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from app import failpoint
from app.archive.file import head_of
from app.archive.names import EpochId
from app.archive.offset_ranges import Stretch
from app.archive.rotation import Policy, Rotation, groups, outdated
from app.errors import Diverged
from app.model.offsets import Offsets, TopicPartition
from tests.fix_archive import IDLE, Kept, now

TP = TopicPartition("t", 0)
#: combine whatever there is
AT_ONCE = replace(IDLE, file_age=0.0)


class Death(BaseException):
    """The process ends here."""


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Six epochs of one lane, over two generations."""
    made = Kept(tmp_path)
    for number in range(6):
        made.epoch(1 + number // 4, number % 4, t=(number * 10, number * 10 + 10))
    return made


def whole(kept: Kept, end: int = 60) -> None:
    """Every offset once, in order, by both ways of reading, and each epoch as it was."""
    assert kept.offsets("t", end) == list(range(end))
    steps = kept.reader.epochs(Offsets.of({TP: 0}))
    found = list(itertools.islice(steps, end // 10))
    assert [after[TP] for after, _ in found] == list(range(10, end + 1, 10))
    assert [one.position.offset for _, messages in found for one in messages] == list(range(end))
    with pytest.raises(Diverged, match=f"does not go on from t\\[0\\] {end}"):
        next(steps)
    assert (kept.reader.faults(), kept.reader.gaps(), kept.reader.spans()) == ([], [], {TP: [(0, end)]})


def test_combined(kept: Kept) -> None:
    """Into one, then with those that came since; a second round has nothing to do."""
    whole(kept)
    Rotation(kept.folder, AT_ONCE).round()
    assert kept.names() == ["orders@1-0..2-1.jsonl.zst"]
    whole(kept)
    assert head_of(kept.folder.path / kept.names()[0]).epochs[4].id == EpochId(2, 0)
    kept.epoch(2, 2, t=(60, 70))
    rotation = Rotation(kept.folder, AT_ONCE)
    rotation.round()
    rotation.round()
    assert kept.names() == ["orders@1-0..2-2.jsonl.zst"]
    whole(kept, 70)


@pytest.mark.parametrize("place", failpoint.ARCHIVE_NAMES)
def test_death_while_combining(kept: Kept, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see every epoch once before anybody mends it; the next opening and round leave nothing behind."""

    def die(name: str) -> None:
        if name == place:
            raise Death

    with monkeypatch.context() as patched:
        patched.setattr(failpoint, "reach", die)
        patched.setattr(Path, "unlink", lambda *_, **__: None)  # no cleanup after a death
        with pytest.raises(Death):
            Rotation(kept.folder, AT_ONCE).round()
    assert len(kept.names()) == 7
    whole(kept)
    kept.opened().close()
    Rotation(kept.folder, AT_ONCE).round()
    assert kept.names() == ["orders@1-0..2-1.jsonl.zst"]
    whole(kept)


def test_two_writers_that_combined_different_epochs(kept: Kept) -> None:
    """One of them was fenced, and did not know: files overlap, and are read once."""
    files = kept.folder.files()
    contents = {one.path: one.path.read_bytes() for one in files}
    for part in (files[:4], files[2:]):
        for one in part:
            one.path.write_bytes(contents[one.path])  # the other one still saw it
        Rotation(kept.folder, AT_ONCE)._combine(part)  # pyright: ignore[reportPrivateUsage]
    assert kept.names() == ["orders@1-0..1-3.jsonl.zst", "orders@1-2..2-1.jsonl.zst"]
    whole(kept)


def test_a_broken_file_is_left_alone(kept: Kept) -> None:
    """The others are combined, reading ends in front of it, what comes behind it can be read; until a copy is back."""
    broken = kept.folder.files()[3].path
    content = broken.read_bytes()
    for bad in (content[:-4], content[:-40] + b"x" * 40):
        broken.write_bytes(bad)
        Rotation(kept.folder, AT_ONCE).round()
        assert kept.names() == ["orders@1-0..2-1.jsonl.zst", "orders@1-3.jsonl.zst"]
        (fault,) = kept.reader.faults()
        assert str(broken) in fault
        assert kept.offsets("t", 30) == list(range(30))
        with pytest.raises(Diverged):
            kept.offsets("t", 60)
        assert [one.position.offset for one in kept.reader.read("t", 0, 40, 60)] == list(range(40, 60))
    broken.write_bytes(content)
    whole(kept)


def sizes(kept: Kept, policy: Policy, at: float) -> list[list[str]]:
    return [[str(one.name.first) for one in group] for group in groups(kept.folder.files(), policy, at)]


def test_when_files_are_combined(kept: Kept) -> None:
    """When there is enough for a file, or when the oldest is old enough; neighbours only."""
    size = max(one.bytes for one in kept.folder.files())
    assert sizes(kept, IDLE, now()) == []
    assert sizes(kept, IDLE, now() + 3601) == [["1-0", "1-1", "1-2", "1-3", "2-0", "2-1"]]
    assert sizes(kept, replace(IDLE, file_bytes=2 * size), now())[0] == ["1-0", "1-1", "1-2"]
    assert sizes(kept, replace(IDLE, file_bytes=1), now() + 3601) == [], "each is large enough"
    kept.folder.files()[2].path.unlink()
    assert kept.reader.gaps() == [Stretch(TP, 20, 30)]
    kept.epoch(3, 0, t=(0, 60))
    assert kept.reader.gaps() == [], "written anew is what was missing, and nothing else"
    assert head_of(kept.folder.files()[-1].path).stretches == [Stretch(TP, 20, 30)]
    assert sizes(kept, IDLE, now() + 3601) == [["1-0", "1-1", "1-3", "2-0", "2-1"]], "offsets ascend in a file"
    assert kept.offsets("t", 60) == list(range(60))


def test_what_is_kept(kept: Kept) -> None:
    """By age and by size, the oldest first, never the newest."""
    files = kept.folder.files()
    total = sum(one.bytes for one in files)
    assert outdated(files, IDLE, now() + 1e9) == []
    assert outdated(files, replace(IDLE, keep_age=60.0), now()) == []
    assert outdated(files, replace(IDLE, keep_age=60.0), now() + 61) == files[:-1]
    assert outdated(files, replace(IDLE, keep_bytes=total), now()) == []
    assert outdated(files, replace(IDLE, keep_bytes=total - 1), now()) == files[:1]
    Rotation(kept.folder, replace(IDLE, keep_bytes=1)).round()
    assert kept.reader.spans() == {TP: [(50, 60)]}


def test_several_topics_come_back_as_they_were_applied(tmp_path: Path) -> None:
    """Epoch by epoch, from a position in the midst of one."""
    kept = Kept(tmp_path)
    kept.epoch(1, 0, a=(0, 3), b=(0, 0))
    kept.epoch(1, 1, a=(3, 4), b=(0, 2))
    kept.epoch(1, 2, a=(4, 6), b=(2, 5))
    Rotation(kept.folder, AT_ONCE).round()
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    found = list(itertools.islice(kept.reader.epochs(Offsets.of({a: 1, b: 0})), 3))
    assert [dict(end) for end, _ in found] == [{a: 3, b: 0}, {a: 4, b: 2}, {a: 6, b: 5}]
    assert [[(one.position.topic, one.position.offset) for one in messages] for _, messages in found] == [
        [("a", 1), ("a", 2)],
        [("a", 3), ("b", 0), ("b", 1)],
        [("a", 4), ("a", 5), ("b", 2), ("b", 3), ("b", 4)],
    ]
