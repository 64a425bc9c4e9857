"""Text that Postgres takes: of errors, which may quote the bytes of a message."""

#: characters of an error that are kept; the message itself is kept whole beside it
MAX_ERROR_CHARACTERS = 8_000


def storable(text: str) -> str:
    """NUL and lone surrogates are written as escapes; at most MAX_ERROR_CHARACTERS characters."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    return safe if len(safe) <= MAX_ERROR_CHARACTERS else safe[: MAX_ERROR_CHARACTERS - 3] + "..."
