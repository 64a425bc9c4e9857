"""Windows of event time that a query's state has, and how many keys each."""

from typing import Any

from pyspark.sql import SparkSession

from app.model.state_store import StateStore
from app.model.utc import utc_time
from app.query.state_shape import DEFAULT_STORE, stored_shape
from app.query.stored_state import windows


def open_windows(spark: SparkSession, checkpoint: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """The newest `limit` of each store with a window in its key; whether there are more. Read from the checkpoint, as
    of the last complete epoch, while the query runs or not."""
    found: list[dict[str, Any]] = []
    more = False
    for store in stored_shape(spark, checkpoint):
        column = store.window
        if column is None:
            continue
        name = None if store.store == DEFAULT_STORE else store.store
        rows = windows(spark, checkpoint, operator=store.operator, store=name, column=column, limit=limit + 1)
        more = more or len(rows) > limit
        found += [_document(store, *row) for row in rows[:limit]]
    return found, more


def _document(store: StateStore, start: float, end: float, keys: int) -> dict[str, Any]:
    place = {"operator": store.operator, "name": store.name, "store": store.store}
    return {**place, "start": utc_time(start).isoformat(), "end": utc_time(end).isoformat(), "keys": keys}
