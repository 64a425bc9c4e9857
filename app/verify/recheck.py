"""Compares differing keys again: the target of a running lane is behind its source, and catches up."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from app.verify.compare import Comparer
from app.verify.result import DifferenceKind, TableResult

#: pause between two comparisons
PAUSE_SECONDS = 1.0

Opened = Callable[[], AbstractContextManager[Comparer]]


def look_again(
    results: Sequence[TableResult],
    opened: Opened,
    seconds: float,
    progress: Callable[[str], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Compare only the differing keys, again and again, until they agree or the time is over.

    Each comparison takes new snapshots. A table with more differences than are kept stays as it is.
    """
    until = time.monotonic() + seconds
    while open_ := [one for one in results if one.differences and one.is_complete]:
        left = until - time.monotonic()
        if left <= 0:
            return
        progress(f"{sum(one.differing for one in open_):,} keys differ, looking again for {left:,.0f} s")
        pause(min(PAUSE_SECONDS, left))
        with opened() as comparer:
            for one in open_:
                _update(one, comparer)


def _update(result: TableResult, comparer: Comparer) -> None:
    keys = list(dict.fromkeys(one.key for one in result.differences))
    result.differences = list(comparer.look_again(result.pair, keys))
    result.counts = {kind: sum(one.kind is kind for one in result.differences) for kind in DifferenceKind}
