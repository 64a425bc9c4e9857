"""The archive as a participant of an epoch; `app.archive` has the steps."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock

import structlog

from app import failpoint
from app.archive.committed_files import Folder
from app.archive.file import Block, FileWriter, sync_folder
from app.archive.io_errors import translated_io
from app.archive.line_format import VERSION, EpochLine, HeadLine
from app.archive.names import Name
from app.archive.offset_ranges import Kept, Stretch, missing, union
from app.errors import Diverged, EnvironmentMissing
from app.model.gid import Gid
from app.model.offsets import Offsets, Span, TopicPartition
from app.private import FOLDER_MODE
from app.protocol.participant import Work

log = structlog.get_logger()

#: offsets of a partition that one request reads into memory
PIECE = 5_000


#: reads all messages of the span, by partition in order; raises what Kafka's reader raises, and Unreachable soon after
#: the event is set
Read = Callable[[Span, Event], Iterable[Block]]


@dataclass
class _Begun:
    name: Name
    stretches: list[Stretch]
    stop: Event
    writing: "Future[FileWriter]"


class Archive:
    """The archive of one lane. See Participant. Call `open` before an opening settles what the last one left."""

    def __init__(self, folder: Folder, read: Read, level: int, committed: Callable[[], None] = lambda: None) -> None:
        """`level`: zstd's; `committed`: called after each commit."""
        self._folder, self._read, self._level, self._committed = folder, read, level, committed
        self._thread = ThreadPoolExecutor(1, "archive")
        self._begun: _Begun | None = None
        self._changing = Lock()
        self._kept: Kept | None = None
        self._cluster, self._topics = "", dict[str, str]()

    def open(self, cluster: str, topics: dict[str, str]) -> None:
        """Check that the folder is writable and of these topics (name -> Kafka's id). Raises EnvironmentMissing,
        TopicChanged."""
        self._cluster, self._topics, self._kept = cluster, topics, None
        root, path = self._folder.root, self._folder.path
        with translated_io(root, "looking for it"):
            is_there = root.is_dir()
        if not is_there:
            raise EnvironmentMissing(
                f"archive: there is no folder {root}",
                hint=f"mkdir -p {root}, for the lane's user; or mount what belongs there: it is not made, because a "
                "missing mount looks the same. Without an archive: remove archive from the configuration",
            )
        with translated_io(path, "is it writable"):
            path.mkdir(mode=FOLDER_MODE, exist_ok=True)
            self._sweep()
        self._folder.check_topics(cluster, topics)

    def _sweep(self) -> None:
        """Remove unfinished combined files: the files that they combine still exist."""
        if not os.access(self._folder.path, os.W_OK | os.X_OK):
            raise PermissionError(13, "not writable", str(self._folder.path))
        for name in self._folder.parts():
            if name.gid is None:
                (self._folder.path / name.part).unlink(missing_ok=True)

    def begin(self, work: Work) -> None:
        """Start to write the missing messages on another thread; do nothing if all are kept already."""
        stretches = missing(self.kept(), work.span)
        if not stretches:
            return
        name, stop = Name.of(work.gid), Event()
        writing = self._thread.submit(self._write, name, stretches, work.span.end, stop)
        self._begun = _Begun(name, stretches, stop, writing)

    def pre_commit(self) -> None:
        """Wait for the thread, end the file, fsync file and folder."""
        begun = self._begun
        if begun is None:
            return
        writer = begun.writing.result()
        failpoint.reach("archive-before-fsync")
        with translated_io(self._folder.path, f"writing {begun.name}"):
            writer.end()
            sync_folder(self._folder.path)
        failpoint.reach("archive-after-fsync")

    def commit(self, gid: Gid) -> None:
        """Rename the file and fsync the folder; no rename if the epoch's messages were kept already."""
        name = Name.of(gid)
        part, path = self._folder.path / name.part, self._folder.path / str(name)
        with self._changing:
            begun = self._begun if self._begun and self._begun.name == name else None
            failpoint.reach("archive-before-rename")
            with translated_io(self._folder.path, f"committing {name}"):
                try:
                    part.rename(path)
                except FileNotFoundError:
                    if begun is not None and not self._is_there(name):
                        raise self._gone(name) from None
                sync_folder(self._folder.path)
            failpoint.reach("archive-after-rename")
            if begun is not None and self._kept is not None:
                known = [Stretch(tp, *pair) for tp, pairs in self._kept.items() for pair in pairs]
                self._kept = union([*known, *begun.stretches])
            else:
                self._kept = None
            self._begun = None
        self._committed()

    def abort(self, gid: Gid) -> bool:
        """Stop the thread and remove the file."""
        name = Name.of(gid)
        with self._changing:
            begun = self._begun
            if begun is not None and begun.name == name:
                self._begun = None
                begun.stop.set()
                if begun.writing.exception() is None:
                    begun.writing.result().close()
            with translated_io(self._folder.path, f"removing {name.part}"):
                (self._folder.path / name.part).unlink(missing_ok=True)
        return True

    def handles(self) -> list[Gid]:
        """The gids in the names of uncommitted files."""
        return [gid for name in self._folder.parts() if (gid := name.gid) is not None]

    def kept(self) -> Kept:
        """Committed offset ranges of each partition."""
        if self._kept is None:
            self._kept = union(self._folder.stretches())
        return self._kept

    def close(self) -> None:
        """Stop reading and writing; `open` may follow. A pre-committed file stays."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.stop.set()
            if begun.writing.exception() is None:
                begun.writing.result().close()

    def _write(self, name: Name, stretches: list[Stretch], end: Offsets, stop: Event) -> FileWriter:
        topics = {tp.topic: self._topics.get(tp.topic, "") for tp, _, _ in stretches}
        epoch = EpochLine.of(name.first, time.time(), stretches)
        head = HeadLine(VERSION, name.lane, self._cluster, topics, [epoch])
        with translated_io(self._folder.path, f"writing {name}"):
            writer = FileWriter(self._folder.path / name.part, head, self._level)
            try:
                for piece in pieces(stretches, end):
                    if stop.is_set():
                        break
                    for block in self._read(piece, stop):
                        writer.write(block)
            except BaseException:
                writer.close()
                raise
        return writer

    def _is_there(self, name: Name) -> bool:
        return any(name.first in one.epochs for one in self._folder.files())

    def _gone(self, name: Name) -> Diverged:
        return Diverged(
            f"archive {self._folder.path}: epoch {name} was decided, and what was kept of it is gone",
            hint="another program or a newer writer removed it: find out which works there, then start the lane again. "
            "The target has the epoch",
        )


def pieces(stretches: Iterable[Stretch], end: Offsets) -> Iterator[Span]:
    """Spans of at most PIECE offsets per partition, all partitions at once. Each names every partition of `end`, so a
    reader goes on from one span to the next, and to the next epoch, without a new start."""
    left: dict[TopicPartition, deque[Stretch]] = {tp: deque() for tp in end}
    for one in stretches:
        left[one.tp].append(one)
    at = {tp: todo[0].start if todo else end[tp] for tp, todo in left.items()}
    while any(left.values()):
        start, until = dict(at), dict(at)
        for tp, todo in left.items():
            if todo:
                until[tp] = min(todo[0].end, at[tp] + PIECE)
                if until[tp] == todo[0].end:
                    todo.popleft()
                at[tp] = todo[0].start if todo and todo[0].start > until[tp] else until[tp]
        yield Span(start=Offsets.of(start), end=Offsets.of(until))
