"""The entries of a checkpoint: which epochs are planned, and which are complete.

    <location>/surelane.json   Surelane's: which lane and which checkpoint this is
    <location>/offsets/N       written before epoch N runs: where N ends
    <location>/commits/N       written after: the decision that N is committed

`app.spark.checkpoint` reads the files through Spark's own file systems, `app.spark.local` without Spark.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import Diverged
from app.model.offsets import Offsets, Span, TopicPartition

IDENTITY_FILE = "surelane.json"
#: complete when IDENTITY_FILE is missing; else perhaps partial
NEW_IDENTITY_FILE = "surelane.json.new"
#: separates a topic and the number of its source; no topic's name has it
_NTH = "#"
#: line of a source that has no offsets yet
_NO_OFFSETS = "-"
#: first line of Spark's offsets/N that this code understands
LOG_VERSION = "v1"


@dataclass(frozen=True, kw_only=True)
class CheckpointIdentity:
    """Content of surelane.json."""

    lane: str
    #: a random id, made with the checkpoint; recorded in the `generation` table
    checkpoint: str
    #: newest generation that ran on it
    generation: int
    #: where its epoch 0 starts, as Spark's JSON
    start: str


class Entries(ABC):
    """The entries of the checkpoint at `location`, read only."""

    def __init__(self, location: str) -> None:
        self.location = location

    @abstractmethod
    def _read(self, name: str) -> str | None:
        """The text of a file, None when it does not exist."""

    @abstractmethod
    def _exists(self, name: str) -> bool:
        """Whether a file exists."""

    @abstractmethod
    def _names(self, folder: str) -> list[str]:
        """Names of the files in a folder, none when it does not exist."""

    def identity(self) -> CheckpointIdentity | None:
        """Whose checkpoint this is; None when there is none. Raises Diverged for one that is not Surelane's."""
        found = _parsed(self._read(IDENTITY_FILE)) or _parsed(self._read(NEW_IDENTITY_FILE))
        if found is not None or self.last_planned() is None:
            return found
        raise Diverged(
            f"checkpoint {self.location} has epochs but no valid {IDENTITY_FILE}: another program wrote it",
            hint="point `checkpoint` at a folder of this lane's own; if it was this lane's, and only "
            "that file is lost, at a new one: the lane goes on at its ledger's end (ops/runbooks/checkpoint-lost.md)",
        )

    def last_planned(self) -> int | None:
        """Number of the newest epoch that has an `offsets` entry."""
        return self._newest("offsets")

    def last_complete(self) -> int | None:
        """Number of the newest epoch that has a `commits` entry."""
        return self._newest("commits")

    def _newest(self, folder: str) -> int | None:
        return max((int(name) for name in self._names(folder) if name.isdigit()), default=None)

    def is_planned(self, epoch: int) -> bool:
        """Whether `offsets/<epoch>` exists."""
        return self._exists(f"offsets/{epoch}")

    def is_complete(self, epoch: int) -> bool:
        """Whether `commits/<epoch>` exists: the decision of that epoch."""
        return self._exists(f"commits/{epoch}")

    def span(self, epoch: int) -> Span:
        """What the planned `epoch` reads. Partitions that are new in it start at 0, as in Spark's source."""
        return self.span_to(epoch, self._end(epoch))

    def span_to(self, epoch: int, end: Offsets) -> Span:
        """What `epoch` reads if it ends at `end`; the one before it is planned."""
        start = self._end(epoch - 1) if epoch > 0 else self._start()
        return Span(start=Offsets.of({tp: start.get(tp, 0) for tp in end}), end=end)

    def options(self, epoch: int) -> dict[str, str]:
        """Spark's options that the planned `epoch` fixed, of the state among others."""
        return {str(name): str(value) for name, value in self._metadata(epoch).get("conf", {}).items()}

    def watermark(self, epoch: int) -> float | None:
        """Seconds since 1970: what the planned `epoch` began with; None for none."""
        milliseconds = int(self._metadata(epoch).get("batchWatermarkMs", 0))
        return milliseconds / 1000 if milliseconds > 0 else None

    def _metadata(self, epoch: int) -> dict[str, Any]:
        """The second line of an epoch's entry; empty where there is none."""
        lines = (self._read(f"offsets/{epoch}") or "").splitlines()
        return json.loads(lines[1]) if len(lines) > 1 else {}

    def _start(self) -> Offsets:
        identity = self.identity()
        if identity is None:
            raise Diverged.checkpoint_damaged(f"checkpoint {self.location} has no {IDENTITY_FILE}", lane=None)
        return Offsets.from_json(identity.start)

    def _end(self, epoch: int) -> Offsets:
        text = self._read(f"offsets/{epoch}")
        lines = text.splitlines() if text else []
        if len(lines) < 3 or lines[0] != LOG_VERSION:
            identity = self.identity()
            raise Diverged.checkpoint_damaged(
                f"checkpoint {self.location}: offsets/{epoch} is missing or not of Spark's format {LOG_VERSION}",
                lane=identity.lane if identity else None,
            )
        return by_source([Offsets.from_json(line) for line in lines[2:] if line != _NO_OFFSETS])


def by_source(each: Sequence[Offsets]) -> Offsets:
    """The offsets of a query's sources. Sources of one topic read it separately: a topic that the n-th of them reads is
    `<topic>#<n - 1>` from the second on; no topic of Kafka has such a name."""
    seen: Counter[str] = Counter()
    found: dict[TopicPartition, int] = {}
    for one in each:
        for tp, offset in one.items():
            found[TopicPartition(named(tp.topic, seen[tp.topic]), tp.partition)] = offset
        seen.update({tp.topic for tp in one})
    return Offsets.of(found)


def named(topic: str, before: int) -> str:
    """The name of a topic in positions, for a source before which so many read it."""
    return f"{topic}{_NTH}{before}" if before else topic


def topic_of(name: str) -> str:
    """The topic of Kafka behind a name in positions."""
    return name.partition(_NTH)[0]


def _parsed(text: str | None) -> CheckpointIdentity | None:
    """None also for a file whose writer was killed."""
    try:
        return CheckpointIdentity(**json.loads(text)) if text else None
    except ValueError:
        return None
