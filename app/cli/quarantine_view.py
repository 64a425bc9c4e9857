"""A skipped message as text and as JSON; no bytes of it can break the terminal or the JSON."""

import base64
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from sqlalchemy import Row

from app.cli.rendering import facts_table, grid, printable, utc
from app.config.redaction import Columns, Redaction
from app.quarantine.quarantine import raw_message
from app.quarantine.redacted_text import document, error_text

#: most characters shown of a text; `--raw` and `--json` give all
MAX_CHARACTERS = 100_000
#: most bytes shown of a value that is no text
MAX_DUMPED_BYTES = 4_096
_DUMP_WIDTH = 16
#: most characters of a key or an error in the list
MAX_CELL_CHARACTERS = 60
_WITHHELD = "not shown: guard.redact hides columns and these bytes cannot be told apart; --raw writes them"

_FACTS = ("id", "lane", "state", "topic", "partition", "offset", "timestamp_ms")
_FAILURE = ("stage", "verdict", "error_class")
_NUMBERS = ("sqlstate", "attempts", "generation", "epoch")
_TIMES = ("quarantined_at", "changed_at")
_EVENT = ("what", "from_state", "to_state", "db_user", "who", "reason")


def summary(row: Row[Any], redaction: Redaction) -> dict[str, Any]:
    """An entry of the list, for `--json`."""
    columns = redaction.columns(row.source_schema, row.source_table)
    return {
        **{name: getattr(row, name) for name in _FACTS},
        "table": _table(row),
        "key": _bytes_as_json(row.key, columns),
        **{name: getattr(row, name) for name in _FAILURE},
        "error": _error(row, columns),
        **{name: getattr(row, name) for name in _NUMBERS},
        **{name: getattr(row, name).isoformat() for name in _TIMES},
        "dead_lettered_at": row.dead_lettered_at.isoformat() if row.dead_lettered_at else None,
        "release": _release(row),
    }


def whole(row: Row[Any], history: Sequence[Row[Any]], redaction: Redaction) -> dict[str, Any]:
    """An entry with its message and its history, for `--json`."""
    columns = redaction.columns(row.source_schema, row.source_table)
    headers = [[name, _bytes_as_json(value, Columns(()))] for name, value in raw_message(row).headers]
    events = [{"at": one.at.isoformat(), **{name: getattr(one, name) for name in _EVENT}} for one in history]
    value = _bytes_as_json(row.value, columns)
    return summary(row, redaction) | {"value": value, "headers": headers, "history": events}


def listed(rows: Sequence[Row[Any]], redaction: Redaction) -> Table:
    """A line for each entry."""
    lines: list[Sequence[str]] = []
    for row in rows:
        columns = redaction.columns(row.source_schema, row.source_table)
        key = "-" if row.key is None else " ".join(shown(row.key, columns).split())
        error = (row.sqlstate or row.error_class, _error(row, columns))
        cells = (
            str(row.id),
            _state(row),
            utc(row.quarantined_at, zone=False),
            f"{row.topic}[{row.partition}]@{row.offset}",
            _table(row) or "-",
            _cell(key),
            _cell(" ".join(part for part in error if part)),
        )
        lines.append(cells)
    return grid(("id", "state", "skipped at (UTC)", "position", "table", "key", "error"), lines)


def facts(row: Row[Any]) -> Table:
    """The facts of an entry, without its message."""
    lines = {
        "state": f"{_state(row)}, since {utc(row.changed_at)}",
        "position": f"{row.topic}[{row.partition}]@{row.offset}, lane {row.lane}",
        "written at": _moment(row.timestamp_ms),
        "table": _table(row) or "not known",
        "skipped at": f"{utc(row.quarantined_at)}, epoch {row.epoch} of generation {row.generation}",
        "failure": ", ".join(filter(None, (row.stage, row.verdict, row.error_class, row.sqlstate))) or "none",
        "attempts": str(row.attempts),
    }
    if row.dead_lettered_at is not None:
        lines["dead letter"] = f"sent at {utc(row.dead_lettered_at)}"
    return facts_table(lines, f"entry {row.id}")


def sections(row: Row[Any], history: Sequence[Row[Any]], redaction: Redaction) -> Iterator[tuple[str, str]]:
    """Title and text of the longer parts of an entry."""
    columns = redaction.columns(row.source_schema, row.source_table)
    yield "error", printable(_error(row, columns) or "none")
    yield f"key {_size(row.key)}", shown(row.key, columns)
    yield f"value {_size(row.value)}", shown(row.value, columns)
    headers = [f"{printable(name)}: {shown(value, Columns(()))}" for name, value in raw_message(row).headers]
    yield "headers", "\n".join(headers) or "none"
    yield "history", "\n".join(map(_event_text, history))


def shown(data: bytes | None, columns: Columns) -> str:
    """Bytes as readable text: JSON indented, other text with escapes, everything else as a hex dump."""
    if data is None:
        return "null"
    if found := document(data, columns):
        return printable(_beginning(found.render()))
    if columns:
        return _WITHHELD
    text = _text(data)
    return _dump(data) if text is None else printable(_beginning(text))


def _beginning(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n... ({len(text):,} characters in all)"


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _dump(data: bytes) -> str:
    lines: list[str] = []
    for at in range(0, min(len(data), MAX_DUMPED_BYTES), _DUMP_WIDTH):
        part = data[at : at + _DUMP_WIDTH]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{_DUMP_WIDTH * 3}} {letters}")
    rest = [f"... ({len(data):,} bytes in all)"] if len(data) > MAX_DUMPED_BYTES else []
    return "\n".join(lines + rest)


def _bytes_as_json(data: bytes | None, columns: Columns) -> dict[str, Any] | None:
    """Size, and text or else base64; neither where columns are hidden and the bytes are no document."""
    if data is None:
        return None
    text = encoded = None
    if columns:
        found = document(data, columns)
        text = found.render() if found else None
    else:
        text = _text(data)
        encoded = base64.b64encode(data).decode() if text is None else None
    return {"size": len(data), "text": text, "base64": encoded}


def _error(row: Row[Any], columns: Columns) -> str | None:
    return None if row.error is None else error_text(row.error, columns, row.key, row.value)


def _release(row: Row[Any]) -> dict[str, Any] | None:
    if row.release_requested_at is None:
        return None
    return {
        "requested_at": row.release_requested_at.isoformat(),
        "requested_by": row.release_requested_by,
        "forced": row.release_forced,
        "reason": row.release_reason,
        "refused": row.release_refused,
    }


def _state(row: Row[Any]) -> str:
    if row.release_requested_at is None or row.state in ("released", "discarded"):
        return row.state
    return f"{row.state} (release {'requested' if row.release_refused is None else 'refused'})"


def _event_text(event: Row[Any]) -> str:
    what = f"{event.from_state} -> {event.to_state}" if event.what == "changed" else f"{event.what}, {event.to_state}"
    by = f"{event.who} as {event.db_user}" if event.who else event.db_user
    return printable(f"{utc(event.at)}  {what}, by {by}" + (f": {event.reason}" if event.reason else ""))


def _table(row: Row[Any]) -> str | None:
    return None if row.source_table is None else f"{row.source_schema}.{row.source_table}"


def _size(data: bytes | None) -> str:
    return "" if data is None else f"({len(data):,} bytes)"


def _cell(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 3] + "..."


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "not known"
    try:
        return utc(datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC))
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
