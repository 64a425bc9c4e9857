"""Runs the user's function over decoded rows, in a stage process.

An exception of the function is no failure of the job: the row becomes one of kind FAILED, with the error's text in its
line. What kills or stops the process is left to the guard.
"""

import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from app.errors import ConfigInvalid
from app.model.copy_values import field_of, value_of
from app.model.row_layout import SEPARATOR, Layout, RowKind
from app.model.rows import SCHEMA
from app.transform.change import Change

Function = Callable[[Change], Change | None]


def load(name: str) -> Function:
    """The function named `module:function`; raises ConfigInvalid when there is none."""
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigInvalid(
            f"transform: {name} cannot be loaded: {error}",
            hint="write module:function, and see that the module can be imported: PYTHONPATH=/where/it/is surelane run",
        ) from error
    if not callable(function):
        raise ConfigInvalid(f"transform: {name} is not a function", hint="write module:function")
    return function  # pyright: ignore[reportReturnType]  # what it takes and gives cannot be checked


def over(function: Function, rows: pa.Table) -> pa.Table:
    """`rows` (`app.model.rows`) with the function applied to every change."""
    layouts: dict[str, Layout] = {}
    result = [_row(function, row, layouts) for row in rows.to_pylist()]
    return pa.Table.from_pylist(result, schema=SCHEMA)


def _row(function: Function, row: dict[str, Any], layouts: dict[str, Layout]) -> dict[str, Any]:
    text = row["layout"]
    layout = layouts.get(text) or layouts.setdefault(text, Layout.parse(text))
    if layout.kind not in (RowKind.UPSERT, RowKind.DELETE):
        return row
    values = row["line"][:-1].split("\t")
    change = Change(
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        schema=layout.schema,
        table=layout.table,
        is_delete=layout.kind is RowKind.DELETE,
        row=dict(zip(layout.columns, map(value_of, values), strict=True)),
        ts_ms=row["ts_ms"],
    )
    try:
        return {**row, **_rendered(function(change), layout)}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # the user's code: every error is about this message
        named = SEPARATOR.join([RowKind.FAILED, layout.schema_hash, layout.schema, layout.table])
        return {**row, "layout": named, "line": f"{type(error).__name__}: {error}"}


def _rendered(change: Change | None, layout: Layout) -> dict[str, str]:
    if change is None:
        return {"layout": SEPARATOR.join([RowKind.FILTERED, "", "", ""]), "line": ""}
    kind = RowKind.DELETE if change.is_delete else RowKind.UPSERT
    named = SEPARATOR.join([kind, layout.schema_hash, change.schema, change.table, *change.row])
    return {"layout": named, "line": "\t".join(map(field_of, change.row.values())) + "\n"}
