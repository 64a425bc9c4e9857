"""Reads, creates, identifies and archives Spark's checkpoint of one lane.

It uses the Hadoop FileSystem that Spark itself uses, so a local disk and HDFS behave alike. `app.spark.entries` has the
meaning of the files.
"""

import json
import os
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from app.errors import Diverged
from app.model.offsets import Offsets
from app.spark.entries import IDENTITY_FILE, NEW_IDENTITY_FILE, CheckpointIdentity, Entries
from app.spark.local import RunningCheckpoint


class Checkpoint(Entries):
    """The checkpoint at `location` (a path or a URL of any Hadoop file system)."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(location)
        jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
        context: Any = spark._jsc  # pyright: ignore[reportPrivateUsage]
        self._path = jvm.org.apache.hadoop.fs.Path
        root = self._path(location)
        self._fs = root.getFileSystem(context.hadoopConfiguration())
        is_local = self._fs.getUri().getScheme() == "file"  # it lists no folder through a link
        folder = os.path.realpath(root.toUri().getPath()) if is_local else None
        #: None: it is on another file system than this machine's
        self.folder = None if folder is None else Path(folder)
        self._root = self._path(folder) if folder is not None else root
        #: what the running query has written: read without a call into the JVM where it is on this machine's disk, and
        #: without the checksums, which Spark compares when it starts
        self.written: Entries = self if folder is None else RunningCheckpoint(Path(folder))
        self._io = jvm.org.apache.commons.io.IOUtils
        self._utf8 = jvm.java.nio.charset.StandardCharsets.UTF_8

    def create(self, lane: str, start: Offsets) -> CheckpointIdentity:
        """Begin a new, empty checkpoint; call `archive` first if there is an old one."""
        identity = CheckpointIdentity(lane=lane, checkpoint=uuid.uuid4().hex, generation=0, start=start.to_json())
        self.write_identity(identity)
        return identity

    def write_identity(self, identity: CheckpointIdentity) -> None:
        """Replace surelane.json; killed at any point, `identity` finds the old or the new one.

        Not every file system can rename onto an existing file, so the old one is deleted first.
        """
        new, current = self._child(NEW_IDENTITY_FILE), self._child(IDENTITY_FILE)
        if self._fs.exists(new) and not self._fs.exists(current):
            self._rename(new, current)  # the last writer was killed just before this
        stream = self._fs.create(new, True)
        try:
            stream.write(bytearray(json.dumps(asdict(identity)).encode()))
        finally:
            stream.close()
        self._fs.delete(current, False)
        self._rename(new, current)

    def is_empty(self) -> bool:
        """Whether the checkpoint has nothing but surelane.json."""
        if not self._fs.exists(self._root):
            return True
        names = {str(status.getPath().getName()) for status in self._fs.listStatus(self._root)}
        return names <= {IDENTITY_FILE, NEW_IDENTITY_FILE}

    def archive(self) -> str:
        """Move the whole checkpoint aside. Returns where to."""
        target = f"{self._root.toString()}.{uuid.uuid4().hex[:8]}"
        self._rename(self._root, self._path(target))
        return target

    def delete(self) -> None:
        """Delete the whole checkpoint. Killed at any point it leaves one that is whole, or none, and perhaps files
        beside it."""
        self._fs.delete(self._path(self.archive()), True)

    def _names(self, folder: str) -> list[str]:
        path = self._child(folder)
        if not self._fs.exists(path):
            return []
        return [str(status.getPath().getName()) for status in self._fs.listStatus(path)]

    def _exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._child(name)))

    def _read(self, name: str) -> str | None:
        path = self._child(name)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return str(self._io.toString(stream, self._utf8))
        finally:
            stream.close()

    def _rename(self, old: Any, new: Any) -> None:
        if not self._fs.rename(old, new):
            raise Diverged(f"cannot move {old} to {new}", hint="look who else writes there, then move it by hand")

    def _child(self, name: str) -> Any:
        return self._path(self._root, name)
