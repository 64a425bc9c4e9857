"""Times as they are shown."""

import datetime


def utc(time: datetime.datetime, *, zone: bool = True) -> str:
    """To the second."""
    return f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S}{' UTC' if zone else ''}"
