"""Compares two tables: sums of key ranges first, of smaller ranges where they differ, and rows at the end."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import zip_longest
from typing import TypeVar

from app.verify.key_range import KeyRange
from app.verify.pair import Half, Pair
from app.verify.result import Difference, DifferenceKind, TableResult, difference
from app.verify.side import DatabaseSide, Key, Row, Sum

T = TypeVar("T")

#: approximate number of rows of a range after the first cut
RANGE_ROWS = 10_000
#: most rows of a range whose rows are fetched, where the key is unique
FETCHED_ROWS = 200
#: most ranges of one cut
MOST_PARTS = 1_000
#: most differing keys of one table that are kept
KEPT = 10_000


class Comparer:
    """Compares pairs of tables in two snapshots; queries both at the same time."""

    def __init__(
        self, target: DatabaseSide, other: DatabaseSide, progress: Callable[[str], None] = lambda _: None
    ) -> None:
        self.sides = (target, other)
        self._progress = progress

    def compare(self, pair: Pair) -> TableResult:
        result = TableResult(pair=pair)
        self._progress(f"{pair}: counting and hashing")
        whole = KeyRange.whole(len(pair.key))
        (mine,), (theirs,) = self._both(pair, lambda side, half: side.sums(half, whole, 0, ()))
        result.target_rows, result.other_rows = mine.rows, theirs.rows
        if mine != theirs:
            for box, sums in self._small(pair, whole, (mine, theirs)):
                self._rows(result, box, sums)
                self._progress(f"{pair}: {result.differing:,} keys differ so far")
        return result

    def look_again(self, pair: Pair, keys: Sequence[Key]) -> Iterator[Difference]:
        """Differences that are left between the rows of these keys."""
        hidden = _hidden(pair)
        for at in range(0, len(keys), FETCHED_ROWS):
            some = keys[at : at + FETCHED_ROWS]
            mine, theirs = self._both(pair, lambda side, half, some=some: side.named(half, some, hidden))
            yield from _differences(pair, mine, theirs)

    def _small(self, pair: Pair, box: KeyRange, sums: tuple[Sum, Sum]) -> Iterator[tuple[KeyRange, tuple[Sum, Sum]]]:
        """Cut a range down to ranges that differ and are small, or cannot be cut."""
        waiting = [(box, sums)]
        while waiting:
            box, sums = waiting.pop()
            rows = max(one.rows for one in sums)
            parts = [] if rows <= FETCHED_ROWS else self._cut(pair, box, sums)
            if not parts:
                yield box, sums
            waiting += reversed(parts)

    def _cut(self, pair: Pair, box: KeyRange, sums: tuple[Sum, Sum]) -> list[tuple[KeyRange, tuple[Sum, Sum]]]:
        """The differing parts of a range, cut by the first key column with several values in it; empty if none has."""
        larger = max((0, 1), key=lambda n: sums[n].rows)
        rows = sums[larger].rows
        size = RANGE_ROWS if rows > RANGE_ROWS else FETCHED_ROWS // 2
        number = min(math.ceil(rows / size), MOST_PARTS)
        for at in range(len(pair.key)):
            bounds = self.sides[larger].bounds(pair.halves[larger], box, at, number)
            if bounds:
                mine, theirs = self._both(
                    pair, lambda side, half, at=at, bounds=bounds: side.sums(half, box, at, bounds)
                )
                each = zip(box.cut(at, bounds), zip(mine, theirs, strict=True), strict=True)
                return [(part, both) for part, both in each if both[0] != both[1]]
        return []

    def _rows(self, result: TableResult, box: KeyRange, sums: tuple[Sum, Sum]) -> None:
        """Compare key by key. Once KEPT keys are kept, count the rows of a range that only one side has, unread."""
        mine, theirs = sums
        if len(result.differences) >= KEPT and 0 in (mine.rows, theirs.rows):
            result.counts[DifferenceKind.SURPLUS] += mine.rows
            result.counts[DifferenceKind.MISSING] += theirs.rows
            return
        hidden = _hidden(result.pair)
        found = self._both(result.pair, lambda side, half: side.rows(half, box, hidden))
        for one in _differences(result.pair, *found):
            result.add(one, KEPT)

    def _both(self, pair: Pair, ask: Callable[[DatabaseSide, Half], T]) -> tuple[T, T]:
        """Query both sides at the same time. Where one fails, or on Ctrl-C, cancel the other's statement."""
        with ThreadPoolExecutor(2) as pool:
            one, other = (pool.submit(ask, side, half) for side, half in zip(self.sides, pair.halves, strict=True))
            try:
                for done in wait((one, other), return_when=FIRST_EXCEPTION).done:
                    done.result()
                return one.result(), other.result()
            finally:
                for side, query in zip(self.sides, (one, other), strict=True):
                    if not query.done():
                        side.cancel()


def _hidden(pair: Pair) -> list[bool]:
    return [name in pair.hidden for name, _ in pair.columns]


def _differences(
    pair: Pair, mine: Sequence[tuple[Key, Row]], theirs: Sequence[tuple[Key, Row]]
) -> Iterator[Difference]:
    """Compare key by key. The other side may have several rows of a key: they are paired in order of their hashes."""
    left, right = _by_key(mine), _by_key(theirs)
    for key in dict.fromkeys((*left, *right)):
        for one, other in zip_longest(left[key], right[key]):
            if found := difference(pair, key, one, other):
                yield found


def _by_key(rows: Sequence[tuple[Key, Row]]) -> defaultdict[Key, list[Row]]:
    found: defaultdict[Key, list[Row]] = defaultdict(list)
    for key, row in sorted(rows, key=lambda one: [(text is None, text or "") for text in (*one[0], *one[1].hashes)]):
        found[key].append(row)
    return found
