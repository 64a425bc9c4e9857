"""String functions as in Spark: positions and lengths in characters."""

import hashlib
from typing import Any

from app.transform.sql.row_failure import SqlFailure

_SHA2 = {0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}
_MOST = (1 << 31) - 1


def substring(text: str, position: int, length: int) -> str:
    """`position` counts from 1, negative from the end; 0 is 1."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = min(start + length, _MOST)
    return text[max(start, 0) : end] if end > max(start, 0) else ""


def left_pad(text: str, length: int, pad: str) -> str:
    """Cuts a longer text."""
    return _padding(text, length, pad) + text[: max(length, 0)]


def right_pad(text: str, length: int, pad: str) -> str:
    """Cuts a longer text."""
    return text[: max(length, 0)] + _padding(text, length, pad)


def _padding(text: str, length: int, pad: str) -> str:
    missing = length - len(text)
    return (pad * (missing // len(pad) + 1))[:missing] if missing > 0 and pad else ""


def replace(text: str, search: str, by: str) -> str:
    """An empty `search` replaces nothing."""
    return text.replace(search, by) if search else text


def translate(text: str, matching: str, by: str) -> str:
    """Removes characters without a counterpart; of equal ones the first counts."""
    table: dict[int, str] = {}
    for at, character in enumerate(matching):
        table.setdefault(ord(character), by[at] if at < len(by) and by[at] != "\0" else "")
    return text.translate(table)


def split_part(text: str, delimiter: str, number: int) -> str:
    """`number` counts from 1, negative from the end; "" where there is no such part."""
    if number == 0:
        raise SqlFailure("INVALID_INDEX_OF_ZERO: split_part counts from 1")
    if number < -_MOST:
        raise SqlFailure("INVALID_INDEX: Java has no such number without its sign")
    parts = text.split(delimiter) if delimiter else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


def position(text: str, part: str) -> int:
    """Counts from 1; 0: not found."""
    return text.find(part) + 1


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def sha2(data: bytes, bits: int) -> str | None:
    """As hexadecimal digits; NULL for a length that does not exist."""
    made = _SHA2.get(bits)
    return None if made is None else made(data).hexdigest()


def concat_ws(separator: str | None, *parts: Any) -> str | None:
    """Leaves out what is NULL."""
    return None if separator is None else separator.join([part for part in parts if part is not None])
