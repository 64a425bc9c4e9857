"""Values in a COPY line."""

NULL = "\\N"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPE = str.maketrans(_ESCAPES)
_UNESCAPE = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def field_of(value: str | None) -> str:
    """The value as a field of a COPY line."""
    if value is None:
        return NULL
    if not isinstance(value, str):
        raise TypeError(f"a value must be a text or None, not {type(value).__name__}")
    return value.translate(_ESCAPE)


def value_of(field: str) -> str | None:
    """The value of a field of a COPY line."""
    if field == NULL:
        return None
    if "\\" not in field:
        return field
    parts, at = [], 0
    while (found := field.find("\\", at)) >= 0:
        parts += [field[at:found], _UNESCAPE[field[found + 1]]]
        at = found + 2
    return "".join([*parts, field[at:]])
