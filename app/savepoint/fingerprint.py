"""The part of a configuration that decides what a message becomes, item by item."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from app.config.settings import Settings


def items(settings: Settings) -> dict[str, Any]:
    """Item -> its value as JSON. Addresses, passwords, sizes and times are no items."""
    source, target = settings.source, settings.target
    return {
        "topics": source.topic_pattern or sorted(source.topics),
        "order": source.order.value,
        "format": source.format.value,
        "align": settings.epoch.align.value,
        "commit": settings.mode.value,
        "schema": target.db_schema,
        "routes": dict(target.tables),
        "columns": {name: one.model_dump(mode="json") for name, one in target.columns.items()},
        "keys": {name: list(columns) for name, columns in target.keys.items()},
        "unknown_table": target.unknown_table.value,
        "unknown_column": target.unknown_column.value,
        "on_truncate": target.on_truncate.value,
        "transform": settings.transform.function if settings.transform else None,
        "sql": {name: one.model_dump(mode="json") for name, one in settings.sql.items()},
    }


def fingerprint(found: Mapping[str, Any]) -> str:
    """Equal for equal items, in hexadecimal."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
