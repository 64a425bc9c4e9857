"""Spark's checkpoint of one lane, seen from outside: which epochs were planned, and which are complete.

    <location>/surelane.json   ours: which lane and which checkpoint this is
    <location>/offsets/N       written before epoch N runs: where N ends
    <location>/commits/N       written after: the decision that N is committed

Read through the Hadoop FileSystem that Spark itself uses, so local disk, S3 and HDFS behave alike.
"""

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from app.errors import Diverged
from app.model.offsets import Offsets, Span

IDENTITY_FILE = "surelane.json"
#: complete when IDENTITY_FILE is missing; else perhaps a part
NEW_IDENTITY_FILE = "surelane.json.new"
#: first line of Spark's offsets/N that this code understands
LOG_VERSION = "v1"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Content of surelane.json."""

    lane: str
    #: made when the checkpoint was; recorded in the `generation` table
    checkpoint: str
    #: newest generation that ran on it
    generation: int
    #: where its epoch 0 starts, as Spark's JSON
    start: str


class Checkpoint:
    """The checkpoint at `location` (a path or a URL of any Hadoop file system)."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
        context: Any = spark._jsc  # pyright: ignore[reportPrivateUsage]
        self.location = location
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = self._path(location)
        self._fs = self._root.getFileSystem(context.hadoopConfiguration())
        self._io = jvm.org.apache.commons.io.IOUtils
        self._utf8 = jvm.java.nio.charset.StandardCharsets.UTF_8

    def identity(self) -> Identity | None:
        """Whose checkpoint this is; None when there is none. Raises Diverged for one that is not Surelane's."""
        found = _parsed(self._read(IDENTITY_FILE)) or _parsed(self._read(NEW_IDENTITY_FILE))
        if found is not None or self.last_planned() is None:
            return found
        raise Diverged(
            f"checkpoint {self.location} has epochs but no valid {IDENTITY_FILE}: another program wrote it",
            hint="point `checkpoint` at a folder of this lane's own",
        )

    def create(self, lane: str, start: Offsets) -> Identity:
        """Begin a new, empty checkpoint; call `archive` first if there is an old one."""
        identity = Identity(lane=lane, checkpoint=uuid.uuid4().hex, generation=0, start=start.to_json())
        self.write_identity(identity)
        return identity

    def write_identity(self, identity: Identity) -> None:
        """Replace surelane.json; killed at any point, `identity` finds the old or the new one.

        Not every file system can rename onto a file that is there, so that one goes first.
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
        """Whether nothing but surelane.json is there."""
        if not self._fs.exists(self._root):
            return True
        names = {str(status.getPath().getName()) for status in self._fs.listStatus(self._root)}
        return names <= {IDENTITY_FILE, NEW_IDENTITY_FILE}

    def archive(self) -> str:
        """Move this checkpoint aside, complete, and return where to."""
        target = f"{self.location.rstrip('/')}.{uuid.uuid4().hex[:8]}"
        self._rename(self._root, self._path(target))
        return target

    def last_planned(self) -> int | None:
        """Number of the newest epoch that has an `offsets` entry."""
        folder = self._child("offsets")
        if not self._fs.exists(folder):
            return None
        names = [status.getPath().getName() for status in self._fs.listStatus(folder)]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def is_complete(self, epoch: int) -> bool:
        """Whether `commits/<epoch>` exists: the decision of that epoch."""
        return bool(self._fs.exists(self._child(f"commits/{epoch}")))

    def span(self, epoch: int) -> Span:
        """What the planned `epoch` reads. Partitions that are new in it start at 0, as in Spark's source."""
        end = self._end(epoch)
        start = self._end(epoch - 1) if epoch > 0 else self._start()
        return Span(start=Offsets.of({tp: start.get(tp, 0) for tp in end}), end=end)

    def _start(self) -> Offsets:
        identity = self.identity()
        if identity is None:
            raise Diverged(f"checkpoint {self.location} has no {IDENTITY_FILE}", hint="see ops/runbooks")
        return Offsets.from_json(identity.start)

    def _end(self, epoch: int) -> Offsets:
        text = self._read(f"offsets/{epoch}")
        lines = text.splitlines() if text else []
        if len(lines) != 3 or lines[0] != LOG_VERSION:
            raise Diverged(
                f"checkpoint {self.location}: offsets/{epoch} is missing or not of Spark's format {LOG_VERSION}",
                hint="`surelane recover --from-ledger` starts a new checkpoint at the target's own position",
            )
        return Offsets.from_json(lines[2])

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


def _parsed(text: str | None) -> Identity | None:
    """None also for a file whose writer was killed."""
    try:
        return Identity(**json.loads(text)) if text else None
    except ValueError:
        return None
