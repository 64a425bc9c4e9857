"""Snapshots, savepoints, the plan of a recovery, and how far one has come."""

from collections.abc import Callable

from app.cli.recover_view import plan_document
from app.cli.rendering import Document
from app.cli.replayable_view import replayable_documents
from app.cli.savepoint_view import savepoint_document
from app.cli.snapshot_view import listing_document, position_document
from app.console.parameters import NoSuchThing, Parameters
from app.console.recovery_start import output
from app.console.served_lanes import ServedLane
from app.errors import Refused, SurelaneError
from app.recover.journal import course
from app.recover.recovery_plan import make_plan
from app.savepoint.folder import SavepointFolder
from app.snapshot.snapshot_directory import StoredSnapshot
from app.snapshot.snapshots import Snapshots


def recovery(lane: ServedLane, asked: Parameters) -> Document:
    """The documents of `surelane snapshot list --replayable` and `surelane savepoint list --replayable`, and how far a
    recovery from each snapshot has come."""
    document = recovery_without_kafka(lane, asked)
    snapshots, savepoints = document["snapshots"], document["savepoints"]
    with lane.broker() as broker:
        snapshots |= {"replayable": replayable_documents(lane.settings, broker, snapshots["snapshots"])}
        if all(one["ok"] is not None for one in snapshots["replayable"].values()):
            savepoints |= {"replayable": replayable_documents(lane.settings, broker, savepoints["savepoints"])}
    return document


def recovery_without_kafka(lane: ServedLane, _: Parameters) -> Document:
    """The same without what only Kafka knows: `replayable` is empty."""
    snapshots = _snapshots(lane)
    listing = snapshots.listing()
    document = listing_document(listing, snapshots.directory.root) | {"replayable": {}}
    journals = {one.manifest.name: course(one).as_json() for one in listing.snapshots}
    folder = SavepointFolder(lane.settings.savepoints.directory)
    try:
        found, broken = folder.listing()
        savepoints = {"savepoints": list(map(savepoint_document, found)), "broken": broken, "trouble": None}
    except SurelaneError as error:
        savepoints = {"savepoints": [], "broken": {}, "trouble": str(error)}
    return {
        "snapshots": document,
        "recoveries": {name: one for name, one in journals.items() if one["place"] is not None},
        "savepoints": savepoints | {"directory": folder.root, "replayable": {}},
    }


def recovery_plan(lane: ServedLane, asked: Parameters) -> Document:
    """The documents of `surelane recover run --status` and, where Kafka answers, of `surelane recover plan`."""
    stored = stored_snapshot(lane, asked.text("snapshot") or "")
    return _course_and_plan(stored, lambda: _plan(lane, stored))


def recovery_plan_live(lane: ServedLane, asked: Parameters) -> Document:
    """The same, with the plan that was made by now."""
    stored = stored_snapshot(lane, asked.text("snapshot") or "")
    return _course_and_plan(stored, lambda: lane.plans.get(stored.manifest.name, lambda: _plan(lane, stored)))


def recovery_journal(lane: ServedLane, asked: Parameters) -> Document:
    """The same before Kafka is asked: neither a plan nor why there is none."""
    return _course(stored_snapshot(lane, asked.text("snapshot") or ""))


def _course_and_plan(stored: StoredSnapshot, plan: Callable[[], Document]) -> Document:
    found = _course(stored)
    try:
        return found | {"plan": plan()}
    except SurelaneError as error:
        return found | {"trouble": str(error)}


def _course(stored: StoredSnapshot) -> Document:
    """It needs neither Kafka nor a target."""
    name = stored.manifest.name
    return {
        "snapshot": name,
        "driver": stored.manifest.driver.value,
        **position_document(stored.manifest),
        "plan": None,
        "trouble": None,
        "recovery": {"snapshot": name, **course(stored).as_json(), "output": output(stored)},
    }


def _plan(lane: ServedLane, stored: StoredSnapshot) -> Document:
    with lane.broker() as broker:
        return plan_document(make_plan(lane.settings, stored, broker))


def stored_snapshot(lane: ServedLane, name: str) -> StoredSnapshot:
    """Raises NoSuchThing."""
    try:
        return _snapshots(lane).directory.get(name)
    except Refused as error:
        raise NoSuchThing(error.message) from None


def _snapshots(lane: ServedLane) -> Snapshots:
    return Snapshots(lane.settings, lambda _: None)
