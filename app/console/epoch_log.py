"""What only a lane's log knows of its epochs: the milliseconds of each step, fallbacks, deaths and retries.

The log is a file of JSON lines that the init system or the container engine keeps; the console is given its name.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from app.logs import masked

#: bytes read from the end of a log
TAIL_BYTES = 8 << 20
_STEP = "epoch"
#: events shown among the epochs, and their words
SHOWN = {
    "start": "the lane was opened",
    "settling": "a prepared transaction was settled",
    "not applied as staged": "fallback: the driver applied the epoch itself",
    "trying again": "the environment failed",
    "worker died": "the worker died",
    "started after a death": "started after a death",
    "taking over": "the writer before was ended",
    "checkpoint put aside": "the checkpoint was put aside",
    "quarantined": "a message was skipped",
    "parked": "a message was parked",
    "stopped": "the lane stopped",
}
#: fields of a line that are no details of its event
_COMMON = ("event", "level", "timestamp", "lane", "logger")
#: most characters of an event's details
_DETAIL_CHARACTERS = 500


@dataclass(frozen=True)
class EpochEvents:
    """Lines of the log, by generation and epoch."""

    #: step -> milliseconds, in the order of the steps
    steps: dict[tuple[int, int], dict[str, float]] = field(default_factory=dict)
    #: when the epoch became visible: its line is written then
    visible_at: dict[tuple[int, int], str] = field(default_factory=dict)
    #: the oldest first
    others: list[dict[str, Any]] = field(default_factory=list)


class EpochLog:
    """The ends of log files."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files

    @property
    def where(self) -> list[str]:
        """The files that can be read."""
        return [str(file) for file in self._files if file.is_file()]

    def read(self, lane: str, wanted: Collection[tuple[int, int]]) -> EpochEvents:
        """Steps of the wanted epochs, and events of the lane."""
        found = EpochEvents()
        for file in self._files:
            for line in _tail(file):
                parsed = _parsed(line)
                if parsed is None or not _is_of(parsed, lane):
                    continue
                if parsed.get("event") == _STEP:
                    key = (int(parsed.get("generation", 0)), int(parsed.get("epoch", -1)))
                    if key in wanted and isinstance(parsed.get("ms"), dict):
                        found.visible_at[key] = str(parsed.get("timestamp", ""))
                        found.steps[key] = {str(name): float(ms) for name, ms in parsed["ms"].items()}
                elif parsed.get("event") in SHOWN:
                    found.others.append(_event(parsed))
        return found


def _is_of(line: dict[str, Any], lane: str) -> bool:
    """Lines of a process are of the configuration's lane, of which `lane` may be a partition."""
    return line.get("lane") in (lane, lane.rpartition(".")[0] or lane)


def _event(line: dict[str, Any]) -> dict[str, Any]:
    details = {name: value for name, value in line.items() if name not in _COMMON and value is not None}
    text = masked(", ".join(f"{name} {value}" for name, value in details.items()))
    return {
        "event": line["event"],
        "words": SHOWN[line["event"]],
        "level": str(line.get("level", "")),
        "at": str(line.get("timestamp", "")),
        "details": text if len(text) <= _DETAIL_CHARACTERS else f"{text[:_DETAIL_CHARACTERS]}...",
    }


def _tail(file: Path) -> list[bytes]:
    """The last whole lines; none of a file that cannot be read."""
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - TAIL_BYTES))
            lines = opened.read(TAIL_BYTES).split(b"\n")
    except OSError:
        return []
    return lines[1:] if size > TAIL_BYTES else lines


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b"{"):
        return None
    try:
        found = msgspec.json.decode(line)  # a quarter of the time: a page reads megabytes every two seconds
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
