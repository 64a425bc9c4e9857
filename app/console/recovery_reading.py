"""Snapshots, savepoints, the plan of a recovery, and how far one has come."""

import datetime
import math

from app.cli.recover_view import plan_document
from app.cli.rendering import Document
from app.cli.savepoint_view import savepoint_document
from app.cli.snapshot_view import listing_document
from app.console.parameters import NoSuchThing, Parameters
from app.console.recovery_start import output
from app.console.served_lanes import ServedLane
from app.errors import Refused, SurelaneError
from app.kafka.replayable import replayable
from app.model.offsets import Offsets
from app.recover.archive_reach import archive_reach
from app.recover.journal import course
from app.recover.recovery_plan import make_plan
from app.savepoint.folder import SavepointFolder
from app.snapshot.snapshot_directory import StoredSnapshot
from app.snapshot.snapshots import Snapshots

#: newest snapshots for which Kafka is asked how long they stay replayable
REPLAYABLE_SNAPSHOTS = 10


def recovery(lane: ServedLane, asked: Parameters) -> Document:
    """The documents of `surelane snapshot list` and `surelane savepoint list`; how long each snapshot stays replayable,
    and how far a recovery from it has come."""
    document = recovery_without_kafka(lane, asked)
    found: dict[str, Document] = {}
    for one in document["snapshots"]["snapshots"][-REPLAYABLE_SNAPSHOTS:]:
        found[one["name"]] = _replayable(lane, Offsets.from_nested(one["position"]))
        if found[one["name"]]["ok"] is None:
            break  # Kafka is away
    return document | {"replayable": found}


def recovery_without_kafka(lane: ServedLane, _: Parameters) -> Document:
    """The same without what only Kafka knows."""
    snapshots = _snapshots(lane)
    listing = snapshots.listing()
    document = listing_document(listing, snapshots.directory.root)
    journals = {one.manifest.name: course(one).as_json() for one in listing.snapshots}
    folder = SavepointFolder(lane.settings.savepoints.directory)
    try:
        found, broken = folder.listing()
        savepoints = {"savepoints": list(map(savepoint_document, found)), "broken": broken, "trouble": None}
    except SurelaneError as error:
        savepoints = {"savepoints": [], "broken": {}, "trouble": str(error)}
    return {
        "snapshots": document,
        "replayable": {},
        "recoveries": {name: one for name, one in journals.items() if one["place"] is not None},
        "savepoints": savepoints | {"directory": folder.root},
    }


def _replayable(lane: ServedLane, position: Offsets) -> Document:
    """`until`: at the earliest, Kafka deletes a message that is needed; None: no limit of time, or not known."""
    try:
        with lane.broker() as broker:
            there = broker.partitions()
            found = replayable(broker, position.only(there), archive_reach(lane.settings, position))
    except SurelaneError as error:
        return {"ok": None, "messages_at_most": None, "until": None, "trouble": error.message}
    missing = sorted(str(tp) for tp in position if tp not in there)
    seconds = found.headroom_seconds
    until = None
    if found.ok and math.isfinite(seconds):
        until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)).isoformat(
            timespec="seconds"
        )
    trouble = f"Kafka has no {', '.join(missing)}" if missing else None
    limit = "none" if math.isinf(seconds) else "not known" if math.isnan(seconds) else "time"
    return {
        "ok": found.ok and not missing,
        "messages_at_most": found.messages,
        "until": until,
        "limit": limit,
        "trouble": trouble,
    }


def recovery_plan(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane recover plan`, and of `surelane recover run --status`."""
    name = asked.text("snapshot") or ""
    stored = stored_snapshot(lane, name)
    with lane.broker() as broker:
        plan = plan_document(make_plan(lane.settings, stored, broker))
    recovery = {"snapshot": name, **course(stored).as_json(), "output": output(stored)}
    return {"plan": plan, "recovery": recovery}


def stored_snapshot(lane: ServedLane, name: str) -> StoredSnapshot:
    """Raises NoSuchThing."""
    try:
        return _snapshots(lane).directory.get(name)
    except Refused as error:
        raise NoSuchThing(error.message) from None


def _snapshots(lane: ServedLane) -> Snapshots:
    return Snapshots(lane.settings, lambda _: None)
