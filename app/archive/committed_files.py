"""The committed files of one lane, with their contents."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.archive.file import head_of
from app.archive.io_errors import translated_io
from app.archive.line_format import HeadLine
from app.archive.names import PART, EpochId, Name
from app.archive.offset_ranges import Stretch
from app.errors import Diverged, TopicChanged
from app.model.offsets import TopicPartition


@dataclass(frozen=True, kw_only=True)
class ArchiveFile:
    path: Path
    name: Name
    head: HeadLine
    bytes: int

    @property
    def epochs(self) -> set[EpochId]:
        return {one.id for one in self.head.epochs}

    @property
    def at(self) -> float:
        """The time at which its newest epoch was written, seconds since 1970."""
        return max(one.at for one in self.head.epochs)

    def ends(self) -> dict[TopicPartition, int]:
        """The end (exclusive) of its last range in each partition."""
        ends: dict[TopicPartition, int] = {}
        for tp, _, end in self.head.stretches:
            ends[tp] = max(end, ends.get(tp, 0))
        return ends


class Folder:
    """The folder of one lane's files; caches their head lines."""

    def __init__(self, root: Path, lane: str) -> None:
        """`root`: `archive.path`."""
        self.root, self.lane, self.path = root, lane, root / lane
        self._known: dict[str, ArchiveFile] = {}
        #: faults of files without a readable head, by path; as of the last listing
        self.unreadable: dict[Path, str] = {}

    def files(self) -> list[ArchiveFile]:
        """Committed files that no other file contains, by epoch; none if there is no folder. Files without a readable
        head are left out, see `unreadable`."""
        files = self.all_files()
        contained = {one.name for one in _contained(files)}
        return [one for one in files if one.name not in contained]

    def superseded(self) -> list[ArchiveFile]:
        """Committed files whose epochs are all in a larger file: left by a death before they were deleted."""
        return _contained(self.all_files())

    def all_files(self) -> list[ArchiveFile]:
        """All committed files with a readable head, by epoch."""
        self.unreadable = {}
        with translated_io(self.path, "looking for files"):
            found = [self._file(path, name) for path, name in self._named("")]
        self._known = {one.path.name: one for one in found if one}
        return sorted((one for one in found if one), key=lambda one: one.name)

    def parts(self) -> list[Name]:
        """The names of uncommitted files."""
        with translated_io(self.path, "looking for files"):
            return sorted(name for _, name in self._named(PART))

    def stretches(self) -> Iterable[Stretch]:
        """The offset ranges of all files."""
        return [stretch for one in self.files() for stretch in one.head.stretches]

    def check_topics(self, cluster: str, topics: Mapping[str, str]) -> None:
        """Raise TopicChanged if a file is of another cluster or other topics (name -> Kafka's id)."""
        for one in self.files():
            for topic, known in one.head.topics.items():
                if topics.get(topic, known) != known or one.head.cluster != cluster:
                    raise TopicChanged(
                        f"archive {one.path} holds messages of another topic {topic} (id {known}, cluster "
                        f"{one.head.cluster})",
                        hint="its offsets mean other messages: give this lane another archive.path",
                    )

    def _named(self, prefix: str) -> list[tuple[Path, Name]]:
        paths = list(self.path.iterdir()) if self.path.is_dir() else []
        mine = [path for path in paths if path.name.startswith(prefix)]
        named = [(path, Name.parse(path.name.removeprefix(prefix))) for path in mine]
        return [(path, name) for path, name in named if name is not None and name.lane == self.lane]

    def _file(self, path: Path, name: Name) -> ArchiveFile | None:
        known = self._known.get(path.name)
        try:
            size = path.stat().st_size
            if known is not None and known.bytes == size:
                return known
            return ArchiveFile(path=path, name=name, head=head_of(path), bytes=size)
        except FileNotFoundError:  # the rotation has combined it with others
            return None
        except Diverged as error:
            self.unreadable[path] = error.message
            return None


def _contained(files: Iterable[ArchiveFile]) -> list[ArchiveFile]:
    """The files of which another file has all epochs, and more."""
    several = [(one, one.epochs) for one in files if one.name.first != one.name.last]
    return [
        one
        for one in files
        if any(one is not other and one.name.first in epochs and one.epochs < epochs for other, epochs in several)
    ]
