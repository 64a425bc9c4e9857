"""Updates that leave a large value out: Debezium writes a stand-in for a TOASTed value that an update did not change.

Such a change becomes one of kind PATCH with the columns that it has. Where an epoch is applied by the last change of
each row, a patch is completed from the earlier changes of its row, so that no known value is lost.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from app.model.arrow import Indices, compute, single
from app.model.row_layout import Layout, RowKind
from app.model.stand_ins import MARKS, STAND_INS

#: of libc: takes a third of the time of `bytes.find` over megabytes, and other threads run meanwhile
_memmem = ctypes.CDLL(None).memmem
_memmem.restype = ctypes.c_void_p
_memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)


@dataclass(frozen=True)
class _WrittenRow:
    """A change that writes a row."""

    layout: Layout
    #: column -> field of the COPY line
    fields: Mapping[str, str]

    @classmethod
    def of(cls, layout: Layout, line: str) -> "_WrittenRow":
        return cls(layout, dict(zip(layout.columns, line[:-1].split("\t"), strict=True)))

    @property
    def line(self) -> str:
        return "\t".join(self.fields.values()) + "\n"

    def after(self, earlier: "_WrittenRow") -> "_WrittenRow":
        """This change, with the columns that only an earlier change of the row has."""
        fields = {**earlier.fields, **self.fields}
        return _WrittenRow(replace(self.layout, kind=earlier.layout.kind, columns=tuple(fields)), fields)


def patched(rows: pa.Table) -> pa.Table:
    """Rows (`app.model.rows`) with patches instead of changes that have a stand-in.

    A row of a snapshot has every value: a text like a stand-in there is a real value.
    """
    marked = _marked(single(rows["line"]))
    if not len(marked):
        return rows
    found = rows.take(pa.array(marked))
    layouts = {text: Layout.parse(text) for text in compute.unique(found["layout"]).to_pylist()}
    changes: dict[int, _WrittenRow] = {}
    columns = (found[name].to_pylist() for name in ("layout", "line", "is_read"))
    for ordinal, text, line, is_read in zip(marked.tolist(), *columns, strict=True):
        if is_read or layouts[text].kind is not RowKind.UPSERT:
            continue
        change = _WrittenRow.of(layouts[text], line)
        kept = {name: value for name, value in change.fields.items() if value not in STAND_INS}
        if len(kept) < len(change.fields):
            changes[ordinal] = _WrittenRow(replace(change.layout, kind=RowKind.PATCH, columns=tuple(kept)), kept)
    rows = _replaced(rows, "layout", {ordinal: one.layout.text for ordinal, one in changes.items()})
    return _replaced(rows, "line", {ordinal: one.line for ordinal, one in changes.items()})


def completed(
    rows: pa.Table, layouts: Sequence[Layout], codes: Indices, identities: Indices
) -> tuple[pa.Table, Indices] | None:
    """Rows and codes with the patches completed; None where these layouts do not allow it (the schema changes in
    between, patches leave out different columns): then only the order of the changes is right."""
    kinds = np.array([layout.kind for layout in layouts])
    patches = np.flatnonzero(kinds[codes] == RowKind.PATCH)
    wanted = np.unique(identities[patches])
    known = {layout: index for index, layout in enumerate(layouts)}
    last: dict[int, _WrittenRow] = {}
    changes: dict[int, _WrittenRow] = {}
    for ordinal in np.flatnonzero(np.isin(identities, wanted) & (identities >= 0)).tolist():
        layout, row = layouts[int(codes[ordinal])], int(identities[ordinal])
        if layout.kind not in (RowKind.UPSERT, RowKind.PATCH):
            last.pop(row, None)
            continue
        change = _WrittenRow.of(layout, rows["line"][ordinal].as_py())
        if layout.kind is RowKind.PATCH and (earlier := last.get(row)) is not None:
            change = changes[ordinal] = change.after(earlier)
            if change.layout not in known or earlier.layout.schema_hash != layout.schema_hash:
                return None
        last[row] = change
    if not changes:
        return rows, codes
    codes = codes.copy()
    codes[list(changes)] = [known[one.layout] for one in changes.values()]
    return _replaced(rows, "line", {ordinal: one.line for ordinal, one in changes.items()}), codes


def _marked(lines: pa.Array) -> Indices:
    """Ordinals of the lines with a mark. They are searched as one text: far quicker than one by one."""
    _, bounds, data = lines.buffers()
    if data is None or not len(lines):
        return np.empty(0, np.int64)
    starts = np.frombuffer(bounds, np.int32)[lines.offset : lines.offset + len(lines) + 1].astype(np.int64)
    found = [place for mark in MARKS for place in _places(data, mark, int(starts[0]), int(starts[-1]))]
    return np.unique(np.searchsorted(starts, np.array(found, np.int64), side="right") - 1)


def _places(data: pa.Buffer, mark: bytes, at: int, end: int) -> Iterator[int]:
    """Where the mark is between two places."""
    while found := _memmem(data.address + at, end - at, mark, len(mark)):
        yield found - data.address
        at = found - data.address + len(mark)


def _replaced(rows: pa.Table, name: str, values: Mapping[int, str]) -> pa.Table:
    if not values:
        return rows
    ordinals = sorted(values)
    mask = np.zeros(rows.num_rows, bool)
    mask[ordinals] = True
    news = pa.array([values[ordinal] for ordinal in ordinals], pa.string())
    column = compute.replace_with_mask(rows[name], pa.array(mask), news)
    return rows.set_column(rows.schema.get_field_index(name), name, column)
