"""The archive as a participant of an epoch. See `app.archive` for the steps."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Protocol

import structlog

from app import failpoint
from app.archive.file import Block, FileWriter, sync_folder
from app.archive.folder import Folder
from app.archive.lines import VERSION, EpochLine, Head
from app.archive.names import Name
from app.archive.stretches import Kept, Stretch, missing, union
from app.archive.trouble import telling
from app.commit.participant import Work
from app.errors import Diverged, EnvironmentMissing
from app.model.gid import Gid
from app.model.offsets import Offsets, Span, TopicPartition
from app.private import FOLDER_MODE

log = structlog.get_logger()

#: offsets of a partition that are asked for at once, and are in memory then
PIECE = 5_000


class Messages(Protocol):
    """Where the messages come from: tasks that read them (`app.source.kept`)."""

    def read(self, span: Span) -> Iterable[Block]:
        """All of them, each partition's in order, or what Kafka's reader raises. Spans mostly follow each other."""
        ...

    def close(self) -> None:
        """Whoever reads gives up. From any thread."""
        ...


@dataclass
class _Begun:
    """An epoch that is being written."""

    name: Name
    stretches: list[Stretch]
    stop: Event
    writing: "Future[FileWriter]"


class Archive:
    """The archive of one lane. See Participant. `open` before an opening settles what the last one left."""

    def __init__(
        self, folder: Folder, messages: Callable[[], Messages], level: int, committed: Callable[[], None] = lambda: None
    ) -> None:
        """`messages`: asked for when the first epoch is written; `committed`: called when another file is there."""
        self._folder, self._make, self._level, self._committed = folder, messages, level, committed
        self._messages: Messages | None = None
        self._thread = ThreadPoolExecutor(1, "archive")
        self._begun: _Begun | None = None
        self._changing = Lock()
        self._kept: Kept | None = None
        self._cluster, self._topics = "", dict[str, str]()

    def open(self, cluster: str, topics: dict[str, str]) -> None:
        """Look whether it can be written, and is of these topics (name -> Kafka's id). Raises EnvironmentMissing,
        TopicChanged."""
        self._cluster, self._topics, self._kept = cluster, topics, None
        root, path = self._folder.root, self._folder.path
        with telling(root, "looking for it"):
            is_there = root.is_dir()
        if not is_there:
            raise EnvironmentMissing(
                f"archive: there is no folder {root}",
                hint=f"mkdir -p {root}, for the lane's user; or mount what belongs there: it is not made, because a "
                "missing mount looks the same. Without an archive: remove archive from the configuration",
            )
        with telling(path, "is it writable"):
            path.mkdir(mode=FOLDER_MODE, exist_ok=True)
            self._sweep()
        self._folder.check_topics(cluster, topics)

    def _sweep(self) -> None:
        """Parts of files that were to combine others: the others are still there."""
        if not os.access(self._folder.path, os.W_OK | os.X_OK):
            raise PermissionError(13, "not writable", str(self._folder.path))
        for name in self._folder.parts():
            if name.gid is None:
                (self._folder.path / name.part).unlink(missing_ok=True)

    def begin(self, work: Work) -> None:
        """A thread writes beside the lane's; nothing where everything is kept already."""
        stretches = missing(self.kept(), work.span)
        if not stretches:
            return
        name, stop = Name.of(work.gid), Event()
        writing = self._thread.submit(self._write, name, stretches, work.span.end, stop)
        self._begun = _Begun(name, stretches, stop, writing)

    def pre_commit(self) -> None:
        """Wait for the thread; fsync of file and folder."""
        begun = self._begun
        if begun is None:
            return
        writer = begun.writing.result()
        failpoint.reach("archive-before-fsync")
        with telling(self._folder.path, f"writing {begun.name}"):
            writer.end()
            sync_folder(self._folder.path)
        failpoint.reach("archive-after-fsync")

    def commit(self, gid: Gid) -> None:
        """Rename, on disk. Nothing to do where the epoch's messages were kept already."""
        name = Name.of(gid)
        part, path = self._folder.path / name.part, self._folder.path / str(name)
        with self._changing:
            begun = self._begun if self._begun and self._begun.name == name else None
            failpoint.reach("archive-before-rename")
            with telling(self._folder.path, f"committing {name}"):
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
        """Remove it."""
        name = Name.of(gid)
        with self._changing:
            begun = self._begun
            if begun is not None and begun.name == name:
                self._begun = None
                begun.stop.set()
                if begun.writing.exception() is None:
                    begun.writing.result().close()
            with telling(self._folder.path, f"removing {name.part}"):
                (self._folder.path / name.part).unlink(missing_ok=True)
        return True

    def handles(self) -> list[Gid]:
        """By the names of what is there."""
        return [gid for name in self._folder.parts() if (gid := name.gid) is not None]

    def kept(self) -> Kept:
        """What is committed, of each partition."""
        if self._kept is None:
            self._kept = union(self._folder.stretches())
        return self._kept

    def close(self) -> None:
        """Give up what is being read and written; `open` may follow. What is pre-committed stays."""
        begun, self._begun = self._begun, None
        messages, self._messages = self._messages, None
        if begun is not None:
            begun.stop.set()
        if messages is not None:
            messages.close()
        if begun is not None and begun.writing.exception() is None:
            begun.writing.result().close()

    def _write(self, name: Name, stretches: list[Stretch], end: Offsets, stop: Event) -> FileWriter:
        messages = self._messages
        if messages is None:
            messages = self._messages = self._make()
        topics = {tp.topic: self._topics.get(tp.topic, "") for tp, _, _ in stretches}
        epoch = EpochLine.of(name.first, time.time(), stretches)
        head = Head(VERSION, name.lane, self._cluster, topics, [epoch])
        with telling(self._folder.path, f"writing {name}"):
            writer = FileWriter(self._folder.path / name.part, head, self._level)
            try:
                for piece in pieces(stretches, end):
                    if stop.is_set():
                        break
                    for block in messages.read(piece):
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
            hint="somebody removed it, or a newer writer did: look who else works there, then start the lane again. "
            "The target has the epoch",
        )


def pieces(stretches: Iterable[Stretch], end: Offsets) -> Iterator[Span]:
    """Spans of at most PIECE offsets a partition, side by side. Each names every partition of `end`, so that a reader
    goes on from one to the next, and to the next epoch, without beginning anew."""
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
