"""The reading side: what the archive of a lane holds, and the messages themselves, as Kafka would give them.

Reads beside a lane that writes: a file that is combined with others while it is looked for is found in the larger one.
Every file is verified, whole, before the first of its messages is given.
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

#: how often the files are looked for anew while others combine them
_TRIES = 5
#: behind every offset
_FAR = 1 << 62


class ArchiveReader:
    """Of one lane; `root` is `archive.path`."""

    def __init__(self, root: Path, lane: str) -> None:
        self.lane = lane
        self._folder = Folder(root, lane)
        #: files that are what was written
        self._verified: set[str] = set()

    def spans(self) -> Kept:
        """What is held of each partition: ranges of offsets, start inclusive, end exclusive."""
        return union(self._folder.stretches())

    def gaps(self) -> list[Stretch]:
        """What is missing between the first and the last position of each partition."""
        return gaps(self.spans())

    def reach(self, position: Offsets) -> Offsets:
        """Up to where everything from `position` on is held; the position itself where nothing of it is."""
        return reach(self.spans(), position)

    def topics(self) -> tuple[set[str], Mapping[str, set[str]]]:
        """Kafka's ids of the clusters and of each topic that the files are of; one of each unless they were mixed."""
        clusters, topics = set[str](), dict[str, set[str]]()
        for one in self._folder.files():
            clusters.add(one.head.cluster)
            for topic, known in one.head.topics.items():
                topics.setdefault(topic, set()).add(known)
        return clusters, topics

    def check_topics(self, cluster: str, topics: Mapping[str, str]) -> None:
        """Raises TopicChanged for files of other topics than these (name -> Kafka's id)."""
        self._folder.check_topics(cluster, topics)

    def faults(self) -> list[str]:
        """What is wrong with which file, after reading all of them."""
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
        """The messages from `start` up to `end` (exclusive), in order. Raises Diverged in front of the first offset
        that is not held, or of a file that is broken."""
        tp, at = TopicPartition(topic, partition), start
        while at < end:
            file, until = self._opened(tp, at)
            for message in file:
                if message.position.tp == tp and at <= message.position.offset < min(until, end):
                    yield message
                    at = message.position.offset + 1
            at = max(at, until)

    def epochs(self, position: Offsets) -> Iterator[tuple[Offsets, list[RawMessage]]]:
        """What lies behind `position`, epoch by epoch as it was applied: where each one ends, and its messages. Raises
        Diverged in front of what is not held, which is the archive's end at last."""
        at = position
        while True:
            for end, found in self._file_epochs(self._next(at), at):
                yield end, found
                at = end

    def _opened(self, tp: TopicPartition, at: int) -> tuple[Iterator[RawMessage], int]:
        """The file that has `at`, open, and up to where it is whole from there on."""
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
        """The first file that goes on from `at`: it has something behind it, and leaves nothing out before that."""
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
    """Whether nothing of `goal` lies behind `at`."""
    return all(at.get(tp, 0) >= offset for tp, offset in goal.items())


def not_held(lane: str, *stretches: Stretch) -> Diverged:
    """Nobody has it."""
    said = ", ".join(f"{one.tp} {one.start}" for one in stretches)
    return Diverged(
        f"the archive of lane {lane} does not go on from {said}",
        hint="`surelane recover plan` says from which snapshot everything is there",
    )


def _is_in(message: RawMessage, stretches: list[Stretch]) -> bool:
    position = message.position
    return any(tp == position.tp and start <= position.offset < end for tp, start, end in stretches)
