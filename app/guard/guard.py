"""One lane's guard: which spans are suspected, how often each has failed, and when one message is condemned.

Before a span is processed it is recorded (`begin`); what is recorded and not finished when the lane opens again was in
progress at a death, and is suspected. Suspects are cut (`app.guard.narrowing`) until one is a single message, and only
a single message is ever condemned: when failures that count have reached `max_attempts`, or connections to the target
lost while it was in progress have reached `max_losses`.
"""

import time
from dataclasses import dataclass, replace
from typing import Protocol

import psycopg2
import structlog
from sqlalchemy.exc import DBAPIError

from app.db.failures import describe, driver_error, sqlstate
from app.errors import SparkGone, SurelaneError, Verdict
from app.guard.attempts import Attempt, Attempts, Stage, Suspect
from app.guard.lost_time import LostTime
from app.guard.narrowing import contains, depth, is_before, only_position, size
from app.guard.volatile import Volatile
from app.metrics.lane import LaneMetrics
from app.model.death import Death
from app.model.offsets import Offsets, Span

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a single message is condemned."""

    max_attempts: int
    max_losses: int


@dataclass(frozen=True)
class Failure:
    """What went wrong."""

    cause: str
    error_class: str
    sqlstate: str | None = None

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """From an exception."""
        if isinstance(error, DBAPIError | psycopg2.Error):
            return cls(describe(error), type(driver_error(error)).__name__, sqlstate(error))
        return cls(error.message if isinstance(error, SurelaneError) else str(error), type(error).__name__)

    @classmethod
    def of_death(cls, death: Death | None) -> "Failure":
        """From the end of the process that had begun it; None: nobody knows how that was."""
        return cls(f"the worker died: {death}", death.label) if death else cls("the worker died", "unknown")


class Watch(Protocol):
    """Who looks after the time that a span takes."""

    def begin(self, messages: int) -> None:
        """This thread begins a span of at most so many messages, in place of the one it began before."""
        ...

    def end(self) -> None:
        """This thread is through."""
        ...


class Guard:
    """The guard of one writer. Used by the lane's thread only."""

    def __init__(
        self,
        attempts: Attempts | Volatile,
        limits: Limits,
        watch: Watch | None = None,
        metrics: LaneMetrics | None = None,
    ) -> None:
        self._attempts, self.limits, self._watch, self._metrics = attempts, limits, watch, metrics
        self._suspects: list[Suspect] = []
        self._generation = 0
        self._current: Attempt | None = None
        #: monotonic
        self._begun_at = 0.0
        #: offsets of the epoch that is processed; None between two
        self._whole: int | None = None
        self._lost = LostTime()
        #: how the span in progress failed, when this process has seen it
        self._seen: SurelaneError | None = None
        #: whether the target has been told anything of the span in progress
        self._told_target = False
        #: what was in progress at the death of the writer before, though the lane was past it: a release
        self._interrupted: Span | None = None

    @property
    def discreet(self) -> bool:
        """Whether there are values that no error may repeat."""
        return self._attempts.discreet

    def open(self, generation: int, position: Offsets, death: Death | None) -> None:
        """Begin to guard. What was in progress and has not passed `position` is suspected from here on.

        `death`: how the worker before this one ended.
        """
        self._generation = generation
        self._suspects = self._attempts.suspects()
        last, seen = self._attempts.last(), self._seen
        self._seen = self._current = self._whole = None
        open_ = None if last is None or last.finished else last
        past = open_ is not None and is_before(open_.span, position)
        self._interrupted = open_.span if open_ is not None and past else None
        in_doubt = open_ if not past else None
        self._lost.end()
        if self._suspects or in_doubt is not None:
            self._lost.resume(self._attempts.trouble_seconds(in_progress=in_doubt is not None))
        if in_doubt is not None:
            failure = Failure.of_death(death) if seen is None else Failure.of(seen)
            self._accuse(in_doubt.span, in_doubt.stage, failure, counts=seen is None)
        self._attempts.finish(generation)
        self._forget(position)
        self._count_lost()
        self._tell()

    def close(self) -> None:
        """Give the connection back."""
        self._attempts.close()

    def take_interrupted(self) -> Span | None:
        """The messages whose release the writer before did not survive; told once."""
        span, self._interrupted = self._interrupted, None
        return span

    def spans(self, *stages: Stage) -> list[Span]:
        """What is to be cut before one of these stages.

        A whole epoch only after its second failure: most deaths have nothing to do with a message, and reading an epoch
        in parts takes longer.
        """
        return [
            one.span
            for one in self._suspects
            if one.stage in stages or (one.stage is Stage.EPOCH and one.attempts + one.losses > 1)
        ]

    @property
    def is_suspicious(self) -> bool:
        """Whether anything is suspected."""
        return bool(self._suspects)

    def suspect(self, span: Span, stage: Stage) -> Suspect | None:
        """What is held against exactly this span at this stage."""
        return next((one for one in self._suspects if one.span == span and one.stage in (Stage.EPOCH, stage)), None)

    def enter(self, span: Span) -> None:
        """An epoch is processed from here on, until it is `passed` or `laid_down`."""
        self._whole = size(span)
        self._lost.enter()

    def begin(self, epoch: int, span: Span, stage: Stage) -> None:
        """Record that the span is in progress, before anything of it is touched."""
        attempt = Attempt(generation=self._generation, epoch=epoch, stage=stage, span=span, finished=False)
        self._attempts.begin(attempt)
        self._current, self._begun_at = attempt, time.monotonic()
        self._told_target = stage is Stage.APPLY
        if self._narrowed() is not None:
            self._lost.fail()
        if self._watch is not None:
            self._watch.begin(size(span))
        self._tell()

    def cover(self, epoch: int, span: Span, stage: Stage) -> None:
        """As `begin`, unless the whole epoch is recorded as being in progress, as it is while nothing is suspected."""
        if self._current is None or self._current.stage is not Stage.EPOCH:
            self.begin(epoch, span, stage)

    def tells_target(self) -> None:
        """From here on a connection to the target that is lost may be the doing of the span in progress."""
        self._told_target = True

    def failed(self, span: Span, stage: Stage, failure: Failure) -> Suspect:
        """Count a failure of the span that this process survived; what is held against the span now."""
        return self._accuse(span, stage, failure, counts=True)

    def pardon(self, suspect: Suspect) -> None:
        """Hold nothing against it any more: it is to be tried again."""
        self._attempts.acquit(suspect)
        self._suspects.remove(suspect)
        self._tell()

    def condemns(self, suspect: Suspect) -> bool:
        """Whether the suspect is a single message that is to be skipped."""
        enough = suspect.attempts >= self.limits.max_attempts or suspect.losses >= self.limits.max_losses
        return enough and only_position(suspect.span) is not None

    def passed(self, position: Offsets) -> None:
        """An epoch has been processed: nothing is in progress, nothing before `position` is suspected."""
        self._end_watch()
        self._attempts.finish(self._generation)
        self._current = self._whole = None
        self._forget(position)
        self._count_lost()
        self._tell()

    def laid_down(self, error: SurelaneError, *, lost_target: bool) -> None:
        """The epoch was given up. Spark's death, and a connection to the target that was lost after it was told of the
        span, are held against the span that was in progress, when the lane opens again; everything else has nothing to
        do with it."""
        self._end_watch()
        self._whole = None
        if self._current is None or isinstance(error, SparkGone):
            return
        if lost_target and self._told_target and error.verdict is Verdict.RETRY:
            self._seen = error
        else:
            self._attempts.finish(self._generation)
            self._current = None
            if not self._suspects:
                self._lost.end()
            self._tell()

    def _tell(self) -> None:
        """Keep the metrics up to date."""
        if self._metrics is None:
            return
        part = self._narrowed()
        self._metrics.set_guard(
            suspects=len(self._suspects),
            narrowing=part or 0,
            depth=depth(self._whole, part) if part and self._whole else 0,
            begun_at=self._begun_at if self._current else None,
        )

    def _narrowed(self) -> int | None:
        """Size of the part in progress; None while an epoch goes as a whole, and between two."""
        if self._current is None or self._whole is None or self._current.stage is Stage.EPOCH:
            return None
        return size(self._current.span)

    def _count_lost(self) -> None:
        """Once nothing is suspected any more."""
        if not self._suspects and (seconds := self._lost.end()) and self._metrics is not None:
            self._metrics.lost(seconds)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.end()

    def _accuse(self, span: Span, stage: Stage, failure: Failure, *, counts: bool) -> Suspect:
        """Hold a failure against the span, in place of every larger one that it is part of."""
        known = self.suspect(span, stage) or Suspect(stage=stage, span=span)
        suspect = replace(
            known,
            stage=stage,
            attempts=known.attempts + counts,
            losses=known.losses + (not counts),
            cause=failure.cause,
            error_class=failure.error_class,
            sqlstate=failure.sqlstate,
        )
        wider = [one for one in self._suspects if one.stage in (Stage.EPOCH, stage) and contains(one.span, span)]
        self._lost.fail()
        self._attempts.suspect(suspect, self._lost.seconds)
        for one in wider:
            if (one.stage, one.span) != (suspect.stage, suspect.span):
                self._attempts.acquit(one)
        self._suspects = [one for one in self._suspects if one not in wider] + [suspect]
        self._tell()
        log.warning(
            "suspected",
            lane=self._attempts.lane,
            stage=suspect.stage.value,
            start=suspect.span.start.nested(),
            end=suspect.span.end.nested(),
            attempts=suspect.attempts,
            losses=suspect.losses,
            because=failure.error_class,
            sqlstate=failure.sqlstate,
        )
        return suspect

    def _forget(self, position: Offsets) -> None:
        """Drop suspects that the lane is past."""
        for suspect in [one for one in self._suspects if is_before(one.span, position)]:
            self._attempts.acquit(suspect)
            self._suspects.remove(suspect)
