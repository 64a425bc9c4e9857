"""Attempts and suspects in memory only: what `guard.enabled: false` leaves of the guard.

What fails in the process is still found and skipped; what takes the process with it is not, since nobody remembers it.
"""

from dataclasses import replace

from app.guard.attempts import Attempt, Stage, Suspect
from app.model.offsets import Span


class Volatile:
    """As `Attempts`, for as long as this process lives."""

    def __init__(self, lane: str, *, discreet: bool = False) -> None:
        self.lane, self.discreet = lane, discreet
        self._last: Attempt | None = None
        self._suspects: dict[tuple[Stage, Span], Suspect] = {}

    def close(self) -> None:
        """There is nothing to give back."""

    def begin(self, attempt: Attempt) -> None:
        """Remember that the span is in progress."""
        self._last = attempt

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

    def suspect(self, suspect: Suspect) -> None:
        """Remember a suspect, or what is new of it."""
        self._suspects[suspect.stage, suspect.span] = suspect

    def acquit(self, suspect: Suspect) -> None:
        """Forget a suspect."""
        self._suspects.pop((suspect.stage, suspect.span), None)
