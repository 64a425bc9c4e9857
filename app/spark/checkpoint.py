"""Reads, creates, identifies and archives Spark's checkpoint of one lane.

It uses the Hadoop FileSystem that Spark itself uses, so a local disk and HDFS behave alike. `app.spark.entries` has the
meaning of the files.
"""

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from app.errors import Diverged, SparkFailed, Unreachable
from app.model.offsets import Offsets
from app.spark.entries import (
    IDENTITY_FILE,
    LOG_VERSION,
    NEW_IDENTITY_FILE,
    CheckpointIdentity,
    Entries,
)
from app.spark.local import RunningCheckpoint
from app.spark.session import ComingSession

#: Spark's file of the query's id
_QUERY_ID_FILE = "metadata"
#: option with the version of the format of `commits/N`, also of a query without state
_COMMITS_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"
#: one that knows nothing of a state's parts
_STATELESS_VERSION = "1"


class Checkpoint(Entries):
    """The checkpoint at `location` (a path or a URL of any Hadoop file system)."""

    def __init__(self, spark: ComingSession, location: str) -> None:
        super().__init__(location)
        jvm = spark.java
        self._path = jvm.org.apache.hadoop.fs.Path
        self._streaming: Any = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        root = self._path(location)
        self._hadoop = spark.hadoop_configuration()
        self._fs = root.getFileSystem(self._hadoop)
        is_local = self._fs.getUri().getScheme() == "file"  # it lists no folder through a link
        folder = os.path.realpath(root.toUri().getPath()) if is_local else None
        #: None: it is on another file system than this machine's
        self.folder = None if folder is None else Path(folder)
        self._root = self._path(folder) if folder is not None else root
        #: what the running query has written: read without a call into the JVM where it is on this machine's disk, and
        #: without the checksums, which Spark compares when it starts
        self.written: Entries = self if folder is None else RunningCheckpoint(Path(folder))
        self._spark = spark
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

    def plan(self, epoch: int, end: Offsets) -> None:
        """Write `offsets/<epoch>`, as a query of one source does. None may run; one that starts later goes on behind
        it."""
        self._have_query_id()
        lines = (LOG_VERSION, self._next_metadata(epoch), self._position(end))
        self._write_new(self._child("offsets"), str(epoch), "\n".join(lines))

    def complete(self, epoch: int) -> None:
        """Write `commits/<epoch>`, the decision, as a query without state does. None may run."""
        version = str(self._options.get(_COMMITS_VERSION))
        more = {} if version == _STATELESS_VERSION else {"stateUniqueIds": {}}
        text = f"v{version}\n{_json({'nextBatchWatermarkMs': 0, **more})}"
        self._write_new(self._child("commits"), str(epoch), text)

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

    def _have_query_id(self) -> None:
        """Spark starts no query where entries exist, and this file does not."""
        if not self._exists(_QUERY_ID_FILE):
            self._write_new(self._root, _QUERY_ID_FILE, _json({"id": str(uuid.uuid4())}))

    def _position(self, end: Offsets) -> str:
        """As Spark writes it, which compares texts: if it saw another one it planned an epoch without messages."""
        if len(end) == 1:
            return _json(json.loads(end.to_json()))
        spark = self._spark.java.org.apache.spark.sql
        written = spark.execution.streaming.runtime.SerializedOffset(end.to_json())
        return str(spark.kafka010.KafkaSourceOffset.apply(written).json())

    def _next_metadata(self, epoch: int) -> str:
        """The second line of an epoch's entry: what the one before has, or what this session begins with."""
        before = self._metadata(epoch - 1) if epoch > 0 else {}
        return _json({**(before or self._first_metadata()), "batchTimestampMs": _now()})

    @property
    def _options(self) -> Any:
        session: Any = self._spark.get()._jsparkSession  # pyright: ignore[reportPrivateUsage]
        return session.conf()

    def _first_metadata(self) -> Mapping[str, Any]:
        options = self._options
        fixed = self._streaming.OffsetSeqMetadata.apply(0, 0, options).conf()
        names = self._spark.java.scala.jdk.javaapi.CollectionConverters.asJava(fixed)
        # null: what a query sets in a copy of the session, as the session has it
        return {
            "batchWatermarkMs": 0,
            "conf": {name: value or options.get(name) for name, value in names.items()},
        }

    def _write_new(self, folder: Any, name: str, text: str) -> None:
        """Write a file by Spark's own class, which renames what it has written. Raises SparkFailed where it exists, and
        Unreachable."""
        file = self._path(folder, name)
        try:
            files = self._streaming.CheckpointFileManager.create(folder, self._hadoop)
            if files.exists(file):
                raise SparkFailed(f"another query writes to this checkpoint: {file} exists")
            if not files.exists(folder):
                files.mkdirs(folder)
            stream = files.createAtomic(file, False)
            try:
                stream.write(bytearray(text.encode()))
                stream.close()
            except Py4JJavaError:
                stream.cancel()
                raise
        except Py4JJavaError as error:  # it may be written nevertheless: the next start reads whether it is
            raise Unreachable(f"{file} cannot be written: {error.java_exception.toString()}") from error

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


def _now() -> int:
    """Milliseconds since 1970."""
    return round(time.time() * 1000)


def _json(document: Mapping[str, Any]) -> str:
    """As Spark writes it."""
    return json.dumps(document, separators=(",", ":"))
