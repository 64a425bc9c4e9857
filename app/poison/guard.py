"""One lane's guard: which spans are suspected, how often each has failed, and when one message is condemned.

Before a span is processed it is recorded (`begin`); what is recorded and not finished when the lane opens again was in
progress at a death. `app.poison.death_evidence` weighs that death. Suspects are cut (`app.poison.narrowing`) until one
is a single message, and only a single message is ever condemned:

    refused, malformed, an exception     `max_attempts` times by itself, while the rest of the epoch passes
    deaths and hangs                     the same, and a control (other work, in the same process) has passed before the
                                         last of them
    lost connections                     `max_losses` times, and a control has passed before the last of them
    unexplained deaths                   never; the message is tried in a process of its own (`app.lane.guarded_read`)
    too little memory                    epochs become smaller; a single message as for deaths

A control that fails clears what counts against the message: the surroundings are the cause.
"""

import enum
import time
from dataclasses import dataclass, replace
from typing import Any, Protocol

import psycopg2
import structlog
from sqlalchemy.exc import DBAPIError

from app.db.sqlstate import describe, driver_error, sqlstate
from app.errors import OutOfMemory, SparkGone, SurelaneError, Unattributed, Verdict
from app.metrics.lane_metrics import LaneMetrics
from app.model.activity import Activity
from app.model.death import Death
from app.model.offsets import Offsets, Span
from app.poison.attempts import Attempt, Attempts, AttemptStage, Suspect
from app.poison.death_evidence import DeathEvidence, evidence_of, weigh
from app.poison.downtime import LostTime
from app.poison.in_memory_attempts import InMemoryAttempts
from app.poison.narrowing import FAN_OUT, contains, depth, is_before, only_position, size

log = structlog.get_logger()

#: epochs after a death without anything done ahead: what kills the process ahead of its turn is found in its own epoch
CAUTIOUS_EPOCHS = 3
#: deaths of an epoch as a whole before it is read in parts: most deaths have nothing to do with a message
WHOLE_TRIES = 2
#: messages of the smallest epoch that is kept once a smaller one has fitted into memory
FEWEST_MESSAGES = 100


class Against(enum.Enum):
    """What a failure counts as."""

    ATTEMPT = "attempt"
    DEATH = "death"
    LOSS = "loss"
    UNEXPLAINED = "unexplained"


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


class ProgressWatch(Protocol):
    """Who looks after the time that a span takes."""

    def begin(self, messages: int, lane: str) -> None:
        """This thread begins a span of at most so many messages, in place of the one it began before."""
        ...

    def doing(self, activity: Activity) -> None:
        """What this thread does with its span from now on."""
        ...

    def waited(self) -> bool:
        """Whether this thread's span was seen to wait for a lock of another session."""
        ...

    def end(self) -> None:
        """This thread is through."""
        ...


class Guard:
    """The guard of one writer. Used by the lane's thread only."""

    def __init__(
        self,
        attempts: Attempts | InMemoryAttempts,
        limits: Limits,
        watch: ProgressWatch | None = None,
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
        #: whether all of the epoch is in the target's transaction
        self._is_written = False
        #: what was in progress at the death of the writer before, though the lane was past it: a release
        self._interrupted: Span | None = None
        #: epochs until work may be done ahead again
        self._cautious = 0
        #: messages of an epoch that fit into memory, as far as is known; None: any number
        self._fitting: int | None = None

    @property
    def discreet(self) -> bool:
        """Whether there are values that no error may repeat."""
        return self._attempts.discreet

    def open(self, generation: int, position: Offsets, death: Death | None) -> None:
        """Begin to guard. What was in progress and has not passed `position` is suspected from here on.

        `death`: how the worker before this one ended.
        """
        before, self._generation = self._generation, generation
        self._suspects = self._attempts.suspects()
        last, seen = self._attempts.last(), self._seen
        self._seen = self._current = self._whole = None
        open_ = None if last is None or last.finished else last
        if open_ is not None and open_.generation == before and seen is None and death is None:
            open_ = None  # this process lives, and could not say in time that nothing is in progress any more
        past = open_ is not None and is_before(open_.span, position)
        self._interrupted = open_.span if open_ is not None and past else None
        in_doubt = open_ if not past else None
        self._lost.end()
        if self._suspects or in_doubt is not None:
            self._lost.resume(self._attempts.trouble_seconds(in_progress=in_doubt is not None))
        if in_doubt is not None:
            self._judge(in_doubt, seen, death)
        if death is not None or in_doubt is not None:
            self._cautious = CAUTIOUS_EPOCHS
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

    def spans(self, *stages: AttemptStage) -> list[Span]:
        """What is to be cut before one of these stages.

        A whole epoch only after its second failure: most deaths have nothing to do with a message, and reading an epoch
        in parts takes longer.
        """
        return [one.span for one in self._suspects if one.stage in stages or _is_whole_and_failed_again(one)]

    @property
    def is_suspicious(self) -> bool:
        """Whether nothing may be done ahead: something is suspected, or a process has died a few epochs ago."""
        return bool(self._suspects) or self._cautious > 0

    @property
    def memory_limit(self) -> int | None:
        """Messages that an epoch may have, where a larger one did not fit into memory; None: no limit is known."""
        sizes = [size(one.span) for one in self._suspects if one.stage is AttemptStage.MEMORY]
        return -(-min(sizes) // FAN_OUT) if sizes else self._fitting

    def newest_generation(self) -> int:
        """The generation of the newest attempt on record, 0 for none: a claim has to be above it, also where the target
        was restored and has forgotten it."""
        last = self._attempts.last()
        return last.generation if last else 0

    def suspect(self, span: Span, stage: AttemptStage) -> Suspect | None:
        """What is on record against exactly this span at this stage."""
        stages = (AttemptStage.EPOCH, AttemptStage.MEMORY, stage)
        return next((one for one in self._suspects if one.span == span and one.stage in stages), None)

    def doing(self, activity: Activity) -> None:
        """What the lane's thread does with its span from now on."""
        if self._watch is not None:
            self._watch.doing(activity)

    def enter(self, span: Span) -> None:
        """An epoch is processed from here on, until it is `passed` or `epoch_failed`. Raises Unattributed for one that
        has failed as a whole too often, though each of its parts passes; it is forgotten then, for the next start."""
        self._whole = size(span)
        self._lost.enter()
        for suspect in [one for one in self._suspects if self._is_unattributed(one)]:
            self.clear_suspect(suspect)
            raise Unattributed.of(
                f"the epoch from {suspect.span.start} to {suspect.span.end} fails ({suspect.cause}), and no message of "
                "it fails by itself while other messages pass",
                lane=self._attempts.lane,
            )

    def begin(self, epoch: int, span: Span, stage: AttemptStage) -> None:
        """Record that the span is in progress, before anything of it is touched."""
        attempt = Attempt(generation=self._generation, epoch=epoch, stage=stage, span=span, finished=False)
        self._attempts.begin(attempt)
        self._current, self._begun_at, self._is_written = attempt, time.monotonic(), False
        self._told_target = stage is AttemptStage.APPLY
        if self._narrowed() is not None:
            self._lost.fail()
        if self._watch is not None:
            self._watch.begin(size(span), self._attempts.lane)
            if stage is AttemptStage.APPLY:
                self._watch.doing(Activity.SERVER)
        self._tell()

    def cover(self, epoch: int, span: Span, stage: AttemptStage) -> None:
        """As `begin`, unless nothing is suspected: then the whole epoch is recorded as being in progress already."""
        if self._current is None or self._current.stage is not AttemptStage.EPOCH or self._suspects:
            self.begin(epoch, span, stage)

    def wants_control(self, suspect: Suspect) -> bool:
        """Whether other work has to pass before the message is tried for the last time."""
        if suspect.controlled or only_position(suspect.span) is None:
            return False
        by_attempts = _needs_control(suspect) and suspect.attempts >= self.limits.max_attempts - 1
        return by_attempts or 0 < suspect.losses >= self.limits.max_losses - 1

    def control_passed(self, suspect: Suspect) -> Suspect:
        """Other work passes: from here on one more failure of the message condemns it."""
        return self._rewrite(
            suspect,
            controlled=True,
            attempts=min(suspect.attempts, self.limits.max_attempts - 1),
            losses=min(suspect.losses, self.limits.max_losses - 1),
        )

    def wants_trial(self, suspect: Suspect) -> bool:
        """Whether the message has to be tried in a process of its own: the deaths beside it are not explained."""
        return only_position(suspect.span) is not None and suspect.unexplained >= self.limits.max_attempts

    def trial_passed(self, suspect: Suspect) -> Suspect:
        """A process of its own has survived the message."""
        return self._rewrite(suspect, unexplained=0)

    def written(self, epoch: int, span: Span) -> None:
        """All of the epoch is in the target's transaction: from here on no part of it is in progress by itself."""
        if self._narrowed() is not None:
            self.begin(epoch, span, AttemptStage.ASSEMBLE)
            self.doing(Activity.SERVER)
        self._is_written = True

    def tells_target(self) -> None:
        """From here on a connection to the target that is lost may be the doing of the span in progress."""
        self._told_target = True

    def failed(self, span: Span, stage: AttemptStage, failure: Failure) -> Suspect:
        """Count a failure of the span that this process survived; what is on record against the span now."""
        return self._record_failure(span, stage, failure, Against.ATTEMPT)

    def task_died(self, span: Span, stage: AttemptStage, death: Death) -> Suspect:
        """Count the death of a task that worked on the span; what is on record against the span now."""
        is_explained = evidence_of(death) in (DeathEvidence.FAILURE, DeathEvidence.MEMORY)
        against = Against.DEATH if is_explained else Against.UNEXPLAINED
        return self._record_failure(span, stage, Failure.of_death(death), against)

    def unforeseen(self, error: Exception) -> None:
        """An exception that is about to end the process was raised while the span in progress was processed."""
        if self._current is None:
            return
        if self._current.stage is AttemptStage.CONTROL:
            self._control_failed(self._current.span, Failure.of(error), counts=True)
        else:
            stage = self._current.stage
            if self._is_written and stage is not AttemptStage.EPOCH:
                stage = AttemptStage.ASSEMBLE
            self._record_failure(self._current.span, stage, Failure.of(error), Against.DEATH)
        self._attempts.finish(self._generation)
        self._current = None

    def clear_suspect(self, suspect: Suspect) -> None:
        """Hold nothing against it any more: it is to be tried again."""
        self._attempts.clear_suspect(suspect)
        self._suspects.remove(suspect)
        self._tell()

    def condemns(self, suspect: Suspect) -> bool:
        """Whether the suspect is a single message that is to be skipped."""
        if only_position(suspect.span) is None or suspect.stage is AttemptStage.ASSEMBLE:
            return False
        is_controlled = suspect.controlled or not _needs_control(suspect)
        by_attempts = suspect.attempts >= self.limits.max_attempts and is_controlled
        return by_attempts or (suspect.losses >= self.limits.max_losses and suspect.controlled)

    def passed(self, position: Offsets) -> None:
        """An epoch has been processed: nothing is in progress, nothing before `position` is suspected."""
        self._end_watch()
        self._attempts.finish(self._generation)
        self._current = self._whole = None
        self._cautious = max(0, self._cautious - 1)
        self._forget(position)
        self._count_lost()
        self._tell()

    def epoch_failed(self, error: SurelaneError, *, lost_target: bool) -> None:
        """The epoch was given up. Spark's death, and a connection to the target that was lost after it was told of the
        span, are held against the span that was in progress, when the lane opens again; everything else has nothing to
        do with it, nor has a connection that was lost once a lock of another session was in the way."""
        waited = self._watch is not None and self._watch.waited()
        self._end_watch()
        self._whole = None
        if self._current is None or isinstance(error, SparkGone):
            return
        lost = lost_target and not waited and self._told_target and error.verdict is Verdict.RETRY
        is_control = self._current.stage is AttemptStage.CONTROL
        if is_control and isinstance(error, Unattributed):  # forgotten: the next start tries the same epoch again
            for suspect in [one for one in self._suspects if one.span == self._current.span]:
                self.clear_suspect(suspect)
            is_control = False
        if lost or isinstance(error, OutOfMemory) or is_control:
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
        if self._current is None or self._whole is None or self._current.stage is AttemptStage.EPOCH:
            return None
        return size(self._current.span)

    def _count_lost(self) -> None:
        """Once nothing is suspected any more."""
        if not self._suspects and (seconds := self._lost.end()) and self._metrics is not None:
            self._metrics.lost(seconds)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.end()

    def _judge(self, attempt: Attempt, seen: SurelaneError | None, death: Death | None) -> None:
        """Weigh what ended an attempt: an error that this process has seen, or the death of the one before."""
        if seen is None:
            evidence, failure = weigh(death, self._attempts.lane), Failure.of_death(death)
        else:
            evidence, failure = _weigh_error(seen), Failure.of(seen)
        if evidence is DeathEvidence.NOTHING:
            return
        if attempt.stage is AttemptStage.CONTROL:
            self._control_failed(attempt.span, failure, counts=seen is None)
        elif evidence is DeathEvidence.MEMORY:
            self._record_failure(attempt.span, AttemptStage.MEMORY, failure, Against.DEATH)
        elif seen is not None:
            self._record_failure(attempt.span, attempt.stage, failure, Against.LOSS)
        else:
            against = Against.DEATH if evidence is DeathEvidence.FAILURE else Against.UNEXPLAINED
            self._record_failure(attempt.span, attempt.stage, failure, against)

    def _is_unattributed(self, suspect: Suspect) -> bool:
        limit = self.limits.max_attempts
        return suspect.control_failures >= limit or (
            suspect.stage is AttemptStage.ASSEMBLE and suspect.attempts >= limit
        )

    def _control_failed(self, span: Span, failure: Failure, *, counts: bool) -> None:
        """Other work fails, too: nothing counts against the message any more. `counts`: too many of it stop the lane;
        a server that goes away is waited for without an end."""
        cleared = dict.fromkeys(("attempts", "losses", "deaths", "unexplained"), 0)
        for one in [one for one in self._suspects if one.span == span]:
            failures = one.control_failures + counts
            self._rewrite(one, **cleared, controlled=False, control_failures=failures, cause=failure.cause)
        log.warning("control failed", lane=self._attempts.lane, start=span.start.nested(), because=failure.error_class)

    def _rewrite(self, suspect: Suspect, **changes: Any) -> Suspect:
        """Change what is on record of a suspect."""
        changed = replace(suspect, **changes)
        self._attempts.suspect(changed, self._lost.seconds)
        self._suspects = [changed if one is suspect else one for one in self._suspects]
        return changed

    def _record_failure(self, span: Span, stage: AttemptStage, failure: Failure, against: Against) -> Suspect:
        """Record a failure against the span, in place of every larger one that it is part of."""
        known = self.suspect(span, stage) or Suspect(stage=stage, span=span)
        suspect = replace(
            known,
            stage=stage,
            attempts=known.attempts + (against in (Against.ATTEMPT, Against.DEATH)),
            deaths=known.deaths + (against is Against.DEATH),
            losses=known.losses + (against is Against.LOSS),
            unexplained=known.unexplained + (against is Against.UNEXPLAINED),
            alone=known.alone + (only_position(span) is not None),
            cause=failure.cause,
            error_class=failure.error_class,
            sqlstate=failure.sqlstate,
        )
        wider = [one for one in self._suspects if one.stage in (AttemptStage.EPOCH, stage) and contains(one.span, span)]
        self._lost.fail()
        self._attempts.suspect(suspect, self._lost.seconds)
        for one in wider:
            if (one.stage, one.span) != (suspect.stage, suspect.span):
                self._attempts.clear_suspect(one)
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
            unexplained=suspect.unexplained,
            because=failure.error_class,
            sqlstate=failure.sqlstate,
        )
        return suspect

    def _forget(self, position: Offsets) -> None:
        """Drop suspects that the lane is past."""
        passed = [one for one in self._suspects if is_before(one.span, position)]
        if any(one.stage is AttemptStage.MEMORY for one in passed):
            # one message did not fit, and is skipped: epochs of any size do; else those of the present size do
            is_found, limit = any(map(self.condemns, passed)), self.memory_limit
            self._fitting = None if is_found or limit is None else max(limit, FEWEST_MESSAGES)
        for suspect in passed:
            self._attempts.clear_suspect(suspect)
            self._suspects.remove(suspect)


def _is_whole_and_failed_again(suspect: Suspect) -> bool:
    failures = suspect.attempts + suspect.losses + suspect.unexplained
    return suspect.stage is AttemptStage.EPOCH and failures >= WHOLE_TRIES


def _needs_control(suspect: Suspect) -> bool:
    """What the target refuses is refused while the rest of the epoch passes in the same transaction; where reading
    fails or the process dies, other work has to pass first."""
    return suspect.deaths > 0 or (suspect.stage is AttemptStage.DECODE and suspect.attempts > 0)


def _weigh_error(error: SurelaneError) -> DeathEvidence:
    """Of an error that this process has survived."""
    return DeathEvidence.MEMORY if isinstance(error, OutOfMemory) else DeathEvidence.FAILURE
