"""The guard's records as a document, and its text."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from sqlalchemy import Row

from app.cli.rendering import Document, facts_table, grid, moment, ranges
from app.config.settings import GuardSettings
from app.poison.attempts import span_of
from app.poison.guard_overview import GuardOverview
from app.poison.narrowing import depth

_ATTEMPT = ("generation", "epoch", "stage", "finished", "host", "pid")
_MORE = ("deaths", "unexplained", "alone", "controlled", "control_failures")
_COLUMNS = (
    *("stage", "span", "messages", "attempts", "losses", "unexplained", "alone", "first (UTC)", "last (UTC)"),
    "cause",
)


def guard_document(lanes: Iterable[GuardOverview], config: GuardSettings) -> Document:
    found = [
        {
            "lane": lane.lane,
            "in_progress": None if lane.attempt is None else _attempt(lane.attempt),
            "suspects": [_suspect(row, config) for row in lane.suspects],
        }
        for lane in lanes
    ]
    return {"lanes": found}


def guard_text(document: Document) -> Iterator[RenderableType]:
    for lane in document["lanes"]:
        yield _facts(lane)
        yield _suspects(lane["suspects"]) if lane["suspects"] else "nothing is suspected"
    if not document["lanes"]:
        yield "no lane of this configuration has begun anything yet"


def _attempt(row: Row[Any]) -> Document:
    plain = {name: getattr(row, name) for name in _ATTEMPT}
    return plain | _place(row) | {"begun_at": row.begun_at.isoformat()}


def _suspect(row: Row[Any], config: GuardSettings) -> Document:
    """`first_messages`: of the span that was suspected first; null: not known. Under `guard.redact` the cause is only
    the error's class, since a stored text may be older than that setting."""
    return {
        "stage": row.stage,
        **_place(row),
        "first_messages": row.first_messages or None,
        "cuts_left": depth(span_of(row).size, 1),
        "attempts": row.attempts,
        "max_attempts": config.max_attempts,
        "losses": row.losses,
        "max_losses": config.max_losses,
        **{name: getattr(row, name) for name in _MORE},
        "cause": row.error_class if config.redact else row.cause,
        "error_class": row.error_class,
        "sqlstate": row.sqlstate,
        "first_at": row.first_at.isoformat(),
        "last_at": row.last_at.isoformat(),
    }


def _place(row: Row[Any]) -> Document:
    return {"start": row.span_start, "end": row.span_end, "messages_at_most": span_of(row).size}


def _facts(lane: Document) -> Table:
    """The span in progress."""
    now, title = lane["in_progress"], f"lane {lane['lane']}"
    if now is None:
        return facts_table({"in progress": "nothing was ever begun"}, title)
    lines = {
        "in progress": "no" if now["finished"] else "yes, or was when its process died",
        "epoch": f"{now['epoch']} of generation {now['generation']}",
        "stage": now["stage"],
        "span": ranges(now),
        "messages": f"{now['messages_at_most']:,} at most",
        "begun at": moment(now["begun_at"]),
        "by": f"process {now['pid']} on {now['host']}",
    }
    return facts_table(lines, title)


def narrowing_text(suspect: Document) -> str:
    """How much of the first suspected span it is, and how often it is cut until it is one message."""
    size, first = suspect["messages_at_most"], suspect["first_messages"]
    share = "" if first is None else f" of {first:,} ({size / first:.1%})"
    return f"{size:,}{share}; cuts left: {suspect['cuts_left']}"


def _suspects(suspects: list[Document]) -> Table:
    """A line for each suspect."""
    rows = [
        (
            one["stage"],
            ranges(one),
            narrowing_text(one),
            f"{one['attempts']} of {one['max_attempts']}",
            f"{one['losses']} of {one['max_losses']}",
            f"{one['unexplained']}",
            f"{one['alone']}",
            moment(one["first_at"], zone=False),
            moment(one["last_at"], zone=False),
            " ".join(filter(None, (one["sqlstate"], *one["cause"].split()))),
        )
        for one in suspects
    ]
    return grid(_COLUMNS, rows, "suspects")
