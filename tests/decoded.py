"""Decoded epochs without Spark: what decoding makes of messages, written down a second time and plainly.

For tests of what comes after decoding. That Spark's expressions make the same of the same bytes is a test of its own.
"""

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from app.model.row_layout import SEPARATOR, RowKind
from app.model.rows import COLUMNS, TRANSACTION
from tests.fix_topic import Sent
from tests.messages import Message

#: the year 10000
LATEST_MS = 253_402_300_800_000
SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "layout": pa.string(),
        "key": pa.string(),
        "line": pa.string(),
        "ts_ms": pa.int64(),
        "sequence": pa.string(),
        "is_read": pa.bool_(),
        "transaction": TRANSACTION,
    }
)
_KINDS = {"c": RowKind.UPSERT, "u": RowKind.UPSERT, "r": RowKind.UPSERT, "d": RowKind.DELETE, "t": RowKind.TRUNCATE}


def decoded(sent: Iterable[Sent]) -> pa.Table:
    """The decoded rows of bare Debezium messages (no envelope), in the order given."""
    return table_of([decoded_row(one.message, *one.position) for one in sent])


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of `app.model.rows` as Arrow."""
    return pa.table({name: [row.get(name) for row in rows] for name in COLUMNS}, schema=SCHEMA)


def decoded_row(message: Message, topic: str, partition: int, offset: int) -> dict[str, Any]:
    """One message."""
    value, malformed = _parsed(message.value)
    key = message.key.decode() if message.key is not None else None
    source = value.get("source") or {}
    kind = RowKind.MALFORMED if malformed else _KINDS.get(value.get("op", ""), RowKind.FILTERED)
    columns = _columns(kind, key, value)
    named = [source.get("schema", ""), source.get("table", ""), *columns] if value.get("op") in _KINDS else ["", ""]
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "layout": SEPARATOR.join([kind, "", *named]),
        "key": key,
        "line": copy_line(columns.values()) if columns else "",
        "ts_ms": time if (time := source.get("ts_ms")) is not None and 0 <= time < LATEST_MS else None,
        "sequence": source.get("sequence"),
        "is_read": value["op"] == "r" if isinstance(value.get("op"), str) else None,
        "transaction": _transaction(value),
    }


def _transaction(value: dict[str, Any]) -> dict[str, Any] | None:
    """Which source transaction the message is of."""
    transaction, parts = value.get("transaction") or {}, None
    if value.get("status") in ("BEGIN", "END"):
        transaction = value
        parts = json.dumps(value["data_collections"], separators=(",", ":")) if value["status"] == "END" else None
    if "id" not in transaction:
        return None
    return {"id": transaction["id"].partition(":")[0], "place": transaction.get("total_order"), "parts": parts}


def _parsed(value: bytes | None) -> tuple[dict[str, Any], bool]:
    """The message's value, and whether it is malformed."""
    try:
        return (json.loads(value) if value is not None else {}), False
    except ValueError:
        return {}, True


def _columns(kind: RowKind, key: str | None, value: dict[str, Any]) -> dict[str, Any]:
    if kind is RowKind.UPSERT:
        return value["after"]
    if kind is RowKind.DELETE:
        return json.loads(key) if key is not None else value["before"]
    return {}


def copy_line(values: Iterable[Any]) -> str:
    """A line of COPY's text format."""
    return "\t".join(_field(value) for value in values) + "\n"


def _field(value: Any) -> str:
    if value is None:
        return "\\N"
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.translate({ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"})
