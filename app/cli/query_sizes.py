"""The state of a query as far as it is known without Spark: from the target, the checkpoint's files and its metrics."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from rich.console import RenderableType
from sqlalchemy import Connection

from app.cli.rendering import Document, byte_size, grid, moment
from app.config.queries import QuerySettings
from app.config.settings import Settings
from app.db.locks import lock_holder
from app.errors import EnvironmentMissing
from app.ledger.query_states import QueryStates
from app.ledger.store import Ledger
from app.model.utc import utc_time
from app.spark.local import LocalCheckpoint, local_folder

#: seconds to wait for the query's process
METRICS_TIMEOUT_SECONDS = 0.5
#: most bytes of its metrics
MAX_METRICS_BYTES = 4 << 20
_FIGURES = {
    "surelane_query_state_rows": "rows",
    "surelane_query_state_memory_bytes": "memory_bytes",
    "surelane_query_watermark_timestamp_seconds": "watermark",
}


def query_document(connection: Connection, settings: Settings) -> dict[str, Any]:
    """Of the lane `<lane>.<query>`. None: not known."""
    query = settings.query
    assert query is not None, "the settings are a query's"
    ledger = Ledger(settings.target.db_schema, settings.lane)
    last, reported = ledger.last(connection), ledger.state(connection)
    stores = QueryStates(settings.target.db_schema).find(connection, settings.lane)
    figures, trouble = _figures(settings)
    folder = local_folder(settings.checkpoint)
    state = folder / "state" if folder is not None else None
    watermark = figures.get("watermark")
    at = utc_time(watermark).isoformat() if watermark is not None else _planned_watermark(folder)
    return {
        "query": settings.lane.partition(".")[2],
        "lane": settings.lane,
        "runs": lock_holder(connection, settings.lane) is not None,
        "state": reported.state if reported else None,
        "last_error": reported.last_error if reported else None,
        "epoch": last.epoch if last else None,
        "position": last.span.end.nested() if last else {},
        "computes": query.sql or query.function,
        "into": _place(query),
        "stores": [one.as_json() | {"windows": one.window is not None} for one in stores or ()],
        "rows": None if figures.get("rows") is None else int(figures["rows"]),
        "memory_bytes": None if figures.get("memory_bytes") is None else int(figures["memory_bytes"]),
        "disk_bytes": _size(state) if state is not None and state.is_dir() else None,
        "watermark": at,
        "trouble": trouble,
    }


def _place(query: QuerySettings) -> str | None:
    """Table, folder or topic of its rows."""
    if query.files is not None:
        return query.files.path
    return query.table if query.kafka is None else query.kafka.topic


def _figures(settings: Settings) -> tuple[dict[str, float], str | None]:
    """From the query's process, where that runs on this machine and serves metrics; else why there are none."""
    port, host = settings.metrics.port, settings.metrics.host
    if not port:
        return {}, "rows and memory are known from the process' metrics: set metrics_port of the query"
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=METRICS_TIMEOUT_SECONDS) as answer:
            text = answer.read(MAX_METRICS_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return {}, f"rows and memory are known from the process' metrics, which do not answer at {host}:{port}: {error}"
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    mine = [one for one in samples if one.labels.get("lane") == settings.lane]
    return {_FIGURES[one.name]: one.value for one in mine if one.name in _FIGURES}, None


def _planned_watermark(folder: Path | None) -> str | None:
    """The watermark that the newest planned epoch began with; None also for one that is not on this disk."""
    if folder is None:
        return None
    entries = LocalCheckpoint(folder)
    try:
        newest = entries.last_planned()
        watermark = None if newest is None else entries.watermark(newest)
    except (EnvironmentMissing, ValueError, TypeError):
        return None
    return None if watermark is None else utc_time(watermark).isoformat()


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue  # Spark removes files meanwhile
    return total


def sizes_document(connection: Connection, settings: Settings) -> Document:
    """Of each query of the configuration, or of the one that the settings are of."""
    names = [*settings.queries] if settings.query is None else []
    of_each = [settings.of_query(name) for name in names] or ([settings] if settings.query is not None else [])
    return {"lane": settings.lane, "queries": [query_document(connection, one) for one in of_each]}


def sizes_text(document: Document) -> Iterator[RenderableType]:
    rows = [
        (
            one["query"],
            f"{'runs' if one['runs'] else 'does not run'}, {one['state'] or 'never started'}",
            "-" if one["epoch"] is None else str(one["epoch"]),
            "not known" if one["rows"] is None else f"{one['rows']:,}",
            *("-" if one[name] is None else byte_size(one[name]) for name in ("memory_bytes", "disk_bytes")),
            moment(one["watermark"]),
            one["into"] or "-",
        )
        for one in document["queries"]
    ]
    if not rows:
        yield f"the configuration of lane {document['lane']} has no query"
        return
    yield grid(("query", "state", "epoch", "keys", "memory", "disk", "watermark", "into"), rows)
    yield from (f"{one['query']}: {one['trouble']}" for one in document["queries"] if one["trouble"])
