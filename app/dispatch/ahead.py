"""The limit of bytes staged ahead, shared by all lanes of a process."""

import threading
from collections.abc import Sequence


class Ahead:
    """Bytes staged ahead by each lane, known or expected. Used by several threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._booked: dict[str, int] = {}

    def book(self, lane: str, sizes: Sequence[int]) -> int:
        """Replace the lane's booking. Returns how many of the first spans, of these sizes, it may have ahead."""
        if not self.limit:
            return 0
        with self._lock:
            room = self.limit - sum(size for other, size in self._booked.items() if other != lane)
            taken, count = 0, 0
            for size in sizes:
                if taken + size > room:
                    break
                taken, count = taken + size, count + 1
            self._booked[lane] = taken
            return count
