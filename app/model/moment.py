"""Parses times that an operator types."""

import datetime
import re

EXAMPLE = "30m, 2h, 7d, or 2026-01-31T12:00:00Z"
_AGO = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def moment(text: str) -> datetime.datetime:
    """Parse a time (UTC unless it has an offset), or a duration ago; raises ValueError."""
    if ago := _AGO.fullmatch(text):
        try:
            return datetime.datetime.now(datetime.UTC) - datetime.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            raise ValueError(f"{text} is too long ago") from None
    time = datetime.datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
