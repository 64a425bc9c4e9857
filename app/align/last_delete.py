"""The delete that ends what was read of a partition: an epoch must not end between the halves of a changed key."""

import numpy as np
import pyarrow as pa

from app.model.rows import Layout, RowKind

#: a delete and its tombstone
_LAST = 2


def last_delete(rows: pa.Table) -> int | None:
    """Offset of the last message if it is a delete; of the one before it where that is a tombstone. `rows` are those of
    one partition (`app.model.rows`), in any order."""
    offsets = rows["offset"].to_numpy()
    last = np.argpartition(offsets, -_LAST)[-_LAST:] if len(offsets) > _LAST else np.arange(len(offsets))
    for at in sorted(last.tolist(), key=offsets.__getitem__, reverse=True):
        kind = Layout.parse(rows["layout"][at].as_py()).kind
        if kind is RowKind.DELETE:
            return int(offsets[at])
        if kind is not RowKind.FILTERED:
            break
    return None
