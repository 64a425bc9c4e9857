"""The journal of a recovery: what of it is done, a line of JSON for each step, beside the snapshot's manifest.

A step is `begun`, then `done` or `failed`; what is done is not done again, what is begun is begun again: every step
may be repeated. A line is on disk before the next thing happens. A line that a dead process left half-written is cut
off. The lock on the file goes with its process: one recovery of a snapshot at a time.
"""

import datetime
import enum
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from app.errors import Refused
from app.snapshot.driver import Destination
from app.snapshot.snapshot_directory import StoredSnapshot, sync

FILE, LOG = "recovery.jsonl", "recovery.log"
_PLACE = tuple(one.name for one in fields(Destination))


class Step(enum.StrEnum):
    """The steps, in their order."""

    CHECK = "check"  #: does it lead there, is the snapshot sound, is the lane stopped
    RESTORE = "restore"  #: put back at a new place
    IN_DOUBT = "in-doubt"  #: roll back what came along prepared; the replay applies it anew
    LEDGER = "ledger"  #: ask the next start to begin a new checkpoint at the ledger's end
    REPLAY = "replay"  #: run the lane until it has caught up
    VERIFY = "verify"  #: is it right?


class StepState(enum.StrEnum):
    """How far a step has come."""

    WAITING = "waiting"
    BEGUN = "begun"  #: in progress, or its process died over it
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What the journal says of a step."""

    state: StepState = StepState.WAITING
    at: str | None = None
    #: what came of it, in words
    said: str = ""
    #: what later steps need of it
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Course:
    """How far a recovery has come."""

    #: as on the command line, but for a password; None: none was ever begun
    place: Destination | None
    steps: dict[Step, StepRecord]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.is_done(Step.VERIFY)

    def is_done(self, step: Step) -> bool:
        """Whether this step has come to its end."""
        return self.steps[step].state is StepState.DONE

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "place": None if self.place is None else vars(self.place),
            "finished": self.finished,
            "steps": [{"step": step.value, **vars(standing)} for step, standing in self.steps.items()],
        }


def course(stored: StoredSnapshot) -> Course:
    """Of the newest recovery from this snapshot; needs no lock."""
    file = stored.folder / FILE
    return _course(_whole_lines(file.read_bytes()) if file.exists() else [])


class Journal:
    """Open for writing; made by `journal`."""

    def __init__(self, handle: int, lines: list[dict[str, Any]]) -> None:
        self._handle, self._lines = handle, lines

    @property
    def course(self) -> Course:
        """As far as it goes by now."""
        return _course(self._lines)

    def begin_anew(self, place: Destination) -> None:
        """Another recovery; what was said before is history. `place` without a password."""
        self._write({"what": "recovery", **vars(place)})

    def begin(self, step: Step, **facts: Any) -> None:
        """Before anything of it is done. Facts of an earlier begin stay, these come on top."""
        self._write({"what": StepState.BEGUN.value, "step": step.value, "facts": facts})

    def end(self, step: Step, state: StepState, said: str, **facts: Any) -> None:
        """After all of it."""
        self._write({"what": state.value, "step": step.value, "said": said, "facts": facts})

    def _write(self, line: dict[str, Any]) -> None:
        line = {"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **line}
        os.write(self._handle, (json.dumps(line) + "\n").encode())
        os.fsync(self._handle)
        self._lines.append(line)


@contextmanager
def journal(stored: StoredSnapshot) -> Iterator[Journal]:
    """This process' alone; raises Refused while another one has it."""
    file = stored.folder / FILE
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    sync(stored.folder)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"another recovery from snapshot {stored.manifest.name} is at work",
                hint=f"look at it: surelane recover run --snapshot {stored.manifest.name} --status",
            ) from None
        text = file.read_bytes()
        os.ftruncate(handle, text.rfind(b"\n") + 1)
        yield Journal(handle, _whole_lines(text))
    finally:
        os.close(handle)


def _whole_lines(text: bytes) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]
    except ValueError as error:
        raise Refused(
            f"the journal of the recovery cannot be read: {error}",
            hint=f"move {FILE} out of the snapshot's folder, and recover to another place",
        ) from None


def _course(lines: list[dict[str, Any]]) -> Course:
    place: Destination | None = None
    steps: dict[Step, StepRecord] = {}
    for line in lines:
        if line["what"] == "recovery":
            place, steps = Destination(**{name: line[name] for name in _PLACE}), {}
            continue
        step = Step(line["step"])
        before = steps.get(step, StepRecord())
        steps[step] = StepRecord(
            state=StepState(line["what"]),
            at=line["at"],
            said=line.get("said", ""),
            facts={**before.facts, **line["facts"]},
        )
    return Course(place, {step: steps.get(step, StepRecord()) for step in Step})
