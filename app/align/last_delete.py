"""Finds a delete at the end of what was read of a partition: it may be the first half of a key change."""

import numpy as np
import pyarrow as pa

from app.model.row_layout import Layout, RowKind

#: a delete and its tombstone
_LAST = 2


def last_delete(rows: pa.Table) -> int | None:
    """Offset of the last message if it is a delete, or of the delete before it if it is a tombstone; else None. `rows`
    are those of one partition (`app.model.rows`), in any order."""
    offsets = rows["offset"].to_numpy()
    last = np.argpartition(offsets, -_LAST)[-_LAST:] if len(offsets) > _LAST else np.arange(len(offsets))
    for at in sorted(last.tolist(), key=offsets.__getitem__, reverse=True):
        kind = Layout.parse(rows["layout"][at].as_py()).kind
        if kind is RowKind.DELETE:
            return int(offsets[at])
        if kind is not RowKind.FILTERED:
            break
    return None
