"""The generations of a lane beside its epochs: when each began, and how it ended where that is known."""

import datetime
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from app.cli.lane_status import ALIVE, DIED
from app.cli.rendering import Document
from app.console.epoch_log import LoggedEvent
from app.console.parameters import MAX_LINES
from app.db.locks import lock_holder
from app.ledger.epoch_history import EpochHistory, EpochKey
from app.ledger.store import Ledger

#: events of the log that end a generation, and how it ended
_ENDS = {
    "stopping at the end of the epoch": "stopped",
    "stopped": "stopped",
    "trying again": "failed",
    "worker died": "killed",
}
_START, _TAKEN = "start", "taking over"
_WITHOUT_A_WORD = "its log has no end of it"


def shown_generations(
    connection: Connection,
    history: EpochHistory,
    rows: Sequence[Row[Any]],
    limit: int,
    before: EpochKey | None,
    only: int | None,
) -> list[Document]:
    """Generations of a page, the newest first, those without an epoch among them: since the page's oldest epoch, up to
    the page before, or to the newest one; and the one behind them, for `with_ends`. `rows`: with the next page's first;
    `only`: a filter's generation."""
    here = {row.generation for row in rows[:limit]}
    following = rows[limit].generation if len(rows) > limit else None
    if only is not None:
        first, last = only, only
    elif before is not None:
        first, last = min(here, default=before.generation), before.generation
    else:
        first, last = min(here, default=0), None
    to_read = None if last is None else last + 1  # by whose begin the end of `last` is known
    found = [generation_document(row) for row in history.generations(connection, first, to_read, MAX_LINES)]
    known = {one["generation"] for one in found}
    found += [{"generation": number, "started_at": None} for number in here - known]
    for one in found:
        number = one["generation"]
        was_before = last is not None and (number > last or (number == last and before is not None))
        one["epochs_here"] = number in here
        one["begins_here"] = number != following and (number in here or not was_before)
    return sorted(found, key=lambda one: -one["generation"])


def generation_document(row: Row[Any]) -> Document:
    plain = {name: getattr(row, name) for name in ("generation", "checkpoint", "delivery", "host", "pid")}
    return plain | {"started_at": row.started_at.isoformat()}


def state_of(connection: Connection, schema: str, lane: str) -> Document | None:
    """The newest generation's: its number, and how it ended, None while it runs."""
    ledger = Ledger(schema, lane)
    row, reported = ledger.lane_row(connection), ledger.state(connection)
    if row is None or row.generation is None:
        return None
    ended = None
    if lock_holder(connection, lane) is None:
        if reported is None or reported.state == "stopped":
            ended = {"how": "stopped", "said": None}
        elif reported.state in ALIVE:
            ended = {"how": "killed", "said": reported.last_error or DIED}
        else:
            ended = {"how": reported.state, "said": reported.last_error}
    return {"generation": row.generation, "ended": ended}


def with_ends(generations: list[Document], events: Sequence[LoggedEvent], newest: Document | None) -> list[Document]:
    """Those of the page with `ended`: how and why; None where it runs, or where its end is not known."""
    marking = sorted(((at, one) for one in events if (at := _time(one.at)) is not None), key=lambda pair: pair[0])
    times = [at for at, _ in marking]
    takings = {one.generation: one for _, one in marking if one.event == _TAKEN}
    began_after: datetime.datetime | None = None
    taken_by: int | None = None
    for one in generations:
        one["ended"] = None
        began = _time(one["started_at"]) if one["started_at"] is not None else None
        if newest is not None and one["generation"] == newest["generation"]:
            one["ended"] = newest["ended"]
        elif began is not None and began_after is not None:
            own = [event for _, event in marking[bisect_left(times, began) : bisect_left(times, began_after)]]
            one["ended"] = next(_ends(own, takings.get(taken_by)), None)
        began_after, taken_by = began, one["generation"]
    return [one for one in generations if one["epochs_here"] or one["begins_here"]]


def _ends(own: Sequence[LoggedEvent], taken: LoggedEvent | None) -> Iterator[Document]:
    """How a generation ended, by the events between its begin and the next one's; the first one is right. `taken`: the
    next one ended its session."""
    for event in own:
        if event.event in _ENDS:
            yield {"how": _ENDS[event.event], "said": event.document()["details"] or None}
    if taken is not None:
        yield {"how": "fenced", "said": taken.document()["details"] or None}
    if any(event.event == _START for event in own):
        yield {"how": "killed", "said": _WITHOUT_A_WORD}


def _time(text: str) -> datetime.datetime | None:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
