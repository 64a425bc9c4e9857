"""One message, tried until it passes or is condemned."""

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

    `span` is the message's own. `attempt` tries it once, beside what is known of it so far: it returns a result, or the
    suspect that the guard has recorded for the failure. `control` has other work done, and records that it passed. Both
    raise what is no message's fault.
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
