"""What *Now* shows of a lane: state, lag, freshness, and what to type next."""

from app.cli.lane_status import Report, read_report
from app.cli.rendering import Document
from app.cli.status import status_document
from app.console.epoch_reading import figures
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane
from app.db.prepared import prepared
from app.db.sqlstate import translated
from app.ledger.epoch_history import EpochFilter, EpochHistory
from app.model.gid import Gid
from app.model.utc import utc_time

#: newest epochs of the sparklines
SPARK_EPOCHS = 120
_RUN_AGAIN = "surelane run"


def now(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane status`, with freshness, the age in doubt, and figures of the newest epochs."""
    with lane.broker() as broker:
        return _now(lane, read_report(lane.settings, lane.engine, broker))


def now_without_lag(lane: ServedLane, _: Parameters) -> Document:
    """The same without what only Kafka knows."""
    return _now(lane, read_report(lane.settings, lane.engine, None))


def now_live(lane: ServedLane, _: Parameters) -> Document:
    """The same, with what Kafka has answered by now."""
    return _now(lane, lane.lag.add_to(read_report(lane.settings, lane.engine, None)))


def _now(lane: ServedLane, report: Report) -> Document:
    found = status_document(report)
    with translated("reading the ledger"), lane.engine.connect() as connection:
        name = lane.in_ledger(connection, None)
        rows = EpochHistory(lane.schema, name).page(connection, EpochFilter(), SPARK_EPOCHS)
        ages = [one.age_seconds for one in prepared(connection) if _is_mine(lane, one.gid)]
    recent = [figures(row) for row in reversed(rows)]
    fresh = [one for one in recent if one["freshness_seconds"] is not None]
    return found | {
        "freshness_seconds": fresh[-1]["freshness_seconds"] if fresh else None,
        "in_doubt_age_seconds": round(max(ages), 3) if ages else None,
        "applied_at": recent[-1]["applied_at"] if recent else None,
        "next": _next_command(found),
        "recent": recent,
        "recent_lag": [
            {"at": utc_time(one.at).isoformat(), "messages": one.messages, "seconds": one.seconds}
            for one in lane.lag.samples
        ],
    }


def _is_mine(lane: ServedLane, text: str) -> bool:
    gid = Gid.parse(text)
    if gid is None:
        return False
    return gid.lane.startswith(f"{lane.name}.") if lane.several else gid.belongs_to(lane.name)


def _next_command(status: Document) -> str | None:
    """What to type next where the lane is not at work; None: nothing, or the error names it."""
    if status["state"] == "paused":
        return "surelane resume"
    if status["state"] in ("failed", "stopped"):
        error = status["last_error"] or ""
        return None if "what to do:" in error else _RUN_AGAIN
    return None
