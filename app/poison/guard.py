"""One lane's guard: it records suspects, counts their failures, and condemns single messages.

The guard records a span before the lane processes it (`begin`). A recorded span that is not finished when the lane
opens again was in progress at a death, which `app.poison.death_evidence` weighs. Suspects are cut
(`app.poison.narrowing`) until one is a single message. Only a single message is condemned:

    refused, malformed, an exception     after `max_attempts` failures by itself, while the rest of the epoch passes
    deaths and hangs                     the same, if a control (other work, in the same process) passed before the last
    lost connections                     after `max_losses`, if a control passed before the last
    unexplained deaths                   never; the message is tried in a process of its own (`app.lane.guarded_read`)
    too little memory                    epochs become smaller; a single message as for deaths

A control that fails clears the message's counts: the environment is the cause.
"""

import enum
import time
from contextlib import suppress
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
from app.model.epoch import GENESIS
from app.model.offsets import Offsets, Span
from app.poison.attempts import Attempt, Attempts, AttemptStage, Suspect
from app.poison.death_evidence import DeathEvidence, evidence_of, weigh
from app.poison.downtime import LostTime
from app.poison.in_memory_attempts import InMemoryAttempts
from app.poison.narrowing import FAN_OUT, contains, depth, is_before, only_position

log = structlog.get_logger()

#: epochs after a death in which nothing is staged ahead: a message that kills the process then does so in its own epoch
CAUTIOUS_EPOCHS = 3
#: failures of a whole epoch before it is read in parts: most deaths are not caused by a message
WHOLE_TRIES = 2
#: seconds that the record of a passed epoch may wait for the next epoch's, which takes its place
REPLACED_WITHIN = 0.1
#: least limit of messages per epoch that stays once epochs fit into memory again
FEWEST_MESSAGES = 100


class Against(enum.Enum):
    """The counter that a failure adds to."""

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
    """The cause of a failure, as it is recorded."""

    cause: str
    error_class: str
    sqlstate: str | None = None

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        if isinstance(error, DBAPIError | psycopg2.Error):
            return cls(describe(error), type(driver_error(error)).__name__, sqlstate(error))
        return cls(error.message if isinstance(error, SurelaneError) else str(error), type(error).__name__)

    @classmethod
    def of_death(cls, death: Death | None) -> "Failure":
        """From the death of the process that worked on the span; None: how it died is not known."""
        return cls(f"the worker died: {death}", death.label) if death else cls("the worker died", "unknown")


class ProgressWatch(Protocol):
    """Watches how long a span takes."""

    def begin(self, messages: int, lane: str) -> None:
        """This thread begins a span of at most `messages` messages; it replaces the thread's span before."""
        ...

    def doing(self, activity: Activity) -> None:
        """Report what this thread does with its span from now on."""
        ...

    def waited(self) -> bool:
        """Whether this thread's span has waited for a lock of another session."""
        ...

    def end(self) -> None:
        """This thread's span is over."""
        ...


class Guard:
    """The guard of one writer. Only the lane's thread calls it."""

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
        #: offsets in the epoch that is processed; None between epochs
        self._whole: int | None = None
        self._lost = LostTime()
        #: the error that failed the span in progress, if this process survived it
        self._seen: SurelaneError | None = None
        #: whether SQL of the span in progress may have reached the target
        self._target_contacted = False
        #: whether all of the epoch is in the target's transaction
        self._is_written = False
        #: a release that was in progress when the previous writer died: a span before the lane's position
        self._interrupted: Span | None = None
        #: epochs until the lane may stage ahead again
        self._cautious = 0
        #: messages of an epoch that are known to fit into memory; None: no limit is known
        self._fitting: int | None = None

    @property
    def discreet(self) -> bool:
        """Whether error texts must not repeat values of messages."""
        return self._attempts.discreet

    def open(self, generation: int, position: Offsets, death: Death | None) -> None:
        """Start: a span that was in progress and is not before `position` becomes a suspect, if its end counts.

        `death`: how the previous worker ended.
        """
        self._suspects = self._attempts.suspects()
        last, seen = self._attempts.last(), self._seen
        self._whole = None
        open_ = None if last is None or last.finished else last
        if open_ is not None and open_.generation == self._generation and seen is None and death is None:
            open_ = None  # this process lives: it could not write that the span is finished
        past = open_ is not None and is_before(open_.span, position)
        self._interrupted = open_.span if open_ is not None and past and open_.epoch == GENESIS else None
        in_doubt = open_ if not past else None
        self._lost.end()
        if self._suspects or in_doubt is not None:
            self._lost.resume(self._attempts.trouble_seconds(in_progress=in_doubt is not None))
        if in_doubt is not None:
            self._judge(in_doubt, seen, death, generation)
        if death is not None or in_doubt is not None:
            self._cautious = CAUTIOUS_EPOCHS
        if self._interrupted is None:  # else it is found again, should this process end before the release
            self._attempts.finish(generation)
        # only now: an opening that failed is repeated, with what is known of the last attempt
        self._generation, self._current, self._seen = generation, None, None
        self._forget(position)
        self._count_lost()
        self._update_metrics()

    def close(self) -> None:
        """Close the connection to the guard's tables."""
        # what is over the next start would take for a death, where that could not be written
        if self._current is None and self._interrupted is None:
            with suppress(SurelaneError):
                self._attempts.finish_unknown(self._generation)
        self._attempts.close()

    def take_interrupted(self) -> Span | None:
        """Return the messages whose release the previous writer did not survive; None from the second call on."""
        span, self._interrupted = self._interrupted, None
        return span

    def spans(self, *stages: AttemptStage) -> list[Span]:
        """The suspects along which to cut an epoch before one of these stages.

        A whole epoch is among them only after its second failure: most deaths are not caused by a message, and reading
        an epoch in parts takes longer.
        """
        return [one.span for one in self._suspects if one.stage in stages or _is_whole_and_failed_again(one)]

    @property
    def is_suspicious(self) -> bool:
        """Whether nothing may be staged ahead: there is a suspect, or a process died within the last epochs."""
        return bool(self._suspects) or self._cautious > 0

    @property
    def memory_limit(self) -> int | None:
        """Messages that an epoch may have, once a larger one did not fit into memory; None: no limit is known."""
        sizes = [one.span.size for one in self._suspects if one.stage is AttemptStage.MEMORY]
        return -(-min(sizes) // FAN_OUT) if sizes else self._fitting

    def condemned(self) -> list[Suspect]:
        """The suspects that have failed as often as they may."""
        return [one for one in self._suspects if self.condemns(one)]

    def newest_generation(self) -> int:
        """The generation of the last recorded attempt, 0 for none. A claim has to exceed it, also when a restored
        target does not know it any more."""
        last = self._attempts.last()
        return last.generation if last else 0

    def suspect(self, span: Span, stage: AttemptStage) -> Suspect | None:
        """The suspect of exactly this span at this stage, as EPOCH, or as MEMORY."""
        stages = (AttemptStage.EPOCH, AttemptStage.MEMORY, stage)
        return next((one for one in self._suspects if one.span == span and one.stage in stages), None)

    def doing(self, activity: Activity) -> None:
        """Report what the lane's thread does with its span from now on."""
        if self._watch is not None:
            self._watch.doing(activity)

    def enter(self, span: Span) -> None:
        """Begin an epoch; `passed` or `epoch_failed` ends it. Raises Unattributed, and clears the suspect for the next
        start, if an epoch failed too often as a whole while its parts pass, or a control failed too often."""
        self._whole = span.size
        self._lost.enter()
        for suspect in [one for one in self._suspects if self._is_unattributed(one)]:
            self.clear_suspect(suspect)
            raise Unattributed.of(
                f"the epoch from {suspect.span.start} to {suspect.span.end} fails ({suspect.cause}), and no message of "
                "it fails by itself while other messages pass",
                lane=self._attempts.lane,
            )

    def begin(self, epoch: int, span: Span, stage: AttemptStage) -> None:
        """Record that the span is in progress, before it is read or applied."""
        attempt = Attempt(generation=self._generation, epoch=epoch, stage=stage, span=span, finished=False)
        self._attempts.begin(attempt)
        self._current, self._begun_at, self._is_written = attempt, time.monotonic(), False
        self._target_contacted = stage is AttemptStage.APPLY
        if self._narrowed() is not None:
            self._lost.fail()
        if self._watch is not None:
            self._watch.begin(span.size, self._attempts.lane)
            if stage is AttemptStage.APPLY:
                self._watch.doing(Activity.SERVER)
        self._update_metrics()

    def cover(self, epoch: int, span: Span, stage: AttemptStage) -> None:
        """Call `begin`, unless the whole epoch is on record as in progress and there is no suspect."""
        if self._current is None or self._current.stage is not AttemptStage.EPOCH or self._suspects:
            self.begin(epoch, span, stage)

    def wants_control(self, suspect: Suspect) -> bool:
        """Whether other work has to pass before the last attempt at the message."""
        if suspect.controlled or only_position(suspect.span) is None:
            return False
        by_attempts = _needs_control(suspect) and suspect.attempts >= self.limits.max_attempts - 1
        return by_attempts or 0 < suspect.losses >= self.limits.max_losses - 1

    def control_passed(self, suspect: Suspect) -> Suspect:
        """Record that other work passes: one more failure then condemns the message."""
        return self._rewrite(
            suspect,
            controlled=True,
            attempts=min(suspect.attempts, self.limits.max_attempts - 1),
            losses=min(suspect.losses, self.limits.max_losses - 1),
        )

    def wants_trial(self, suspect: Suspect) -> bool:
        """Whether to try the message in a process of its own, since its deaths are unexplained."""
        return only_position(suspect.span) is not None and suspect.unexplained >= self.limits.max_attempts

    def trial_passed(self, suspect: Suspect) -> Suspect:
        """Clear the unexplained deaths: a separate process survived the message."""
        return self._rewrite(suspect, unexplained=0)

    def written(self, epoch: int, span: Span) -> None:
        """Record that the whole epoch is in the target's transaction: a failure from now on is no single part's."""
        if self._narrowed() is not None:
            self.begin(epoch, span, AttemptStage.ASSEMBLE)
            self.doing(Activity.SERVER)
        self._is_written = True

    def record_target_contact(self) -> None:
        """From now on count a lost connection to the target against the span in progress: SQL is sent."""
        self._target_contacted = True

    def failed(self, span: Span, stage: AttemptStage, failure: Failure) -> Suspect:
        """Count a failure of the span that this process survived, and return the suspect."""
        return self._record_failure(span, stage, failure, Against.ATTEMPT)

    def task_died(self, span: Span, stage: AttemptStage, death: Death) -> Suspect:
        """Count the death of a task that worked on the span, and return the suspect."""
        is_explained = evidence_of(death) in (DeathEvidence.FAILURE, DeathEvidence.MEMORY)
        against = Against.DEATH if is_explained else Against.UNEXPLAINED
        return self._record_failure(span, stage, Failure.of_death(death), against)

    def unforeseen(self, error: Exception) -> None:
        """Count an exception that ends the process against the span in progress."""
        if self._current is None:
            return
        if self._current.stage is AttemptStage.CONTROL:
            self._control_failed(self._current.span, Failure.of(error), self._generation, counts=True)
        else:
            stage = self._current.stage
            if self._is_written and stage is not AttemptStage.EPOCH:
                stage = AttemptStage.ASSEMBLE
            self._record_failure(self._current.span, stage, Failure.of(error), Against.DEATH, self._generation)
        self._attempts.finish(self._generation)
        self._current = None

    def clear_suspect(self, suspect: Suspect) -> None:
        """Delete the suspect: its span is tried again from scratch."""
        self._attempts.clear_suspect(suspect)
        self._suspects.remove(suspect)
        self._update_metrics()

    def condemns(self, suspect: Suspect) -> bool:
        """Whether the suspect is a single message that has failed as often as it may."""
        if only_position(suspect.span) is None or suspect.stage is AttemptStage.ASSEMBLE:
            return False
        is_controlled = suspect.controlled or not _needs_control(suspect)
        by_attempts = suspect.attempts >= self.limits.max_attempts and is_controlled
        return by_attempts or (suspect.losses >= self.limits.max_losses and suspect.controlled)

    def passed(self, position: Offsets, *, is_visible: bool = False) -> None:
        """End an epoch that passed: no span is in progress; delete the suspects before `position`. `is_visible`: the
        target's ledger ends there for good, and the record of that may wait for the next epoch's."""
        self._end_watch()
        # a whole epoch that the server forgets to have passed has a position that the target has, or is tried once more
        is_whole = self._current is not None and self._current.stage is AttemptStage.EPOCH and not self._suspects
        self._current = self._whole = None
        if is_whole:
            self._attempts.finish_soon(self._generation, REPLACED_WITHIN if is_visible else 0.0)
        else:
            self._attempts.finish(self._generation)
        self._cautious = max(0, self._cautious - 1)
        self._forget(position)
        self._count_lost()
        self._update_metrics()

    def epoch_failed(self, error: SurelaneError, *, lost_target: bool) -> None:
        """Record that the epoch failed. When the lane opens again, a JVM death, a lack of memory, and a connection lost
        after SQL was sent count against the span in progress. Other errors do not, nor does a connection that was lost
        after the span waited for a lock of another session."""
        waited = self._watch is not None and self._watch.waited()
        self._end_watch()
        self._whole = None
        if self._current is None or isinstance(error, SparkGone):
            return
        lost = lost_target and not waited and self._target_contacted and error.verdict is Verdict.RETRY
        is_control = self._current.stage is AttemptStage.CONTROL
        if is_control and isinstance(error, Unattributed):  # cleared: the next start tries the same epoch again
            for suspect in [one for one in self._suspects if one.span == self._current.span]:
                self.clear_suspect(suspect)
            is_control = False
        if lost or isinstance(error, OutOfMemory) or is_control:
            self._seen = error
        else:
            self._current = None
            self._attempts.finish(self._generation)
            if not self._suspects:
                self._lost.end()
            self._update_metrics()

    def _update_metrics(self) -> None:
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
        """Size of the part in progress; None while an epoch is processed as a whole, and between epochs."""
        if self._current is None or self._whole is None or self._current.stage is AttemptStage.EPOCH:
            return None
        return self._current.span.size

    def _count_lost(self) -> None:
        """Add the lost time to the metrics, once no suspect is left."""
        if not self._suspects and (seconds := self._lost.end()) and self._metrics is not None:
            self._metrics.lost(seconds)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.end()

    def _judge(self, attempt: Attempt, seen: SurelaneError | None, death: Death | None, generation: int) -> None:
        """Weigh what ended an attempt: an error that this process survived, or the death of the previous one. What
        counts is written together with the attempt's end, by a writer of `generation`."""
        if seen is None:
            evidence, failure = weigh(death, self._attempts.lane), Failure.of_death(death)
        else:
            evidence, failure = _weigh_error(seen), Failure.of(seen)
        if evidence is DeathEvidence.NOTHING:
            return
        if attempt.stage is AttemptStage.CONTROL:
            self._control_failed(attempt.span, failure, generation, counts=seen is None)
        elif evidence is DeathEvidence.MEMORY:
            self._record_failure(attempt.span, AttemptStage.MEMORY, failure, Against.DEATH, generation)
        elif seen is not None:
            self._record_failure(attempt.span, attempt.stage, failure, Against.LOSS, generation)
        else:
            against = Against.DEATH if evidence is DeathEvidence.FAILURE else Against.UNEXPLAINED
            self._record_failure(attempt.span, attempt.stage, failure, against, generation)

    def _is_unattributed(self, suspect: Suspect) -> bool:
        limit = self.limits.max_attempts
        return suspect.control_failures >= limit or (
            suspect.stage is AttemptStage.ASSEMBLE and suspect.attempts >= limit
        )

    def _control_failed(self, span: Span, failure: Failure, generation: int, *, counts: bool) -> None:
        """Clear the suspect's counts: other work fails, too. `counts`: add to `control_failures`, too many of which
        stop the lane; False for a lost server, which the lane waits for without limit. Ends the attempt, too."""
        cleared = dict.fromkeys(("attempts", "losses", "deaths", "unexplained"), 0)
        for one in [one for one in self._suspects if one.span == span]:
            failures = one.control_failures + counts
            changes = {**cleared, "controlled": False, "control_failures": failures, "cause": failure.cause}
            self._rewrite(one, finish=generation, **changes)
        log.warning("control failed", lane=self._attempts.lane, start=span.start.nested(), because=failure.error_class)

    def _rewrite(self, suspect: Suspect, *, finish: int | None = None, **changes: Any) -> Suspect:
        """Change a suspect in the table and in memory. `finish`: see `Attempts.suspect`."""
        changed = replace(suspect, **changes)
        self._attempts.suspect(changed, self._lost.seconds, finish=finish)
        self._suspects = [changed if one is suspect else one for one in self._suspects]
        return changed

    def _record_failure(
        self, span: Span, stage: AttemptStage, failure: Failure, against: Against, finish: int | None = None
    ) -> Suspect:
        """Record a failure of the span; its suspect replaces wider ones that contain it. `finish`: see
        `Attempts.suspect`."""
        smaller = self._planned_smaller(span, stage)
        known = self.suspect(span, stage) or max(smaller, key=lambda one: one.attempts, default=None)
        known = replace(known or Suspect(stage=stage, span=span), span=span)
        wider = [one for one in self._suspects if one.stage in (AttemptStage.EPOCH, stage) and contains(one.span, span)]
        suspect = replace(
            known,
            stage=stage,
            first_messages=max(span.size, self._whole or 0, *(one.first_messages for one in (known, *wider))),
            attempts=known.attempts + (against in (Against.ATTEMPT, Against.DEATH)),
            deaths=known.deaths + (against is Against.DEATH),
            losses=known.losses + (against is Against.LOSS),
            unexplained=known.unexplained + (against is Against.UNEXPLAINED),
            alone=known.alone + (only_position(span) is not None),
            cause=failure.cause,
            error_class=failure.error_class,
            sqlstate=failure.sqlstate,
        )
        self._lost.fail()
        self._attempts.suspect(suspect, self._lost.seconds, finish=finish)
        gone = [*wider, *smaller]
        for one in gone:
            if (one.stage, one.span) != (suspect.stage, suspect.span):
                self._attempts.clear_suspect(one)
        self._suspects = [one for one in self._suspects if one not in gone] + [suspect]
        self._update_metrics()
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

    def _planned_smaller(self, span: Span, stage: AttemptStage) -> list[Suspect]:
        """Suspects that are whole epochs, and began where this one begins: a lane that went ahead of the checkpoint has
        its next epoch planned anew, with what has come since."""
        if stage is not AttemptStage.EPOCH:
            return []
        whole = (one for one in self._suspects if one.stage is AttemptStage.EPOCH)
        return [one for one in whole if one.span.start == span.start and contains(span, one.span) and one.span != span]

    def _forget(self, position: Offsets) -> None:
        """Delete the suspects before `position`."""
        passed = [one for one in self._suspects if is_before(one.span, position)]
        if any(one.stage is AttemptStage.MEMORY for one in passed):
            # a single message that did not fit is skipped: lift the limit; else the present limit is known to fit
            is_found, limit = any(map(self.condemns, passed)), self.memory_limit
            self._fitting = None if is_found or limit is None else max(limit, FEWEST_MESSAGES)
        for suspect in passed:
            self._attempts.clear_suspect(suspect)
            self._suspects.remove(suspect)


def _is_whole_and_failed_again(suspect: Suspect) -> bool:
    failures = suspect.attempts + suspect.losses + suspect.unexplained
    return suspect.stage is AttemptStage.EPOCH and failures >= WHOLE_TRIES


def _needs_control(suspect: Suspect) -> bool:
    """Whether other work has to pass first: after deaths and failed reads. A message that the target refuses needs no
    control: the rest of the epoch passes in the same transaction."""
    return suspect.deaths > 0 or (suspect.stage is AttemptStage.DECODE and suspect.attempts > 0)


def _weigh_error(error: SurelaneError) -> DeathEvidence:
    """Weigh an error that this process survived."""
    return DeathEvidence.MEMORY if isinstance(error, OutOfMemory) else DeathEvidence.FAILURE
