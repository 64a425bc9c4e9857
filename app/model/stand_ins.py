"""What Debezium writes instead of a large (TOASTed) value that an update left as it was.

As its UnchangedToastedPlaceholder makes them, with the default `unavailable.value.placeholder`.
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
#: each stand-in has one of them in it
MARKS = tuple(mark.encode() for mark in (_TEXT, _BASE64, _HEX, _NUMBERS, _UUID))
#: of text, of bytea in three handling modes, of arrays of numbers, texts, bytea and uuid, of hstore
STAND_INS = frozenset(
    {
        *(_TEXT, _BASE64, _HEX, f"[{_NUMBERS}]"),
        *(f'["{item}"]' for item in (_TEXT, _BASE64, _HEX, _UUID)),
        f'{{"{_TEXT}":"{_TEXT}"}}',
    }
)
