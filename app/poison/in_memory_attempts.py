"""Attempts and suspects in memory only, for `guard.enabled: false`.

The guard still finds and skips a message that fails within the process. It does not find one that kills the process:
the record dies with it.
"""

import time
from dataclasses import replace

from app.model.offsets import Span
from app.poison.attempts import Attempt, AttemptStage, Suspect


class InMemoryAttempts:
    """Same interface as `Attempts`, for the life of this process."""

    def __init__(self, lane: str, *, discreet: bool = False) -> None:
        self.lane, self.discreet = lane, discreet
        self._last: Attempt | None = None
        self._begun_at = 0.0
        self._suspects: dict[tuple[AttemptStage, Span], Suspect] = {}
        #: when the first attempt that led to each began, monotonic
        self._trouble_at: dict[tuple[AttemptStage, Span], float] = {}

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def begin(self, attempt: Attempt) -> None:
        self._last, self._begun_at = attempt, time.monotonic()

    def finish_soon(self, generation: int, within: float = 0.0) -> None:
        del within
        self.finish(generation)

    def finish(self, generation: int) -> None:
        if self._last is not None:
            self._last = replace(self._last, finished=True)

    def finish_unknown(self, generation: int) -> None:
        """Do nothing: what is in memory is known."""

    def last(self) -> Attempt | None:
        return self._last

    def suspects(self) -> list[Suspect]:
        return list(self._suspects.values())

    def trouble_seconds(self, *, in_progress: bool) -> float:
        """Seconds since the first attempt that led to a suspect began; `in_progress`: or the unfinished attempt."""
        last = [self._begun_at] if in_progress and self._last is not None and not self._last.finished else []
        since = [*self._trouble_at.values(), *last]
        return time.monotonic() - min(since) if since else 0.0

    def suspect(self, suspect: Suspect, trouble_seconds: float = 0.0, *, finish: int | None = None) -> None:
        """Insert or update a suspect. A new one records that its trouble began `trouble_seconds` ago."""
        if finish is not None:
            self.finish(finish)
        self._suspects[suspect.stage, suspect.span] = suspect
        self._trouble_at.setdefault((suspect.stage, suspect.span), time.monotonic() - trouble_seconds)

    def clear_suspect(self, suspect: Suspect) -> None:
        self._suspects.pop((suspect.stage, suspect.span), None)
        self._trouble_at.pop((suspect.stage, suspect.span), None)
