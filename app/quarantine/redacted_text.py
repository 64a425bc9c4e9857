"""What may be shown and logged of a message and of its error, when `guard.redact` hides columns.

The stored message is always whole, or it could not be released. Redaction applies to displays and logs.
"""

import json
import re

from app.config.redaction import Columns
from app.db.sqlstate import one_line
from app.quarantine.lossless_json import HIDDEN, Document

#: the fields that Postgres adds to an error's message: DETAIL, HINT, CONTEXT, in any language, then two blanks
_ADDED = re.compile(r"(?:; |\n)[^\s;:]{1,20} ?:  .*?(?= \(SQLSTATE \w{5}\)|\Z)", re.DOTALL)


def document(data: bytes, columns: Columns) -> Document | None:
    """The JSON of a key or value with redacted columns hidden; None if it is no JSON, or cannot be redacted."""
    parsed = Document.parse(data)
    if parsed is None or (columns and not parsed.is_object):
        return None
    return parsed.redacted(columns)


def error_text(text: str, columns: Columns, key: bytes | None, value: bytes | None) -> str:
    """An error without the values of redacted columns, as far as the message's JSON shows them.

    Postgres repeats rows and keys in the fields that it adds to an error (`Failing row contains (...)`): these are
    removed. In the rest the message's own values are replaced.
    """
    if not columns:
        return text
    text = _ADDED.sub("", text)
    parsed = [found for data in (key, value) if data is not None and (found := Document.parse(data))]
    hidden = {form for found in parsed for value in found.values(columns) for form in _forms(value)}
    for secret in sorted(hidden, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _forms(value: str) -> set[str]:
    """The forms of a value in an error: as it is, on one line, and as Python and JSON write it."""
    written = (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False))
    return {form for form in (value, one_line(value), *(quoted[1:-1] for quoted in written)) if form}
