"""Times in UTC, and as they are shown."""

import datetime


def utc_time(seconds: float) -> datetime.datetime:
    """`seconds`: since 1970."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def utc(time: datetime.datetime, *, zone: bool = True) -> str:
    """To the second."""
    return f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S}{' UTC' if zone else ''}"
