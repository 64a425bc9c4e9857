"""What only a lane's log knows of its epochs: the milliseconds of each step, fallbacks, deaths and retries.

The log is a file of JSON lines that the init system or the container engine keeps; the console is given its name. All
pages share what was read: a reading parses the lines that were written since the one before.
"""

import datetime
import threading
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from app.console.log_file import LogFile
from app.logs import masked
from app.model.gid import Gid

#: of each lane the newest ones are held
MAX_EPOCHS, MAX_EVENTS = 20_000, 1_000
_STEP, _FALLBACK, _SETTLING = "epoch", "not applied as staged", "settling"
#: events shown among the epochs, and their words
SHOWN = {
    "start": "the lane was opened",
    _SETTLING: "a prepared transaction was settled",
    _FALLBACK: "fallback: the driver applied the epoch itself",
    "trying again": "the environment failed",
    "worker died": "the worker died",
    "started after a death": "started after a death",
    "taking over": "the writer before was ended",
    "checkpoint put aside": "the checkpoint was put aside",
    "quarantined": "a message was skipped",
    "parked": "a message was parked",
    "stopping at the end of the epoch": "the lane was asked to stop",
    "stopped": "the lane stopped",
}
#: after these the epoch in progress is begun anew
_ABANDONED = ("start", "trying again", "worker died")
#: fields of a line that are no details of its event
_COMMON = ("event", "level", "timestamp", "lane", "logger")
#: most characters of an event's details
_DETAIL_CHARACTERS = 500

EpochNumber = tuple[int, int]
"""Generation and epoch."""


class _Line(msgspec.Struct, gc=False):
    """The fields by which a line is chosen; the others are not decoded."""

    event: str = ""
    lane: str = ""
    timestamp: str = ""
    generation: int | None = None
    epoch: int | None = None


class _EpochLine(msgspec.Struct, gc=False):
    timestamp: str = ""
    began: str = ""
    ms: dict[str, float] = {}
    stage_ms: dict[str, float] = {}


class _SettlingLine(msgspec.Struct, gc=False):
    gid: str = ""
    decision: str = ""
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class LoggedEpoch:
    """An epoch's line."""

    #: when the epoch became visible: its line is written then; None: the line has no time
    visible_at: str | None
    began_at: str | None
    #: step -> milliseconds, in the order of the steps
    steps: dict[str, float]
    #: the same of its stage process, which may have worked before the epoch began
    staging: dict[str, float]

    @property
    def ms(self) -> float | None:
        """From its begin until it was visible."""
        try:
            took = datetime.datetime.fromisoformat(self.visible_at or "") - datetime.datetime.fromisoformat(
                self.began_at or ""
            )
        except (ValueError, TypeError):  # the latter: only one of them has a zone
            return None
        return took.total_seconds() * 1000


@dataclass(frozen=True, kw_only=True)
class LoggedEvent:
    """A line that is of no epoch, not decoded as a whole yet."""

    at: str
    event: str
    generation: int | None
    line: bytes

    def document(self) -> dict[str, Any]:
        line = msgspec.json.decode(self.line)
        details = {name: value for name, value in line.items() if name not in _COMMON and value is not None}
        text = masked(", ".join(f"{name} {value}" for name, value in details.items()))
        return {
            "event": self.event,
            "words": SHOWN[self.event],
            "level": str(line.get("level", "")),
            "at": self.at,
            "details": text if len(text) <= _DETAIL_CHARACTERS else f"{text[:_DETAIL_CHARACTERS]}...",
        }


@dataclass
class _LaneLines:
    """What is held of the lines of one lane."""

    epochs: dict[EpochNumber, bytes] = field(default_factory=dict)
    #: why the driver applied an epoch itself
    fallbacks: dict[EpochNumber, str] = field(default_factory=dict)
    #: how a start ended an epoch that was prepared
    settled: dict[EpochNumber, str] = field(default_factory=dict)
    events: deque[LoggedEvent] = field(default_factory=lambda: deque(maxlen=MAX_EVENTS))
    #: number of an epoch that was not applied as staged, and why; its line follows
    unapplied: tuple[int, str] | None = None

    def add_epoch(self, key: EpochNumber, raw: bytes) -> None:
        self.epochs[key] = raw
        if self.unapplied is not None and self.unapplied[0] == key[1]:
            self.fallbacks[key] = self.unapplied[1]
        self.unapplied = None
        for held in (self.epochs, self.fallbacks, self.settled):
            if len(held) > MAX_EPOCHS:
                del held[next(iter(held))]

    def add_event(self, line: _Line, raw: bytes) -> None:
        self.events.append(LoggedEvent(at=line.timestamp, event=line.event, generation=line.generation, line=raw))
        if line.event in _ABANDONED:
            self.unapplied = None
        elif line.event == _FALLBACK and line.epoch is not None:
            self.unapplied = (line.epoch, str(msgspec.json.decode(raw).get("because", "")))
        elif line.event == _SETTLING:
            found = msgspec.json.decode(raw, type=_SettlingLine)
            gid = Gid.parse(found.gid)
            if gid is not None:
                self.settled.setdefault((gid.generation, gid.epoch), f"{found.decision}: {found.because}")


@dataclass(frozen=True)
class LaneLog:
    """What the logs have of one lane of the ledger."""

    epochs: dict[EpochNumber, LoggedEpoch] = field(default_factory=dict)
    fallbacks: dict[EpochNumber, str] = field(default_factory=dict)
    settled: dict[EpochNumber, str] = field(default_factory=dict)
    #: the oldest first
    events: list[LoggedEvent] = field(default_factory=list)


class EpochLog:
    """Log files, of which all pages read the same lines."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [LogFile(file) for file in files]
        self._lanes: defaultdict[str, _LaneLines] = defaultdict(_LaneLines)
        self._lock = threading.Lock()

    @property
    def where(self) -> list[str]:
        """The files that can be read."""
        return [str(file.path) for file in self._files if file.path.is_file()]

    def read(self, lane: str, process: str, wanted: Collection[EpochNumber]) -> LaneLog:
        """Of the ledger's lane: the wanted epochs, and events of it and of its process, whose lines are of the
        configuration's lane `process`."""
        with self._lock:
            for file in self._files:
                for line in file.new_lines():
                    self._add(line)
            mine = self._lanes.get(lane, _LaneLines())
            parsed = {key: _logged(mine.epochs[key]) for key in wanted if key in mine.epochs}
            return LaneLog(
                epochs={key: found for key, found in parsed.items() if found is not None},
                fallbacks={key: mine.fallbacks[key] for key in wanted if key in mine.fallbacks},
                settled={key: mine.settled[key] for key in wanted if key in mine.settled},
                events=sorted(
                    (one for name in {lane, process} if name in self._lanes for one in self._lanes[name].events),
                    key=lambda one: one.at,
                ),
            )

    def _add(self, raw: bytes) -> None:
        if not raw.startswith(b"{"):
            return
        try:
            line = msgspec.json.decode(raw, type=_Line)
            if line.event == _STEP and line.generation is not None and line.epoch is not None:
                self._lanes[line.lane].add_epoch((line.generation, line.epoch), raw)
            elif line.event in SHOWN:
                self._lanes[line.lane].add_event(line, raw)
        except ValueError:  # a line of something else
            return


def _logged(raw: bytes) -> LoggedEpoch | None:
    try:
        line = msgspec.json.decode(raw, type=_EpochLine)
    except ValueError:
        return None
    visible_at, began_at = line.timestamp or None, line.began or None
    return LoggedEpoch(visible_at=visible_at, began_at=began_at, steps=line.ms, staging=line.stage_ms)
