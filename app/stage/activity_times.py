"""How long a stage process takes for each activity on a span."""

import time
from collections.abc import Callable, Mapping

from app.model.activity import Activity


class ActivityTimes:
    """Called with each activity before it begins; passes it on."""

    def __init__(self, doing: Callable[[Activity], None]) -> None:
        self._doing = doing
        self._spent: dict[str, float] = {}
        self._current: Activity | None = None
        self._since = 0.0

    def __call__(self, activity: Activity) -> None:
        self._end_current()
        self._current = activity
        self._doing(activity)

    def begin(self) -> None:
        """Begin a span, or go on with one."""
        self._spent, self._current = {}, None

    def milliseconds(self) -> Mapping[str, float]:
        """Of the span so far, by activity."""
        self._end_current()
        return {name: round(seconds * 1000, 1) for name, seconds in self._spent.items()}

    def _end_current(self) -> None:
        now = time.perf_counter()
        if self._current is not None:
            self._spent[self._current.value] = self._spent.get(self._current.value, 0.0) + now - self._since
        self._since = now
