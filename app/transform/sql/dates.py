"""Days and microseconds since 1970 in UTC, and their texts, also for years that Python's own dates do not have."""

import re

from app.transform.sql.row_failure import cannot_cast

_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECOND, DAY = 1_000_000, 86_400_000_000
#: days in 400 years, and from March 1 of the year 0 until 1970
_ERA, _TO_1970 = 146_097, 719_468


def days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the Gregorian calendar."""
    if month <= 2:
        year -= 1
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * _ERA + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _TO_1970


def civil(number: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970."""
    era, of_era = divmod(number + _TO_1970, _ERA)
    of_400 = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * of_400 + of_400 // 4 - of_400 // 100)
    at = (5 * of_year + 2) // 153
    month = at + 3 if at < 10 else at - 9
    return era * 400 + of_400 + (month <= 2), month, of_year - (153 * at + 2) // 5 + 1


def date_of(text: str) -> int:
    """Parse `yyyy`, `yyyy-mm` or `yyyy-mm-dd`, the last with a time behind it that is ignored; raises SqlFailure."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise cannot_cast("date")
    year = int(found[1] + found[2])
    month, day = int(found[3] or 1), int(found[4] or 1)
    if not (1 <= month <= 12 and 1 <= day <= _length(year, month)):
        raise cannot_cast("date")
    return days(year, month, day)


def date_text(number: int) -> str:
    """The date as Spark writes it."""
    year, month, day = civil(number)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def timestamp_text(micros: int) -> str:
    """The timestamp as Spark writes it in UTC, without trailing zeros in its fraction."""
    number, of_day = divmod(micros, DAY)
    seconds, fraction = divmod(of_day, _SECOND)
    after = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{date_text(number)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{after}"


def _length(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _LENGTHS[month - 1]
