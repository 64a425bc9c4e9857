"""Combines small files and deletes old ones. Idempotent, and safe at any crash:

    write .part-<first>..<last> -> fsync -> rename -> delete the files that it combines

Before the rename nothing has changed. After it, readers use the larger file (`Folder.files`), and the next round
deletes the remaining small ones. A broken file is left as it is.
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
from app.archive.io_errors import translated_io
from app.archive.line_format import VERSION, HeadLine
from app.archive.names import Name
from app.errors import Diverged, SurelaneError
from app.model.offsets import TopicPartition

log = structlog.get_logger()

#: committed epochs, or seconds, between two rounds
ROUND_EPOCHS = 500
ROUND_SECONDS = 30.0
#: number of small files that are combined whatever their age and size: a folder of millions is slow
MANY_FILES = 1_000


@dataclass(frozen=True, kw_only=True)
class Policy:
    """When to combine files, and when to delete them."""

    #: compressed bytes; larger files are not combined
    file_bytes: int
    #: seconds after which small files are combined, however few
    file_age: float
    #: seconds to keep a file after its newest epoch was written; None: for ever
    keep_age: float | None
    #: compressed bytes to keep of the lane; None: all
    keep_bytes: int | None
    level: int


class Rotation:
    """The rotation of one lane's folder. Call `notice` after each commit; a separate thread does the rounds."""

    def __init__(self, folder: Folder, policy: Policy) -> None:
        self._folder, self._policy = folder, policy
        self._thread = ThreadPoolExecutor(1, "archive-rotation")
        self._lock = threading.Lock()
        self._running = False
        self._epochs, self._round_at = 0, 0.0

    def notice(self) -> None:
        """Count a committed file; start a round if one is due."""
        with self._lock:
            self._epochs += 1
            due = self._epochs >= ROUND_EPOCHS or time.monotonic() - self._round_at > ROUND_SECONDS
            if self._running or not due:
                return
            self._running, self._epochs, self._round_at = True, 0, time.monotonic()
            self._thread.submit(self._round)

    def close(self) -> None:
        """Wait for the running round."""
        self._thread.shutdown()

    def _round(self) -> None:
        try:
            self.round()
        except SurelaneError as error:  # the lane is not affected; the next round tries again
            log.warning("archive not rotated", lane=self._folder.lane, because=error.message)
        finally:
            self._running = False

    def round(self) -> None:
        """Do one round: delete superseded files, combine small ones, delete outdated ones."""
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
            with translated_io(self._folder.path, f"reading {one.name}"):
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
        with translated_io(self._folder.path, f"combining {len(group)} files"):
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
        with translated_io(self._folder.path, "deleting files"):
            for path in paths:
                path.unlink(missing_ok=True)
            if paths:
                sync_folder(self._folder.path)


def groups(files: Sequence[ArchiveFile], policy: Policy, now: float) -> Iterator[list[ArchiveFile]]:
    """The groups of neighbouring files to combine. `files`: by epoch."""
    for run in _runs(files, policy):
        size, group = 0, list[ArchiveFile]()
        for one in run:
            group.append(one)
            size += one.bytes
            if size >= policy.file_bytes:
                if len(group) > 1:
                    yield group
                size, group = 0, []
        # only single epochs age: else a combined file would be combined again with each epoch that follows
        singles = [one.at for one in group if one.name.first == one.name.last]
        is_old = bool(singles) and now - min(singles) >= policy.file_age
        if len(group) > 1 and (is_old or len(group) >= MANY_FILES):
            yield group


def outdated(files: Sequence[ArchiveFile], policy: Policy, now: float) -> list[ArchiveFile]:
    """The files to delete, from the oldest on; never the newest file."""
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
    """Runs of neighbouring small files of the same cluster and topics, with ascending offsets, as a combined file needs
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
