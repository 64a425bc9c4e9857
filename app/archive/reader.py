"""Reads the archive of a lane: the offset ranges that it has, and the messages as Kafka would give them.

May read while a lane writes: if the rotation combines a file meanwhile, the reader finds its messages in the larger
one. Each file is verified as a whole before its first message is returned.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from app.archive.committed_files import ArchiveFile, Folder
from app.archive.file import message_lines, messages, verify
from app.archive.line_format import read_message
from app.archive.offset_ranges import Kept, Stretch, gaps, reach, union
from app.errors import Diverged, SurelaneError
from app.model.message import RawMessage
from app.model.offsets import Offsets, TopicPartition

#: how often the files are listed again while the rotation combines them
_TRIES = 5
#: larger than any offset
_FAR = 1 << 62


class ArchiveReader:
    """Reads one lane's archive; `root`: `archive.path`."""

    def __init__(self, root: Path, lane: str) -> None:
        self.lane = lane
        self._folder = Folder(root, lane)
        #: names of verified files
        self._verified: set[str] = set()

    def spans(self) -> Kept:
        """The kept offset ranges by partition: start inclusive, end exclusive."""
        return union(self._folder.stretches())

    def gaps(self) -> list[Stretch]:
        """The missing ranges between the first and the last offset of each partition."""
        return gaps(self.spans())

    def reach(self, position: Offsets) -> Offsets:
        """The ends (exclusive) up to which all offsets from `position` on are kept; `position` itself where none is."""
        return reach(self.spans(), position)

    def topics(self) -> tuple[set[str], Mapping[str, set[str]]]:
        """Kafka's ids of the files' clusters, and of each topic; one of each unless the files are mixed."""
        clusters, topics = set[str](), dict[str, set[str]]()
        for one in self._folder.files():
            clusters.add(one.head.cluster)
            for topic, known in one.head.topics.items():
                topics.setdefault(topic, set()).add(known)
        return clusters, topics

    def check_topics(self, cluster: str, topics: Mapping[str, str]) -> None:
        """Raise TopicChanged if a file is of another cluster or other topics (name -> Kafka's id)."""
        self._folder.check_topics(cluster, topics)

    def faults(self) -> list[str]:
        """Verify all files; one text for each broken one."""
        found: list[str] = []
        for one in self._folder.files():
            try:
                verify(one.path)
            except FileNotFoundError:
                continue
            except SurelaneError as error:
                found.append(error.message)
        return found + sorted(self._folder.unreadable.values())

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RawMessage]:
        """The messages from `start` (inclusive) to `end` (exclusive), in order. Raises Diverged at the first offset
        that is not kept, or at a broken file."""
        tp, at = TopicPartition(topic, partition), start
        while at < end:
            file, until = self._opened(tp, at)
            for message in file:
                if message.position.tp == tp and at <= message.position.offset < min(until, end):
                    yield message
                    at = message.position.offset + 1
            at = max(at, until)

    def epochs(self, position: Offsets) -> Iterator[tuple[Offsets, list[RawMessage]]]:
        """The messages from `position` on, by epoch as applied: each epoch's end and its messages. Raises Diverged at
        the first position that is not kept, at the latest at the archive's end."""
        at = position
        while True:
            for end, found in self._file_epochs(self._next(at), at):
                yield end, found
                at = end

    def _opened(self, tp: TopicPartition, at: int) -> tuple[Iterator[RawMessage], int]:
        """The messages of the file that has offset `at`, and the end (exclusive) of its range there."""
        for _ in range(_TRIES):
            for one in self._folder.files():
                ranges = union(stretch for stretch in one.head.stretches if stretch.tp == tp).get(tp, [])
                until = next((end for start, end in ranges if start <= at < end), None)
                if until is None:
                    continue
                try:
                    self._verify(one)
                    return messages(one.path), until
                except FileNotFoundError:
                    break
            else:
                break
        raise not_held(self.lane, Stretch(tp, at, at + 1))

    def _next(self, at: Offsets) -> ArchiveFile:
        """The first file with messages from `at` on and no gap before them; verified."""
        files = self._folder.files()
        for one in files:
            ranges = union(stretch for stretch in one.head.stretches if stretch.tp in at)
            behind = {tp: [start for start, end in known if end > at[tp]] for tp, known in ranges.items()}
            firsts = {tp: starts[0] for tp, starts in behind.items() if starts}
            if firsts and all(start <= at[tp] for tp, start in firsts.items()):
                self._verify(one)
                return one
        raise not_held(self.lane, *(Stretch(tp, offset, offset + 1) for tp, offset in at.items()))

    def _file_epochs(self, file: ArchiveFile, at: Offsets) -> Iterator[tuple[Offsets, list[RawMessage]]]:
        lines = map(read_message, message_lines(file.path))
        held = next(lines, None)
        for epoch in file.head.epochs:
            found: list[RawMessage] = []
            stretches = epoch.stretches
            while held is not None and _is_in(held, stretches):
                found.append(held)
                held = next(lines, None)
            before, moved = at, {tp: end for tp, start, end in stretches if tp in at and start <= at[tp] < end}
            if moved:
                at = at.updated(moved)
                yield (
                    at,
                    [
                        one
                        for one in found
                        if before.get(one.position.tp, _FAR) <= one.position.offset < at[one.position.tp]
                    ],
                )

    def _verify(self, one: ArchiveFile) -> None:
        if one.path.name not in self._verified:
            verify(one.path)
            self._verified.add(one.path.name)


def reached(at: Offsets, goal: Mapping[TopicPartition, int]) -> bool:
    """Whether `at` has reached every offset of `goal`."""
    return all(at.get(tp, 0) >= offset for tp, offset in goal.items())


def not_held(lane: str, *stretches: Stretch) -> Diverged:
    """The error for offsets that the archive does not keep."""
    starts = ", ".join(f"{one.tp} {one.start}" for one in stretches)
    return Diverged(
        f"the archive of lane {lane} does not go on from {starts}",
        hint="`surelane recover plan` says from which snapshot everything is there",
    )


def _is_in(message: RawMessage, stretches: list[Stretch]) -> bool:
    position = message.position
    return any(tp == position.tp and start <= position.offset < end for tp, start, end in stretches)
