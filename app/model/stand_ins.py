"""Debezium's placeholders for a large (TOASTed) value that an update left unchanged.

They equal those of its UnchangedToastedPlaceholder with the default `unavailable.value.placeholder`.
"""

import base64
import hashlib
import uuid

_TEXT = "__debezium_unavailable_value"
_BASE64 = base64.b64encode(_TEXT.encode()).decode()
_HEX = _TEXT.encode().hex()
_NUMBERS = ",".join(map(str, _TEXT.encode()))
#: Java's UUID.nameUUIDFromBytes
_UUID = str(uuid.UUID(bytes=hashlib.md5(_TEXT.encode(), usedforsecurity=False).digest(), version=3))
#: each placeholder contains one of them
MARKS = tuple(mark.encode() for mark in (_TEXT, _BASE64, _HEX, _NUMBERS, _UUID))
#: placeholders of text, bytea in three handling modes, arrays of numbers, texts, bytea and uuid, and hstore
STAND_INS = frozenset(
    {
        *(_TEXT, _BASE64, _HEX, f"[{_NUMBERS}]"),
        *(f'["{item}"]' for item in (_TEXT, _BASE64, _HEX, _UUID)),
        f'{{"{_TEXT}":"{_TEXT}"}}',
    }
)
