"""The guard's records of a lane as tables and as JSON."""

from typing import Any

from rich.table import Table
from sqlalchemy import Row

from app.cli.rendering import facts_table, grid, ranges, utc
from app.config.settings import GuardSettings
from app.poison.attempts import span_of
from app.poison.guard_overview import GuardOverview
from app.poison.narrowing import size

_ATTEMPT = ("generation", "epoch", "stage")
_MORE = ("deaths", "unexplained", "alone", "controlled", "control_failures")
_COLUMNS = (
    *("stage", "span", "messages", "attempts", "losses", "unexplained", "alone", "first (UTC)", "last (UTC)"),
    "cause",
)
_PROCESS = ("finished", "host", "pid")


def as_json(lane: GuardOverview, config: GuardSettings) -> dict[str, Any]:
    return {
        "lane": lane.lane,
        "in_progress": None if lane.attempt is None else _attempt(lane.attempt),
        "suspects": [_suspect(row, config) for row in lane.suspects],
    }


def facts(lane: GuardOverview) -> Table:
    """The span in progress."""
    row, title = lane.attempt, f"lane {lane.lane}"
    if row is None:
        return facts_table({"in progress": "nothing was ever begun"}, title)
    lines = {
        "in progress": "no" if row.finished else "yes, or was when its process died",
        "epoch": f"{row.epoch} of generation {row.generation}",
        "stage": row.stage,
        "span": _span(row),
        "messages": f"{size(span_of(row)):,} at most",
        "begun at": utc(row.begun_at),
        "by": f"process {row.pid} on {row.host}",
    }
    return facts_table(lines, title)


def suspects(lane: GuardOverview, config: GuardSettings) -> Table:
    """A line for each suspect."""
    rows = [
        (
            row.stage,
            _span(row),
            f"{size(span_of(row)):,}",
            f"{row.attempts} of {config.max_attempts}",
            f"{row.losses} of {config.max_losses}",
            f"{row.unexplained}",
            f"{row.alone}",
            utc(row.first_at, zone=False),
            utc(row.last_at, zone=False),
            " ".join(filter(None, (row.sqlstate, *_cause(row, config).split()))),
        )
        for row in lane.suspects
    ]
    return grid(_COLUMNS, rows, "suspects")


def _attempt(row: Row[Any]) -> dict[str, Any]:
    plain = {name: getattr(row, name) for name in (*_ATTEMPT, *_PROCESS)}
    return plain | _place(row) | {"begun_at": row.begun_at.isoformat()}


def _suspect(row: Row[Any], config: GuardSettings) -> dict[str, Any]:
    return {
        "stage": row.stage,
        **_place(row),
        "attempts": row.attempts,
        "max_attempts": config.max_attempts,
        "losses": row.losses,
        "max_losses": config.max_losses,
        **{name: getattr(row, name) for name in _MORE},
        "cause": _cause(row, config),
        "error_class": row.error_class,
        "sqlstate": row.sqlstate,
        "first_at": row.first_at.isoformat(),
        "last_at": row.last_at.isoformat(),
    }


def _place(row: Row[Any]) -> dict[str, Any]:
    return {"start": row.span_start, "end": row.span_end, "messages_at_most": size(span_of(row))}


def _cause(row: Row[Any], config: GuardSettings) -> str:
    """The text of the failure; only its class under `guard.redact`, since the text may be older than that setting."""
    return row.error_class if config.redact else row.cause


def _span(row: Row[Any]) -> str:
    return ranges(span_of(row))
