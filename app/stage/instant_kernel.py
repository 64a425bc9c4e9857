"""Points in time in COPY lines, as texts or numbers, to microseconds: the function that `app.stage.instants` compiles.

Postgres takes a third of a microsecond to read the text of a time, a tenth of a row's MERGE. A value is taken only
where Postgres reads the same time of it, and all arithmetic on its microseconds is exact; every other one is left as it
is, also one that is no time.
"""

from typing import Any

import numba
import numpy as np
from numba import types

from app.machine_words import (
    HIGH,
    ONE,
    WIDTH,
    Bytes,
    Integers,
    Word,
    eight,
    fetch,
    first_marked,
    head,
    load,
    part,
    store,
)

#: bytes of anything behind what is read and written
MORE = 16
#: bytes of a line that become more with each instant: a tab, and a number or NULL in two places
GROWS = 24

_TAB, _NEWLINE, _BACKSLASH, _LARGE_N = ord("\t"), ord("\n"), ord("\\"), ord("N")
_ZERO, _ONE, _NINE, _MINUS = ord("0"), ord("1"), ord("9"), ord("-")
_LARGE_Z, _POINT = ord("Z"), ord(".")
_TABS, _NEWLINES = eight(_TAB), eight(_NEWLINE)
_LOW = eight(0x7F)
#: a product with it has the sum of all bytes in the highest one
_SUM, _TO_LOWEST, _SEVEN = eight(1), np.uint64(56), np.uint64(7)
#: exact as a floating-point number, which Postgres multiplies an interval with
_MOST = 1 << 53
#: length of "2025-01-01T00:00:00Z", and with six digits behind the point; digits of a number that are multiplied
_WHOLE, _LONGEST, _DIGITS = 20, 27, 16
_NO_TIME = -_MOST
_SECOND, _MINUTE, _HOUR, _DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
#: days from 0000-03-01 to 1970-01-01, days of 400 years
_BEFORE, _ERA_DAYS, _ERA = 719_468, 146_097, 400
_BYTE, _TEN, _EIGHT = np.uint64(0xFF), np.uint64(10), np.uint64(8)


def _form(text: str) -> tuple[Word, Word]:
    """Eight characters, 0 for any digit: what XOR makes digits of, and what takes every byte that does not fit above
    127 then."""
    zeros = int.from_bytes(text.encode(), "little")
    limits = int.from_bytes(bytes(0x7F - 9 if one == "0" else 0x7F for one in text), "little")
    return np.uint64(zeros), np.uint64(limits)


_DATE, _NO_DATE = _form("0000-00-")
_TIME, _NO_TIMES = _form("00T00:00")
_SECONDS, _NO_SECONDS = _form(":00" + 5 * "0")
_ZEROS, _NO_ZEROS = _form(8 * "0")
#: how many rows ahead a line is fetched into the processor's cache, and the bytes that it fetches at once
_AHEAD, _CACHE_LINE = 8, 64
_FOUR_DIGITS, _EIGHT_DIGITS = np.uint64(10_000), np.uint64(100_000_000)
#: the first three bytes
_THREE = np.uint64(0xFFFFFF)


@part
def _equal(word: Word, bytes_: Word) -> Word:
    """Mark the bytes that are equal, and no other."""
    other = word ^ bytes_
    return ~(((other & _LOW) + _LOW) | other | _LOW)


@part
def _count(marks: Word) -> Any:
    return types.int64(((marks >> _SEVEN) * _SUM) >> _TO_LOWEST)


@part
def _fits(digits: Word, limits: Word) -> bool:
    """Whether each byte is as `_form` has it."""
    return ((digits + limits) | digits) & HIGH == 0


@part
def _pairs(digits: Word) -> Word:
    """In each byte the number of this digit and the next one."""
    return digits * _TEN + (digits >> _EIGHT)


@part
def _byte(word: Word, index: int) -> Any:
    """One byte of a word, with a sign: numba calculates a number with and one without together in floating point."""
    return types.int64((word >> np.uint64(8 * index)) & _BYTE)


@part
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date from year 1000 on, _NO_TIME where there is no such day."""
    is_leap = (year % 4 == 0 and year % 100 != 0) or year % _ERA == 0
    most = 31
    if month == 2:
        most = 29 if is_leap else 28
    elif month in (4, 6, 9, 11):
        most = 30
    if not 1 <= month <= 12 or not 1 <= day <= most:
        return _NO_TIME
    if month <= 2:  # the year begins with March, so that a leap day is its last
        year, month = year - 1, month + 12
    era = year // _ERA
    rest = year - era * _ERA
    return era * _ERA_DAYS + rest * 365 + rest // 4 - rest // 100 + (153 * (month - 3) + 2) // 5 + day - 1 - _BEFORE


@part
def _iso(data: Bytes, at: int, end: int) -> int:
    """Microseconds since 1970 of "2025-01-01T00:00:00.000000Z", with any of the digits behind the point; else
    _NO_TIME."""
    length = end - at
    is_whole = length == _WHOLE
    if not is_whole and not _WHOLE + 2 <= length <= _LONGEST:
        return _NO_TIME
    date, time = load(data, at) ^ _DATE, load(data, at + 8) ^ _TIME
    seconds = (load(data, at + 16) ^ _SECONDS) & _THREE
    if not _fits(date, _NO_DATE) or not _fits(time, _NO_TIMES) or not _fits(seconds, _NO_SECONDS):
        return _NO_TIME
    if data[at] < _ONE or data[end - 1] != _LARGE_Z:  # another form, or a year below 1000
        return _NO_TIME
    fraction = 0
    if not is_whole:
        digits = head(load(data, at + 20) ^ _ZEROS, length - 21)
        if data[at + 19] != _POINT or not _fits(digits, _NO_ZEROS):
            return _NO_TIME
        digits = _pairs(digits)
        fraction = _byte(digits, 0) * 10_000 + _byte(digits, 2) * 100 + _byte(digits, 4)
    date, time = _pairs(date), _pairs(time)
    hour, minute, second = _byte(time, 3), _byte(time, 6), _byte(_pairs(seconds), 1)
    days = _days(_byte(date, 0) * 100 + _byte(date, 2), _byte(date, 5), _byte(time, 0))
    if days == _NO_TIME or hour > 23 or minute > 59 or second > 59:
        return _NO_TIME
    found = days * _DAY + hour * _HOUR + minute * _MINUTE + second * _SECOND + fraction
    return found if -_MOST < found < _MOST else _NO_TIME


@part
def _units(data: Bytes, at: int, end: int, micros: int) -> int:
    """Microseconds of an integer in units of `micros`; _NO_TIME where it is none, or too large."""
    begin = at + 1 if data[at] == _MINUS else at
    if not 0 < end - begin <= _DIGITS:
        return _NO_TIME
    number = 0
    for index in range(begin, end):
        if not _ZERO <= data[index] <= _NINE:
            return _NO_TIME
        number = number * 10 + (data[index] - _ZERO)
    if number >= _MOST // micros:
        return _NO_TIME
    return (number if begin == at else -number) * micros


@part
def _null(out: Bytes, to: int) -> int:
    out[to] = _BACKSLASH
    out[to + 1] = _LARGE_N
    return to + 2


@part
def _eight_digits(number: Word) -> Word:
    """A number below 100,000,000 as text: by four, two, and one digit at once."""
    fours = number // _FOUR_DIGITS
    word = fours | (number - fours * _FOUR_DIGITS) << np.uint64(32)
    twos = ((word * np.uint64(5243)) >> np.uint64(19)) & np.uint64(0x7F0000007F)
    word = twos | (word - twos * np.uint64(100)) << np.uint64(16)
    ones = ((word * np.uint64(103)) >> np.uint64(10)) & np.uint64(0x000F000F000F000F)
    return (ones | (word - ones * _TEN) << _EIGHT) + _ZEROS


@part
def _digits(out: Bytes, to: int, number: int) -> int:
    """Write a number with sixteen digits; the place behind it."""
    if number < 0:
        out[to] = _MINUS
        to, number = to + 1, -number
    whole = np.uint64(number)
    upper = whole // _EIGHT_DIGITS
    store(out, to, _eight_digits(upper))
    store(out, to + WIDTH, _eight_digits(whole - upper * _EIGHT_DIGITS))
    return to + _DIGITS


@part
def _copy(data: Bytes, at: int, end: int, out: Bytes, to: int) -> int:
    """Copy what is before `end`; the place behind it."""
    for index in range(0, end - at, WIDTH):
        store(out, to + index, load(data, at + index))
    return to + max(end - at, 0)


@part
def _copy_tabs(data: Bytes, at: int, end: int, tabs: int, out: Bytes, to: int) -> int:
    """Copy what is up to so many tabs, with the last, or before `end`; how much that was."""
    begin = at
    while tabs and at < end:
        word = load(data, at)
        store(out, to + at - begin, word)
        marks = _equal(word, _TABS)
        if marks:
            count = _count(marks)
            if count >= tabs:
                for _ in range(tabs - 1):
                    marks &= marks - ONE
                return min(at + first_marked(marks) + 1, end) - begin
            tabs -= count
        at += WIDTH
    return min(at, end) - begin


@part
def _value_end(data: Bytes, at: int, end: int) -> int:
    """The tab or newline behind a value; no other one is in a COPY line."""
    while at < end:
        word = load(data, at)
        marks = _equal(word, _TABS) | _equal(word, _NEWLINES)
        if marks:
            return min(at + first_marked(marks), end)
        at += WIDTH
    return end


def instants(
    rows: int,
    data: Bytes,
    ends: Integers,
    size: int,
    order: Integers,
    count: int,
    places: Integers,
    units: Integers,
    found: Integers,
    out: Bytes,
    out_ends: Integers,
    spare: int,
) -> int:
    """Copy `rows` lines of `data` to `out`, in the order of these indices, with more values behind each: for each of
    the `count` values at `places`, which ascend, its microseconds since 1970, and NULL in its place, or NULL and the
    value. `units`: microseconds of a number, 0 for a text.

    `ends`: where each line ends, the first place that where the first one begins; `size`: bytes of `data`, which need
    not have anything behind them: lines near its end are read from `out`, where they are copied to, from `spare` on.
    `out` needs `GROWS` bytes for each value and `MORE` at its end. Writes to `out_ends` as `ends`. Returns the bytes
    written.
    """
    to = 0
    out_ends[0] = 0
    for row in range(rows):
        line = order[row]
        if row + _AHEAD < rows:
            begin, behind = ends[order[row + _AHEAD]], ends[order[row + _AHEAD] + 1]
            while begin < behind:
                fetch(data, begin)
                begin += _CACHE_LINE
        source, at, end = data, ends[line], ends[line + 1] - 1  # the newline
        if end + MORE > size:
            for index in range(end + 1 - at):
                out[spare + index] = data[at + index]
            source, at, end = out, spare, spare + end - at
        place = 0
        for which in range(count):
            copied = _copy_tabs(source, at, end, places[which] - place, out, to)
            begin, to = at + copied, to + copied
            behind = _value_end(source, begin, end + 1)
            found[which] = _NO_TIME
            if behind > begin:
                if units[which]:
                    found[which] = _units(source, begin, behind, units[which])
                else:
                    found[which] = _iso(source, begin, behind)
            to = _copy(source, begin, behind, out, to) if found[which] == _NO_TIME else _null(out, to)
            place, at = places[which], behind
        to = _copy(source, at, end, out, to)
        for which in range(count):
            out[to] = _TAB
            to += 1
            to = _null(out, to) if found[which] == _NO_TIME else _digits(out, to, found[which])
        out[to] = _NEWLINE
        to += 1
        out_ends[row + 1] = to
    return to


def compiled() -> Any:
    """`instants` as a C function: call its `address` with the addresses of arrays."""
    byte, short, long = types.CPointer(types.uint8), types.CPointer(types.int32), types.CPointer(types.int64)
    places = (long, long, long)
    signature = types.int64(types.int64, byte, short, types.int64, long, types.int64, *places, byte, short, types.int64)
    return numba.cfunc(signature, error_model="numpy")(instants)
