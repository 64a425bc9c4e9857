"""Many small files made one, and old ones deleted. Crash-safe and idempotent, whenever it dies:

    .part-<first>..<last>  written -> fsync -> rename -> the files it is made of are deleted

Before the rename nothing has changed. After it, readers take the larger file (`Folder.files`), and the next round
deletes what is left of the others. A file that is broken is left as it is.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import structlog

from app import failpoint
from app.archive.committed_files import ArchiveFile, Folder
from app.archive.file import FileWriter, message_lines, sync_folder, verify
from app.archive.io_errors import telling
from app.archive.line_format import VERSION, HeadLine
from app.archive.names import Name
from app.errors import Diverged, SurelaneError
from app.model.offsets import TopicPartition

log = structlog.get_logger()

#: committed epochs, or seconds, between two rounds
ROUND_EPOCHS = 500
ROUND_SECONDS = 30.0
#: so many small files are combined at once, however young and small: a folder of millions is slow
MANY_FILES = 1_000


@dataclass(frozen=True, kw_only=True)
class Policy:
    """When files are combined, and when they go."""

    #: compressed; files of so many bytes are left alone
    file_bytes: int
    #: seconds after which small ones are combined, however few
    file_age: float
    #: seconds that a file is kept after its newest epoch was written; None: for ever
    keep_age: float | None
    #: compressed bytes of the lane that are kept; None: all
    keep_bytes: int | None
    level: int


class Rotation:
    """Of one lane's folder. `notice` after each commit; a thread of its own does the work now and then."""

    def __init__(self, folder: Folder, policy: Policy) -> None:
        self._folder, self._policy = folder, policy
        self._thread = ThreadPoolExecutor(1, "archive-rotation")
        self._lock = threading.Lock()
        self._running = False
        self._epochs, self._looked_at = 0, 0.0

    def notice(self) -> None:
        """Another file is committed."""
        with self._lock:
            self._epochs += 1
            due = self._epochs >= ROUND_EPOCHS or time.monotonic() - self._looked_at > ROUND_SECONDS
            if self._running or not due:
                return
            self._running, self._epochs, self._looked_at = True, 0, time.monotonic()
            self._thread.submit(self._round)

    def close(self) -> None:
        """Wait for what is going on."""
        self._thread.shutdown()

    def _round(self) -> None:
        try:
            self.round()
        except SurelaneError as error:  # the lane is none the worse for it; the next round tries again
            log.warning("archive not rotated", lane=self._folder.lane, because=error.message)
        finally:
            self._running = False

    def round(self) -> None:
        """Look at everything once, and do what is due."""
        self._delete(self._folder.superseded())
        for group in groups(self._folder.files(), self._policy, time.time()):
            sound = [one for one in group if self._is_sound(one)]
            if len(sound) > 1:
                self._combine(sound)
        old = outdated(self._folder.files(), self._policy, time.time())
        if old:
            log.info("archive: outdated files deleted", lane=self._folder.lane, files=[str(one.name) for one in old])
            self._delete(old)

    def _is_sound(self, one: ArchiveFile) -> bool:
        try:
            with telling(self._folder.path, f"reading {one.name}"):
                verify(one.path)
        except Diverged as error:
            log.warning("archive: a file is broken", lane=self._folder.lane, because=error.message)
            return False
        return True

    def _combine(self, group: Sequence[ArchiveFile]) -> None:
        first, last = group[0], group[-1]
        name = Name(self._folder.lane, first.name.first, last.name.last)
        topics = {topic: known for one in group for topic, known in one.head.topics.items()}
        epochs = [epoch for one in group for epoch in one.head.epochs]
        head = HeadLine(VERSION, name.lane, first.head.cluster, topics, epochs)
        part = self._folder.path / name.part
        with telling(self._folder.path, f"combining {len(group)} files"):
            try:
                self._copy(group, FileWriter(part, head, self._policy.level))
                failpoint.reach("archive-before-combined")
                part.rename(self._folder.path / str(name))
                sync_folder(self._folder.path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        failpoint.reach("archive-after-combined")
        self._delete(group)
        log.info("archive: files combined", lane=self._folder.lane, files=len(group), into=str(name))

    def _copy(self, group: Sequence[ArchiveFile], writer: FileWriter) -> None:
        try:
            for one in group:
                for line in message_lines(one.path):
                    writer.write_line(line)
            writer.end()
        finally:
            writer.close()

    def _delete(self, files: Iterable[ArchiveFile]) -> None:
        paths: list[Path] = [one.path for one in files]
        with telling(self._folder.path, "deleting files"):
            for path in paths:
                path.unlink(missing_ok=True)
            if paths:
                sync_folder(self._folder.path)


def groups(files: Sequence[ArchiveFile], policy: Policy, now: float) -> Iterator[list[ArchiveFile]]:
    """Neighbours that are to be one file. `files` by epoch."""
    for run in _runs(files, policy):
        size, group = 0, list[ArchiveFile]()
        for one in run:
            group.append(one)
            size += one.bytes
            if size >= policy.file_bytes:
                if len(group) > 1:
                    yield group
                size, group = 0, []
        # what was combined before waits for nothing: else it would be made anew with each epoch that follows
        singles = [one.at for one in group if one.name.first == one.name.last]
        is_old = bool(singles) and now - min(singles) >= policy.file_age
        if len(group) > 1 and (is_old or len(group) >= MANY_FILES):
            yield group


def outdated(files: Sequence[ArchiveFile], policy: Policy, now: float) -> list[ArchiveFile]:
    """From the oldest on; the newest file stays whatever it is."""
    left, found = sum(one.bytes for one in files), list[ArchiveFile]()
    for one in files[:-1]:
        too_old = policy.keep_age is not None and now - one.at > policy.keep_age
        too_much = policy.keep_bytes is not None and left > policy.keep_bytes
        if not (too_old or too_much):
            break
        found.append(one)
        left -= one.bytes
    return found


def _runs(files: Sequence[ArchiveFile], policy: Policy) -> Iterator[list[ArchiveFile]]:
    """Small files side by side, of one cluster and its topics, whose offsets ascend, as they do in what is made of
    them."""
    run: list[ArchiveFile] = []
    ends: dict[TopicPartition, int] = {}
    topics: dict[str, str] = {}
    for one in files:
        small = one.bytes < policy.file_bytes
        if run and not (small and _continues(run[-1], ends, topics, one)):
            yield run
            run, ends, topics = [], {}, {}
        if small:
            run.append(one)
            ends.update(one.ends())
            topics.update(one.head.topics)
    yield run


def _continues(
    before: ArchiveFile, ends: dict[TopicPartition, int], topics: dict[str, str], after: ArchiveFile
) -> bool:
    same = before.head.cluster == after.head.cluster
    same = same and all(topics.get(topic, known) == known for topic, known in after.head.topics.items())
    return same and all(start >= ends.get(tp, 0) for tp, start, _ in after.head.stretches)
