"""What may be shown and logged of a message and of the error it caused, when `guard.redact` hides columns.

The stored message is whole whatever is redacted: only so can it be released. Redaction is for eyes and logs.
"""

import json
import re

from app.config.redaction import Columns
from app.db.sqlstate import one_line
from app.quarantine.lossless_json import HIDDEN, Document

#: what Postgres adds to an error after its first sentence: DETAIL, HINT, CONTEXT, in whatever language, two blanks
_ADDED = re.compile(r"(?:; |\n)[^\s;:]{1,20} ?:  .*?(?= \(SQLSTATE \w{5}\)|\Z)", re.DOTALL)


def document(data: bytes, columns: Columns) -> Document | None:
    """The JSON of a key or value without what is redacted; None when it is no JSON, or cannot be redacted."""
    parsed = Document.parse(data)
    if parsed is None or (columns and not parsed.is_object):
        return None
    return parsed.redacted(columns)


def error_text(text: str, columns: Columns, key: bytes | None, value: bytes | None) -> str:
    """An error without the redacted columns' values, as far as they can be told.

    Postgres puts rows and keys into what it adds to an error (`Failing row contains (...)`): all of that goes. In the
    rest the message's own values are replaced.
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
    """How a value may stand in an error: as it is, on one line, and as Python and JSON write it."""
    written = (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False))
    return {form for form in (value, one_line(value), *(quoted[1:-1] for quoted in written)) if form}
