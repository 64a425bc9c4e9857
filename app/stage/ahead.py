"""How much may be staged ahead of its turn, by all lanes of a process together."""

import threading
from collections.abc import Sequence


class Ahead:
    """Bytes by lane, as far as they are known or expected. Used by several threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._booked: dict[str, int] = {}

    def book(self, lane: str, sizes: Sequence[int]) -> int:
        """How many of these spans, the first ones, the lane may have ahead, in place of what it had before."""
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
