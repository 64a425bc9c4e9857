"""Attempts and suspects in memory only: what `guard.enabled: false` leaves of the guard.

What fails in the process is still found and skipped; what takes the process with it is not, since nobody remembers it.
"""

import time
from dataclasses import replace

from app.model.offsets import Span
from app.poison.attempts import Attempt, AttemptStage, Suspect


class InMemoryAttempts:
    """As `Attempts`, for as long as this process lives."""

    def __init__(self, lane: str, *, discreet: bool = False) -> None:
        self.lane, self.discreet = lane, discreet
        self._last: Attempt | None = None
        self._begun_at = 0.0
        self._suspects: dict[tuple[AttemptStage, Span], Suspect] = {}
        #: begin of the first attempt that led to each, monotonic
        self._trouble_at: dict[tuple[AttemptStage, Span], float] = {}

    def close(self) -> None:
        """There is nothing to give back."""

    def begin(self, attempt: Attempt) -> None:
        """Remember that the span is in progress."""
        self._last, self._begun_at = attempt, time.monotonic()

    def finish(self, generation: int) -> None:
        """Nothing is in progress any more."""
        if self._last is not None:
            self._last = replace(self._last, finished=True)

    def last(self) -> Attempt | None:
        """The span begun last."""
        return self._last

    def suspects(self) -> list[Suspect]:
        """Everything that is suspected."""
        return list(self._suspects.values())

    def trouble_seconds(self, *, in_progress: bool) -> float:
        """How long ago the first of the attempts was begun that led to what is suspected; `in_progress`: and to what is
        not finished."""
        last = [self._begun_at] if in_progress and self._last is not None and not self._last.finished else []
        since = [*self._trouble_at.values(), *last]
        return time.monotonic() - min(since) if since else 0.0

    def suspect(self, suspect: Suspect, trouble_seconds: float = 0.0) -> None:
        """Remember a suspect, or what is new of it. The trouble that led to it began so long ago."""
        self._suspects[suspect.stage, suspect.span] = suspect
        self._trouble_at.setdefault((suspect.stage, suspect.span), time.monotonic() - trouble_seconds)

    def clear_suspect(self, suspect: Suspect) -> None:
        """Forget a suspect."""
        self._suspects.pop((suspect.stage, suspect.span), None)
        self._trouble_at.pop((suspect.stage, suspect.span), None)
