"""Skipped messages as documents, and their text; no bytes of them can break the terminal or the JSON."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from sqlalchemy import Row

from app.cli.rendering import Document, facts_table, grid, moment, position, printable
from app.config.redaction import Columns, Redaction
from app.model.utc import utc, utc_time
from app.quarantine.quarantine import raw_message
from app.quarantine.redacted_text import document, error_text

#: most characters shown of a text; `--raw` and `--json` give all
MAX_CHARACTERS = 100_000
#: most bytes shown of a value that is no text
MAX_DUMPED_BYTES = 4_096
_DUMP_WIDTH = 16
#: most characters of a key or an error in the list
MAX_CELL_CHARACTERS = 60
_WITHHELD = "not shown: guard.redact hides columns, and which bytes are theirs is unknown; --raw writes them"
_NO_COLUMNS = Columns(())

_FACTS = ("id", "lane", "state", "topic", "partition", "offset", "timestamp_ms")
_FAILURE = ("stage", "verdict", "error_class")
_NUMBERS = ("sqlstate", "attempts", "generation", "epoch")
_TIMES = ("quarantined_at", "changed_at")
_EVENT = ("what", "from_state", "to_state", "db_user", "who", "reason", "forced")


def list_document(rows: Sequence[Row[Any]], total: int, redaction: Redaction) -> Document:
    return {"total": total, "entries": [_summary(row, _columns(row, redaction)) for row in rows]}


def entry_document(row: Row[Any], history: Sequence[Row[Any]], redaction: Redaction) -> Document:
    columns = _columns(row, redaction)
    return {
        **_summary(row, columns),
        "value": bytes_document(row.value, columns),
        "headers": [[name, bytes_document(value, _NO_COLUMNS)] for name, value in raw_message(row).headers],
        "history": [{"at": one.at.isoformat(), **{name: getattr(one, name) for name in _EVENT}} for one in history],
    }


def bytes_document(data: bytes | None, columns: Columns) -> Document | None:
    """Size, and text or else base64; neither where columns are hidden and the bytes are no document."""
    if data is None:
        return None
    text = encoded = None
    if columns:
        found = document(data, columns)
        text = found.render() if found else None
    else:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            encoded = base64.b64encode(data).decode()
    return {"size": len(data), "text": text, "base64": encoded}


def list_text(found: Document) -> Iterator[RenderableType]:
    lines = [
        (
            str(entry["id"]),
            _state(entry),
            moment(entry["quarantined_at"], zone=False),
            position(entry),
            entry["table"] or "-",
            _cell("-" if entry["key"] is None else shown(entry["key"])),
            _cell(" ".join(filter(None, (entry["sqlstate"] or entry["error_class"], entry["error"])))),
        )
        for entry in found["entries"]
    ]
    if not lines:
        yield "no such entries"
        return
    yield grid(("id", "state", "skipped at (UTC)", "position", "table", "key", "error"), lines)
    yield f"{len(lines)} of {found['total']}"


def entry_text(entry: Document) -> Iterator[RenderableType]:
    failure = (entry["stage"], entry["verdict"], entry["error_class"], entry["sqlstate"])
    skipped_at, epoch = moment(entry["quarantined_at"]), f"epoch {entry['epoch']} of generation {entry['generation']}"
    lines = {
        "state": f"{_state(entry)}, since {moment(entry['changed_at'])}",
        "position": f"{position(entry)}, lane {entry['lane']}",
        "written at": written_at(entry["timestamp_ms"]),
        "table": entry["table"] or "not known",
        "skipped at": f"{skipped_at}, {epoch}",
        "failure": ", ".join(filter(None, failure)) or "none",
        "attempts": str(entry["attempts"]),
    }
    if entry["dead_lettered_at"] is not None:
        lines["dead letter"] = f"sent at {moment(entry['dead_lettered_at'])}"
    yield facts_table(lines, f"entry {entry['id']}")
    yield f"\nerror\n{printable(entry['error'] or 'none')}"
    for part in ("key", "value"):
        size = "" if entry[part] is None else f"({entry[part]['size']:,} bytes)"
        yield f"\n{part} {size}\n{shown(entry[part])}"
    headers = [f"{printable(name)}: {shown(value)}" for name, value in entry["headers"]]
    yield "\nheaders\n" + ("\n".join(headers) or "none")
    yield "\nhistory\n" + "\n".join(map(_event, entry["history"]))


def shown(part: Document | None) -> str:
    """A `bytes_document` as readable text: JSON indented, other text with escapes, everything else as a hex dump."""
    if part is None:
        return "null"
    if part["base64"] is not None:
        return _dump(base64.b64decode(part["base64"]))
    text: str | None = part["text"]
    if text is None:
        return _WITHHELD
    # half of a surrogate pair, which only a text that is rendered already can have, makes it no JSON
    found = document(text.encode("utf-8", "surrogatepass"), _NO_COLUMNS)
    return printable(_beginning(found.render() if found else text))


def written_at(milliseconds: int | None) -> str:
    """A timestamp of Kafka."""
    if milliseconds is None:
        return "not known"
    try:
        return utc(utc_time(milliseconds / 1000))
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def _beginning(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n... ({len(text):,} characters in all)"


def _dump(data: bytes) -> str:
    lines: list[str] = []
    for at in range(0, min(len(data), MAX_DUMPED_BYTES), _DUMP_WIDTH):
        part = data[at : at + _DUMP_WIDTH]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{_DUMP_WIDTH * 3}} {letters}")
    rest = [f"... ({len(data):,} bytes in all)"] if len(data) > MAX_DUMPED_BYTES else []
    return "\n".join(lines + rest)


def _columns(row: Row[Any], redaction: Redaction) -> Columns:
    return redaction.columns(row.source_schema, row.source_table)


def _summary(row: Row[Any], columns: Columns) -> Document:
    """An entry without its value."""
    return {
        **{name: getattr(row, name) for name in _FACTS},
        "table": None if row.source_table is None else f"{row.source_schema}.{row.source_table}",
        "key": bytes_document(row.key, columns),
        **{name: getattr(row, name) for name in _FAILURE},
        "error": None if row.error is None else error_text(row.error, columns, row.key, row.value),
        **{name: getattr(row, name) for name in _NUMBERS},
        **{name: getattr(row, name).isoformat() for name in _TIMES},
        "dead_lettered_at": row.dead_lettered_at.isoformat() if row.dead_lettered_at else None,
        "release": _release(row),
    }


def _release(row: Row[Any]) -> Document | None:
    if row.release_requested_at is None:
        return None
    return {
        "requested_at": row.release_requested_at.isoformat(),
        "requested_by": row.release_requested_by,
        "forced": row.release_forced,
        "reason": row.release_reason,
        "refused": row.release_refused,
    }


def _state(entry: Document) -> str:
    release = entry["release"]
    if release is None or entry["state"] in ("released", "discarded"):
        return entry["state"]
    return f"{entry['state']} (release {'requested' if release['refused'] is None else 'refused'})"


def _event(event: Document) -> str:
    what = f"{event['what']}, {event['to_state']}"
    if event["what"] == "changed":
        what = f"{event['from_state']} -> {event['to_state']}"
    if event["forced"]:
        what = f"{what}, forced"
    by = f"{event['who']} as {event['db_user']}" if event["who"] else event["db_user"]
    return printable(f"{moment(event['at'])}  {what}, by {by}" + (f": {event['reason']}" if event["reason"] else ""))


def _cell(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 3] + "..."
