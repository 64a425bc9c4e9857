"""Updates that leave a large value out: Debezium writes a stand-in for a TOASTed value that an update left as it was.

Such a change becomes one of kind PATCH with the columns that it has. Where the epoch has an earlier change of the same
row, the patch is completed with its values, so that the last change of a row still says all that the epoch knows of it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from app.model.arrow import compute
from app.model.rows import Kind, Layout
from app.model.stand_ins import MARKS, STAND_INS


@dataclass(frozen=True)
class _Change:
    """A row that is written anew."""

    layout: Layout
    #: column -> field of the COPY line
    fields: Mapping[str, str]
    #: whether its message key may be used to leave out the changes before it
    keyed: bool = True

    @classmethod
    def of(cls, layout: Layout, line: str) -> "_Change":
        return cls(layout, dict(zip(layout.columns, line[:-1].split("\t"), strict=True)))

    @property
    def line(self) -> str:
        return "\t".join(self.fields.values()) + "\n"

    def after(self, earlier: "_Change") -> "_Change":
        """With what an earlier change of the row says. Values that were written under another schema stay apart."""
        if earlier.layout.schema_hash != self.layout.schema_hash:
            return replace(self, keyed=False)
        fields = {**earlier.fields, **self.fields}
        return _Change(replace(self.layout, kind=earlier.layout.kind, columns=tuple(fields)), fields)


def complete(rows: pa.Table) -> pa.Table:
    """Rows in their order (`app.model.rows`), with patches instead of stand-ins.

    An insert, or a row of a snapshot, has every value: what looks like a stand-in there is one that somebody wrote.
    """
    marked = _marked(rows["line"].combine_chunks())
    if not len(marked):
        return rows
    layouts = {text: Layout.parse(text) for text in compute.unique(rows["layout"]).to_pylist()}
    patches = _patches(rows.take(pa.array(marked)), marked.tolist(), layouts)
    return _written(rows, _completed(rows, patches, layouts)) if patches else rows


def _marked(lines: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ordinals of the lines with a mark. All lines are one text: far quicker to look through than one by one."""
    _, bounds, data = lines.buffers()
    if data is None or not len(lines):
        return np.empty(0, np.int64)
    starts = np.frombuffer(bounds, np.int32)[lines.offset : lines.offset + len(lines) + 1].astype(np.int64)
    text = data.slice(int(starts[0]), int(starts[-1] - starts[0])).to_pybytes()
    places: list[int] = []
    for mark in MARKS:
        at = text.find(mark)
        while at >= 0:
            places.append(at)
            at = text.find(mark, at + len(mark))
    found = np.searchsorted(starts - starts[0], np.array(places, np.int64), side="right") - 1
    return np.unique(found)


def _patches(rows: pa.Table, ordinals: list[int], layouts: Mapping[str, Layout]) -> dict[int, _Change]:
    """The marked rows that leave a value out, by ordinal."""
    result: dict[int, _Change] = {}
    columns = (rows[name].to_pylist() for name in ("layout", "line", "is_new"))
    for ordinal, text, line, is_new in zip(ordinals, *columns, strict=True):
        if is_new or layouts[text].kind is not Kind.UPSERT:
            continue
        change = _Change.of(layouts[text], line)
        kept = {name: value for name, value in change.fields.items() if value not in STAND_INS}
        if len(kept) < len(change.fields):
            result[ordinal] = _Change(replace(change.layout, kind=Kind.PATCH, columns=tuple(kept)), kept)
    return result


def _completed(rows: pa.Table, patches: Mapping[int, _Change], layouts: Mapping[str, Layout]) -> Mapping[int, _Change]:
    """The patches with what the changes of the same rows before them say."""
    texts, keys, lines = (rows[name] for name in ("layout", "key", "line"))
    wanted: Collection[object] = {
        (one.layout.schema, one.layout.table, keys[ordinal].as_py()) for ordinal, one in patches.items()
    }
    last: dict[tuple[str, str, str], _Change | None] = {}
    result: dict[int, _Change] = {}
    for ordinal, (text, key) in enumerate(zip(texts.to_pylist(), keys.to_pylist(), strict=True)):
        layout = layouts[text]
        row = (layout.schema, layout.table, key)
        if layout.kind is Kind.TRUNCATE:
            last = {other: change for other, change in last.items() if other[:2] != row[:2]}
        if key is None or row not in wanted:
            continue
        if (patch := patches.get(ordinal)) is not None:
            earlier = last.get(row)
            last[row] = result[ordinal] = patch if earlier is None else patch.after(earlier)
        elif layout.kind in (Kind.UPSERT, Kind.PATCH):
            last[row] = _Change.of(layout, lines[ordinal].as_py())
        elif layout.kind is Kind.DELETE:
            last[row] = None
    return {**patches, **result}


def _written(rows: pa.Table, changes: Mapping[int, _Change]) -> pa.Table:
    ordinals = sorted(changes)
    mask = np.zeros(rows.num_rows, bool)
    mask[ordinals] = True
    news = [changes[ordinal] for ordinal in ordinals]
    keys = rows["key"].take(pa.array(ordinals)).to_pylist()
    columns = {
        "layout": [one.layout.text for one in news],
        "line": [one.line for one in news],
        "key": [key if one.keyed else None for key, one in zip(keys, news, strict=True)],
    }
    for name, values in columns.items():
        column = compute.replace_with_mask(rows[name], pa.array(mask), pa.array(values, pa.string()))
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows
