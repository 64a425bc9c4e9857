"""What *Now* shows of a lane: what `surelane status` prints, and the course of the newest epochs."""

from app.cli.lane_status import Report, read_report
from app.cli.next_command import LaneOptions
from app.cli.rendering import Document
from app.cli.status import status_document
from app.console.epoch_reading import figures
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane
from app.db.sqlstate import translated
from app.ledger.epoch_history import EpochHistory
from app.model.utc import utc_time

#: newest epochs of the sparklines
SPARK_EPOCHS = 120


def now(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane status`, with figures of the newest epochs."""
    with lane.broker() as broker:
        return _now(lane, read_report(lane.settings, lane.engine, broker))


def now_without_lag(lane: ServedLane, _: Parameters) -> Document:
    """The same without what only Kafka knows."""
    return _now(lane, read_report(lane.settings, lane.engine, None))


def now_live(lane: ServedLane, _: Parameters) -> Document:
    """The same, with what Kafka has answered by now."""
    return _now(lane, lane.lag.add_to(read_report(lane.settings, lane.engine, None)))


def _now(lane: ServedLane, report: Report) -> Document:
    found = status_document(report, LaneOptions.of(lane.file, lane.settings))
    with translated("reading the ledger"), lane.engine.connect() as connection:
        name = lane.in_ledger(connection, None)
        rows = EpochHistory(lane.schema, name).recent(connection, SPARK_EPOCHS)
    recent = [figures(row) for row in reversed(rows)]
    return found | {
        "applied_at": recent[-1]["applied_at"] if recent else None,
        "recent": recent,
        "recent_lag": [
            {"at": utc_time(one.at).isoformat(), "messages": one.messages, "seconds": one.seconds}
            for one in lane.lag.samples
        ],
    }
