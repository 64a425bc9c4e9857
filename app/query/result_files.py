"""A query's rows as files, a folder for each epoch: a participant of its epochs (`app.protocol.participant`).

    <files.path>/<lane>.<query>/
        .pending/000007-000000000041/00000-812.parquet    epoch 41 of generation 7: being written, or pre-committed
        000007-000000000040/part-00000.parquet            a committed epoch: all its rows

    make_room   make the pending folder
    staged      each task writes one file, under its partition and attempt, and syncs it
    pre_commit  remove the files of attempts without a receipt, rename the others, sync the folder
    commit      rename the folder: the epoch becomes visible as a whole
    abort       remove it

An epoch without rows has no folder. Names sort in the order of the epochs.
"""

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock

from pyspark.sql import DataFrame
from sqlalchemy import Connection

from app import failpoint
from app.archive.file import sync_folder
from app.archive.io_errors import translated_io
from app.config.queries import FileFormat, FilesSettings
from app.errors import Diverged, EnvironmentMissing
from app.model.gid import Gid
from app.private import FOLDER_MODE
from app.protocol.participant import Work
from app.query.result_sink import Written, as_json
from app.query.staged_files import FilePlace, staged_files
from app.query.staged_results import StagedPart

_PENDING = ".pending"
_NAME = re.compile(r"([0-9]{6,})-([0-9]{12,})")


class ResultFiles:
    """The files of one query; a ResultSink, and a Participant."""

    def __init__(self, query: str, config: FilesSettings, columns: Sequence[str]) -> None:
        """`columns`: of the result."""
        self._query, self._root, self._format, self._columns = query, Path(config.path), config.format, tuple(columns)
        self.path = self._root / query
        self._gid: Gid | None = None
        #: those of the epoch in progress
        self._receipts: Sequence[StagedPart] = ()
        self._changing = Lock()

    def __str__(self) -> str:
        return f"files in {self.path}"

    def open(self) -> None:
        """Check that the folder is there and writable. Raises EnvironmentMissing."""
        with self._translated("looking for it"):
            is_there = self._root.is_dir()
        if not is_there:
            raise EnvironmentMissing(
                f"lane {self._query}: there is no folder {self._root}",
                hint=f"mkdir -p {self._root}, for the query's user; or mount what belongs there: it is not made, "
                "because a missing mount looks the same",
            )
        with self._translated("is it writable"):
            self.path.mkdir(FOLDER_MODE, exist_ok=True)
            (self.path / _PENDING).mkdir(FOLDER_MODE, exist_ok=True)
            if not os.access(self.path / _PENDING, os.W_OK | os.X_OK):
                raise PermissionError(13, "not writable", str(self.path))

    def epochs(self) -> list[Path]:
        """The folders of committed epochs, in their order."""
        with self._translated("looking for epochs"):
            found = list(self.path.iterdir()) if self.path.is_dir() else []
        return sorted(one for one in found if _NAME.fullmatch(one.name))

    def make_room(self, connection: Connection, gid: Gid) -> None:
        """Remove what this writer or an older one left, too."""
        del connection
        for left in self.handles():
            if left.generation <= gid.generation:
                self.abort(left)
        self._gid, self._receipts = gid, ()
        with self._translated("beginning an epoch"):
            self._pending(gid).mkdir(FOLDER_MODE)

    def staged(self, rows: DataFrame) -> list[StagedPart]:
        assert self._gid is not None, "there is room"
        if self._format is FileFormat.JSONL_ZST:
            rows = rows.select(as_json(self._columns).alias("line"))
        return staged_files(rows, FilePlace(str(self._pending(self._gid)), self._format))

    def check(self, receipts: Sequence[StagedPart]) -> None:
        for one in receipts:
            if one.fault is not None:
                with self._translated("a task writes rows"):
                    raise OSError(int(one.fault), one.problem)

    def write(self, connection: Connection, gid: Gid, receipts: Sequence[StagedPart]) -> Written:
        del connection, gid
        self._receipts = [one for one in receipts if one.rows]
        return Written(sum(one.rows for one in receipts), 0)

    def begin(self, work: Work) -> None:
        """Do nothing: the tasks have written already."""

    def pre_commit(self) -> None:
        assert self._gid is not None, "there is room"
        folder = self._pending(self._gid)
        with self._translated(f"writing {folder.name}"):
            kept = {f"{one.part:05d}-{one.attempt}.{self._format}": one for one in self._receipts}
            for path in list(folder.iterdir()):
                if path.name not in kept:
                    path.unlink()
            for name, one in kept.items():
                (folder / name).rename(folder / f"part-{one.part:05d}.{self._format}")
            failpoint.reach("files-before-fsync")
            sync_folder(folder)
            sync_folder(folder.parent)
            if not kept:
                folder.rmdir()

    def commit(self, gid: Gid) -> None:
        """Rename the folder; no rename of an epoch without rows."""
        pending = self._pending(gid)
        path = self.path / pending.name
        with self._changing, self._translated(f"committing {path.name}"):
            failpoint.reach("files-before-rename")
            try:
                pending.rename(path)
            except FileNotFoundError:
                if gid == self._gid and self._receipts and not path.is_dir():
                    raise self._gone(path) from None
            sync_folder(self.path)
            failpoint.reach("files-after-rename")

    def abort(self, gid: Gid) -> bool:
        pending = self._pending(gid)
        with self._changing, self._translated(f"removing {pending.name}"):
            if pending.is_dir():
                shutil.rmtree(pending)
        return True

    def handles(self) -> list[Gid]:
        """Those of pending folders."""
        folder = self.path / _PENDING
        with self._translated("looking for what is pending"):
            names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        found = (_NAME.fullmatch(name) for name in sorted(names))
        return [Gid(self._query, int(match[1]), int(match[2])) for match in found if match]

    def close(self) -> None:
        """Nothing is open."""

    def _pending(self, gid: Gid) -> Path:
        return self.path / _PENDING / f"{gid.generation:06d}-{gid.epoch:012d}"

    def _translated(self, doing: str) -> AbstractContextManager[None]:
        return translated_io(self.path, doing, what="files", key="files.path")

    def _gone(self, path: Path) -> Diverged:
        return Diverged(
            f"lane {self._query}: epoch {path.name} was decided, and its files are gone from {path.parent / _PENDING}",
            hint="another program removed them: bring them back, or compute the result anew (docs/QUERIES.md, Files)",
        )
