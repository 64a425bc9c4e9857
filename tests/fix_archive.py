"""Archives of lanes without Kafka: messages of one partition, and folders of epochs."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event

from app.archive.archive_participant import Archive
from app.archive.committed_files import Folder
from app.archive.file import Block, blocks
from app.archive.reader import ArchiveReader
from app.archive.rotation import Policy
from app.model.gid import Gid
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.protocol.participant import Work

CLUSTER, LANE = "a cluster", "orders"
#: combine nothing, delete nothing
IDLE = Policy(file_bytes=1 << 30, file_age=3600.0, keep_age=None, keep_bytes=None, level=3)


class Given:
    """Messages that exist, for `app.archive.archive_participant.Read`."""

    def __init__(self, messages: Sequence[RawMessage]) -> None:
        self.messages = messages

    def read(self, span: Span, _stop: Event) -> Iterator[Block]:
        """Those of the span."""
        return blocks(self._of(span), 3)

    def _of(self, span: Span) -> Iterable[RawMessage]:
        for one in self.messages:
            position = one.position
            if span.start.get(position.tp, 0) <= position.offset < span.end.get(position.tp, 0):
                yield one


def message(tp: TopicPartition, offset: int, value: bytes | None = b"v") -> RawMessage:
    """One at that offset."""
    position = Position(*tp, offset)
    return RawMessage(position=position, key=b"%d" % offset, value=value, headers=(), timestamp_ms=offset)


def work(generation: int, epoch: int, lane: str = LANE, **spans: tuple[int, int]) -> Work:
    """An epoch over partition 0 of each topic."""
    start = {TopicPartition(topic, 0): pair[0] for topic, pair in spans.items()}
    end = {TopicPartition(topic, 0): pair[1] for topic, pair in spans.items()}
    return Work(gid=Gid(lane, generation, epoch), span=Span(start=Offsets.of(start), end=Offsets.of(end)))


class Kept:
    """The archive of a lane in a folder; every offset of every topic has a message."""

    def __init__(self, root: Path, lane: str = LANE) -> None:
        self.root, self.folder = root, Folder(root, lane)
        self.reader = ArchiveReader(root, lane)

    def opened(self, topics: dict[str, str] | None = None) -> Archive:
        """As a new process does."""
        made = Archive(Folder(self.root, self.folder.lane), _everything, 3)
        made.open(CLUSTER, topics or {})
        return made

    def epoch(self, generation: int, number: int, **spans: tuple[int, int]) -> None:
        """Committed."""
        archive = self.opened()
        one = work(generation, number, self.folder.lane, **spans)
        archive.begin(one)
        archive.pre_commit()
        archive.commit(one.gid)
        archive.close()

    def names(self) -> list[str]:
        """Of all files."""
        return sorted(path.name for path in self.folder.path.iterdir())

    def offsets(self, topic: str, end: int) -> list[int]:
        """That can be read from 0 on."""
        return [one.position.offset for one in self.reader.read(topic, 0, 0, end)]


def _everything(span: Span, _stop: Event) -> Iterator[Block]:
    return blocks((message(tp, at) for tp, end in span.end.items() for at in range(span.start[tp], end)), 3)


def now() -> float:
    """Seconds since 1970."""
    return time.time()
