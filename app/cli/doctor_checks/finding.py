"""What a check found."""

import enum
from dataclasses import dataclass

from app.errors import SurelaneError


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"  #: the lane runs; it may not do what was hoped for
    FAULT = "fault"  #: the lane does not start, or stops


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the doctor's report."""

    check: str
    level: Level
    message: str
    #: what to do about it
    hint: str | None = None


def ok(check: str, message: str) -> Finding:
    """As it should be."""
    return Finding(check=check, level=Level.OK, message=message)


def warn(check: str, message: str, hint: str) -> Finding:
    """Works, but."""
    return Finding(check=check, level=Level.WARN, message=message, hint=hint)


def fault(check: str, message: str, hint: str) -> Finding:
    """Does not work."""
    return Finding(check=check, level=Level.FAULT, message=message, hint=hint)


def failed(check: str, error: SurelaneError, hint: str | None = None) -> Finding:
    """The check itself met an error that explains what is wrong; `hint` is for one that has none."""
    return Finding(check=check, level=Level.FAULT, message=error.message, hint=error.hint or hint)
