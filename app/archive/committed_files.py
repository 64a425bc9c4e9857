"""The committed files of one lane, by what they hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.archive.file import head_of
from app.archive.io_errors import telling
from app.archive.line_format import HeadLine
from app.archive.names import PART, EpochId, Name
from app.archive.offset_ranges import Stretch
from app.errors import Diverged, TopicChanged
from app.model.offsets import TopicPartition


@dataclass(frozen=True, kw_only=True)
class ArchiveFile:
    """One committed file."""

    path: Path
    name: Name
    head: HeadLine
    bytes: int

    @property
    def epochs(self) -> set[EpochId]:
        """That it holds."""
        return {one.id for one in self.head.epochs}

    @property
    def at(self) -> float:
        """When its newest epoch was written, seconds since 1970."""
        return max(one.at for one in self.head.epochs)

    def ends(self) -> dict[TopicPartition, int]:
        """Behind its last stretch of each partition."""
        ends: dict[TopicPartition, int] = {}
        for tp, _, end in self.head.stretches:
            ends[tp] = max(end, ends.get(tp, 0))
        return ends


class Folder:
    """Where the files of one lane are; remembers what is in them."""

    def __init__(self, root: Path, lane: str) -> None:
        """`root`: `archive.path`."""
        self.root, self.lane, self.path = root, lane, root / lane
        self._known: dict[str, ArchiveFile] = {}
        #: what is wrong with files that say nothing of themselves, by path, as of the last look
        self.unreadable: dict[Path, str] = {}

    def files(self) -> list[ArchiveFile]:
        """Committed ones that no other contains, by epoch; none where there is no folder. One that does not even say
        what is in it is passed over, see `unreadable`."""
        files = self.all_files()
        contained = {one.name for one in _contained(files)}
        return [one for one in files if one.name not in contained]

    def superseded(self) -> list[ArchiveFile]:
        """Committed ones whose epochs are all in a larger one: a death between its rename and their end."""
        return _contained(self.all_files())

    def all_files(self) -> list[ArchiveFile]:
        """Every committed one, by epoch."""
        self.unreadable = {}
        with telling(self.path, "looking for files"):
            found = [self._file(path, name) for path, name in self._named("")]
        self._known = {one.path.name: one for one in found if one}
        return sorted((one for one in found if one), key=lambda one: one.name)

    def parts(self) -> list[Name]:
        """What is not committed."""
        with telling(self.path, "looking for files"):
            return sorted(name for _, name in self._named(PART))

    def stretches(self) -> Iterable[Stretch]:
        """Everything that is kept."""
        return [stretch for one in self.files() for stretch in one.head.stretches]

    def check_topics(self, cluster: str, topics: Mapping[str, str]) -> None:
        """Raises TopicChanged for files of other topics than these (name -> Kafka's id)."""
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
        except FileNotFoundError:  # combined with others meanwhile
            return None
        except Diverged as error:
            self.unreadable[path] = error.message
            return None


def _contained(files: Iterable[ArchiveFile]) -> list[ArchiveFile]:
    """Those that another one has all epochs of, and more."""
    several = [(one, one.epochs) for one in files if one.name.first != one.name.last]
    return [
        one
        for one in files
        if any(one is not other and one.name.first in epochs and one.epochs < epochs for other, epochs in several)
    ]
