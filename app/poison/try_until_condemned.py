"""Tries one message until it passes or is condemned."""

from collections.abc import Callable
from typing import TypeVar

from app.model.offsets import Span
from app.poison.attempts import AttemptStage, Suspect
from app.poison.guard import Guard

T = TypeVar("T")


def try_until_condemned(
    guard: Guard,
    epoch: int,
    span: Span,
    stage: AttemptStage,
    attempt: Callable[[Suspect | None], T | Suspect],
    control: Callable[[Suspect], Suspect],
) -> T | Suspect:
    """The result of `attempt` once the message passes, else the condemned suspect.

    `span` is the message's. `attempt` gets what is on record against the message, tries it once, and returns a result
    or the suspect that the guard recorded for the failure. `control` runs other work and records that it passed. Both
    raise errors that no message causes.
    """
    suspect = guard.suspect(span, stage)
    while suspect is None or not guard.condemns(suspect):
        if suspect is not None and guard.wants_control(suspect):
            suspect = control(suspect)
            continue
        guard.begin(epoch, span, stage)
        result = attempt(suspect)
        if not isinstance(result, Suspect):
            return result
        suspect = result
    return suspect
