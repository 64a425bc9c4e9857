"""The state of every lane for the first page, which waits for none of their targets longer than it has to."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from app.cli.rendering import Document
from app.console.now_reading import now_without_lag
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane
from app.errors import SurelaneError

#: lanes that are read at one time
LANES_AT_ONCE = 8
#: seconds that an open page waits for the slowest target
PATIENCE_SECONDS = 1.0
#: state of a lane whose target has not answered yet
BEING_READ = "being read"
#: what there is of each lane's document
_SUMMARY = (
    *("lane", "state", "generation", "epoch", "position", "pause", "last_error", "next", "in_doubt", "applied_at"),
    "freshness_seconds",
)


class LaneSummaries:
    """At most one reading of a lane is under way."""

    def __init__(self) -> None:
        self._readers = ThreadPoolExecutor(LANES_AT_ONCE, thread_name_prefix="overview")
        self._asked: dict[ServedLane, Future[Document]] = {}
        self._seen: dict[ServedLane, Document] = {}

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)

    def all(self, lanes: Iterable[ServedLane]) -> list[Document]:
        """Of each lane, read now."""
        return list(self._readers.map(_summary, lanes))

    def newest(self, lanes: Iterable[ServedLane]) -> list[Document]:
        """Of each lane, as it was read last where its target does not answer in time."""
        shown = list(lanes)
        asked = {lane: self._asked.get(lane) or self._readers.submit(_summary, lane) for lane in shown}
        wait(asked.values(), PATIENCE_SECONDS)
        self._asked = {lane: one for lane, one in asked.items() if not one.done()}
        seen = {lane: one.result() for lane, one in asked.items() if one.done()}
        self._seen = {lane: seen.get(lane) or self._seen.get(lane) or being_read(lane) for lane in shown}
        return list(self._seen.values())


def being_read(lane: ServedLane) -> Document:
    """Of a lane that was not read yet."""
    return {"lane": lane.name, "state": BEING_READ, "trouble": "its target is asked"}


def _summary(lane: ServedLane) -> Document:
    try:
        found = now_without_lag(lane, Parameters({}, []))
    except SurelaneError as error:
        return {"lane": lane.name, "state": "not known", "trouble": str(error)}
    return {name: found[name] for name in _SUMMARY} | {"trouble": None}
