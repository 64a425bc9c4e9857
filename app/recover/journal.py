"""The journal of a recovery: which steps are done, as lines of JSON in a file beside the snapshot's manifest.

A step is `begun`, then `done` or `failed`. A step that is done is not run again, one that is only begun is: every step
may be repeated. Each line is fsynced before the recovery goes on. A line that a dead process left half-written is cut
off. The process holds a lock on the file: one recovery of a snapshot at a time. Each call is on record with who asked
for it and why.
"""

import datetime
import enum
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from app.errors import Refused
from app.model.offsets import Offsets
from app.snapshot.driver import RestorePlace
from app.snapshot.snapshot_directory import StoredSnapshot, sync

FILE, LOG = "recovery.jsonl", "recovery.log"
#: seconds that a call waits for the lock, which `is_at_work` takes for a moment
LOCK_SECONDS = 1.0
_AGAIN_SECONDS = 0.02
_ORDER, _PROGRESS = "order", "progress"
_PLACE = tuple(one.name for one in fields(RestorePlace))


class Step(enum.StrEnum):
    """The steps, in order."""

    CHECK = "check"  #: check the plan, the snapshot's files, and that the lane is stopped
    RESTORE = "restore"  #: restore the snapshot at a new place
    IN_DOUBT = "in-doubt"  #: roll back the prepared transactions of the snapshot; the replay applies them again
    LEDGER = "ledger"  #: make the next start begin a new checkpoint at the ledger's end
    REPLAY = "replay"  #: run the lane until it has caught up
    VERIFY = "verify"  #: check the result


class StepState(enum.StrEnum):
    WAITING = "waiting"
    BEGUN = "begun"  #: in progress, or its process died
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """A step as the journal has it."""

    state: StepState = StepState.WAITING
    at: str | None = None
    #: the outcome, in words
    said: str = ""
    #: values that later steps need
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RecoveryOrder:
    """A call of the recovery."""

    at: str
    who: str
    host: str
    reason: str | None
    #: the destination without its password; None: the call of an older version
    place: str | None = None
    #: None: not given
    port: int | None = None
    #: whether other programs' prepared transactions are rolled back, too
    foreign: bool = False
    #: whether it gave up what an earlier call had begun
    anew: bool = False


_ORDER_FIELDS = tuple(one.name for one in fields(RecoveryOrder))


@dataclass(frozen=True, kw_only=True)
class ReplayProgress:
    """Of the replay, by offsets: at most so many messages."""

    done: int
    left: int
    #: when it was there
    at: str


@dataclass(frozen=True)
class Course:
    #: the destination without its password; None: no recovery was ever begun
    place: RestorePlace | None
    steps: dict[Step, StepRecord]
    #: the oldest first, also those of recoveries that were given up
    orders: tuple[RecoveryOrder, ...] = ()
    at_work: bool = False

    @property
    def finished(self) -> bool:
        return self.is_done(Step.VERIFY)

    def is_done(self, step: Step) -> bool:
        return self.steps[step].state is StepState.DONE

    @property
    def replay(self) -> ReplayProgress | None:
        """None: it has not begun, or an older version ran it."""
        facts = self.steps[Step.REPLAY].facts
        if not {"goal", "first", "position", "as_of"} <= facts.keys():
            return None
        goal, first, position = (Offsets.from_nested(facts[name]) for name in ("goal", "first", "position"))
        left = position.left_to(goal)
        return ReplayProgress(done=max(0, first.left_to(goal) - left), left=left, at=facts["as_of"])

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "place": None if self.place is None else vars(self.place),
            "finished": self.finished,
            "at_work": self.at_work,
            "orders": list(map(vars, self.orders)),
            "steps": [{"step": step.value, **vars(standing)} for step, standing in self.steps.items()],
            "replay": self.replay and vars(self.replay),
        }


def course(stored: StoredSnapshot) -> Course:
    """Progress of the newest recovery from this snapshot, while it is at work or not."""
    file = stored.folder / FILE
    found = _course(_whole_lines(file.read_bytes()) if file.exists() else [])
    return replace(found, at_work=_is_locked(file))


def _is_locked(file: Path) -> bool:
    try:
        handle = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


class Journal:
    """A journal that is open and locked; made by `journal`."""

    def __init__(self, handle: int, lines: list[dict[str, Any]]) -> None:
        self._handle, self._lines = handle, lines

    @property
    def course(self) -> Course:
        """The progress so far."""
        return _course(self._lines)

    def begin_anew(self, place: RestorePlace) -> None:
        """Begin another recovery, which replaces the ones before. `place` has no password."""
        self._write({"what": "recovery", **vars(place)})

    def order(
        self, who: str, host: str, reason: str | None, place: RestorePlace, *, foreign: bool = False, anew: bool = False
    ) -> None:
        """Record who calls the recovery, why, and with which options. `place` has no password."""
        asked = {"place": place.to, "port": place.port, "foreign": foreign, "anew": anew}
        self._write({"what": _ORDER, "who": who, "host": host, "reason": reason, **asked})

    def begin(self, step: Step, **facts: Any) -> None:
        """Record the beginning of a step. `facts` are added to those of an earlier begin."""
        self._write({"what": StepState.BEGUN.value, "step": step.value, "facts": facts})

    def end(self, step: Step, state: StepState, outcome: str, **facts: Any) -> None:
        """Record the end of a step."""
        self._write({"what": state.value, "step": step.value, "said": outcome, "facts": facts})

    def progress(self, step: Step, **facts: Any) -> None:
        """Add facts to a step that goes on."""
        self._write({"what": _PROGRESS, "step": step.value, "facts": facts})

    def _write(self, line: dict[str, Any]) -> None:
        line = {"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **line}
        os.write(self._handle, (json.dumps(line) + "\n").encode())
        os.fsync(self._handle)
        self._lines.append(line)


@contextmanager
def journal(stored: StoredSnapshot) -> Iterator[Journal]:
    """Open and lock the journal for this process; raises Refused while another process has it."""
    file = stored.folder / FILE
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    sync(stored.folder)
    try:
        if not _locked_within(handle, LOCK_SECONDS):
            raise Refused(
                f"another recovery from snapshot {stored.manifest.name} is at work",
                hint=f"look at it: surelane recover run --snapshot {stored.manifest.name} --status",
            )
        text = file.read_bytes()
        os.ftruncate(handle, text.rfind(b"\n") + 1)
        yield Journal(handle, _whole_lines(text))
    finally:
        os.close(handle)


def _locked_within(handle: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
        time.sleep(_AGAIN_SECONDS)


def _whole_lines(text: bytes) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]
    except ValueError as error:
        raise Refused(
            f"the journal of the recovery cannot be read: {error}",
            hint=f"move {FILE} out of the snapshot's folder, and recover to another place",
        ) from None


def _course(lines: list[dict[str, Any]]) -> Course:
    place: RestorePlace | None = None
    steps: dict[Step, StepRecord] = {}
    orders: list[RecoveryOrder] = []
    for line in lines:
        if line["what"] == _ORDER:
            orders.append(RecoveryOrder(**{name: line[name] for name in _ORDER_FIELDS if name in line}))
            continue
        if line["what"] == "recovery":
            place, steps = RestorePlace(**{name: line[name] for name in _PLACE}), {}
            continue
        step = Step(line["step"])
        before = steps.get(step, StepRecord())
        if line["what"] == _PROGRESS:
            facts = {**before.facts, **line["facts"], "as_of": line["at"]}
            steps[step] = replace(before, facts=facts)
            continue
        steps[step] = StepRecord(
            state=StepState(line["what"]),
            at=line["at"],
            said=line.get("said", ""),
            facts={**before.facts, **line["facts"]},
        )
    return Course(place, {step: steps.get(step, StepRecord()) for step in Step}, tuple(orders))
