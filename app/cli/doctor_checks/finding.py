"""The result of a check."""

import enum
from dataclasses import dataclass

from app.errors import SurelaneError


class Level(enum.StrEnum):
    OK = "ok"
    WARN = "warn"  #: the lane runs, but may not do what is expected
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
    return Finding(check=check, level=Level.OK, message=message)


def warn(check: str, message: str, hint: str) -> Finding:
    return Finding(check=check, level=Level.WARN, message=message, hint=hint)


def fault(check: str, message: str, hint: str) -> Finding:
    return Finding(check=check, level=Level.FAULT, message=message, hint=hint)


def failed(check: str, error: SurelaneError, hint: str | None = None) -> Finding:
    """A fault from the error that a check met; `hint` is for an error without one."""
    return Finding(check=check, level=Level.FAULT, message=error.message, hint=error.hint or hint)
