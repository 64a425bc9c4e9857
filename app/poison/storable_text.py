"""Makes error texts, which may quote the bytes of a message, storable in Postgres."""

#: characters of an error that are kept; the message itself is stored whole
MAX_ERROR_CHARACTERS = 8_000


def storable(text: str) -> str:
    """Escape NUL and lone surrogates, and cut to MAX_ERROR_CHARACTERS characters."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    return safe if len(safe) <= MAX_ERROR_CHARACTERS else safe[: MAX_ERROR_CHARACTERS - 3] + "..."
