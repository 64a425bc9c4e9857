"""What the console shows, as documents: those of the command line, and what a page adds to them.

A reading takes the lane and the page's parameters. It raises SurelaneError where what it reads is away, and
`NoSuchThing` for an address of something that is not there.
"""

import datetime
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from app.cli.doctor import examine, findings_document
from app.cli.indoubt_view import answers_document, list_document, transaction_document
from app.cli.lane_status import Report, read_report
from app.cli.operator_access import guard_records, in_doubt, quarantine
from app.cli.quarantine_view import entry_document, shown
from app.cli.quarantine_view import list_document as entries_document
from app.cli.recover_view import plan_document
from app.cli.rendering import Document
from app.cli.savepoint_view import savepoint_document
from app.cli.snapshot_view import listing_document
from app.cli.status import status_document
from app.config.redaction import Redaction
from app.console.configuration_reading import configuration_of
from app.console.epoch_log import EpochLog
from app.console.epoch_times import checkpoint_times
from app.console.parameters import NoSuchThing, Parameters
from app.console.query_reading import query_document
from app.console.served_lanes import ServedLane
from app.db.prepared import prepared
from app.db.sqlstate import translated
from app.errors import Refused, SurelaneError
from app.kafka.replayable import replayable
from app.ledger.epoch_history import EpochFilter, EpochHistory, EpochKey
from app.ledger.held_lanes import lanes_there
from app.ledger.ledger_tables import COUNTS
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.model.offsets import Offsets
from app.quarantine.operator import Filter, ReleaseState
from app.quarantine.quarantine import OPEN
from app.recover.archive_reach import archive_reach
from app.recover.journal import course
from app.recover.recovery_plan import make_plan
from app.savepoint.folder import SavepointFolder
from app.snapshot.snapshots import Snapshots
from app.verify.verification_runs import VerificationRuns

#: newest epochs of the sparklines
SPARK_EPOCHS = 120
#: lines of a list, if the address asks for no other number
PAGE_LINES = 50
MAX_LINES = 500
#: answers shown beside the transactions, and of one transaction
SHOWN_ANSWERS = 20
#: newest snapshots for which Kafka is asked how long they stay replayable
REPLAYABLE_SNAPSHOTS = 10
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
        name = _one_lane(connection, lane, None)
        rows = EpochHistory(lane.schema, name).page(connection, EpochFilter(), SPARK_EPOCHS)
        ages = [one.age_seconds for one in prepared(connection) if _is_mine(lane, one.gid)]
    recent = [_figures(row) for row in reversed(rows)]
    fresh = [one for one in recent if one["freshness_seconds"] is not None]
    return found | {
        "freshness_seconds": fresh[-1]["freshness_seconds"] if fresh else None,
        "in_doubt_age_seconds": round(max(ages), 3) if ages else None,
        "applied_at": recent[-1]["applied_at"] if recent else None,
        "next": _next_command(found),
        "recent": recent,
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


def _figures(row: Row[Any]) -> Document:
    """`freshness_seconds`: from the newest change's commit in the source to the target."""
    fresh = None if row.source_to is None else max(0.0, (row.applied_at - row.source_to).total_seconds())
    return {
        "generation": row.generation,
        "epoch": row.epoch,
        "applied_at": row.applied_at.isoformat(),
        "consumed": row.consumed,
        "freshness_seconds": None if fresh is None else round(fresh, 3),
    }


def epochs(lane: ServedLane, asked: Parameters) -> Document:
    """A page of the ledger, the newest first, with the generations that wrote it, and steps where they are known."""
    filters = EpochFilter(
        plan=asked.text("plan"),
        generation=asked.number("generation"),
        since=asked.moment("since"),
        quarantined=asked.has("quarantined"),
        duplicate=asked.has("duplicate"),
    )
    limit, before = _limit(asked), _key(asked.text("before"))
    with translated("reading the ledger"), lane.engine.connect() as connection:
        name = _one_lane(connection, lane, asked.text("of"))
        history = EpochHistory(lane.schema, name)
        rows = history.page(connection, filters, limit + 1, before)
        total = history.count(connection, filters)
        shown_rows = rows[:limit]
        numbers = [row.generation for row in shown_rows] or [0]
        generations = history.generations(connection, min(numbers), max(numbers))
        plans = history.plans(connection)
        lanes = lanes_there(connection, lane.schema, lane.name, several=True) if lane.several else [name]
    log = EpochLog(lane.logs)
    found = [_epoch(row) for row in shown_rows]
    events = log.read(name, {(one["generation"], one["epoch"]) for one in found})
    for one in found:
        one["steps"] = events.steps.get((one["generation"], one["epoch"]))
    last = shown_rows[-1] if len(rows) > limit else None
    return {
        "lane": name,
        "lanes": lanes,
        "total": total,
        "epochs": found,
        "generations": [_generation(row) for row in generations],
        "plans": plans,
        "older": None if last is None else f"{last.generation}.{last.epoch}",
        "events": events.others[-PAGE_LINES:],
        "steps_from": log.where,
    }


def epoch(lane: ServedLane, asked: Parameters) -> Document:
    """One epoch of the ledger: span, counts, steps, what the checkpoint's files say, and what went into quarantine."""
    key = _key(asked.text("key"))
    if key is None:
        raise NoSuchThing("an epoch's address is its generation and number, like 3.41")
    with translated("reading the ledger"), lane.engine.connect() as connection:
        name = _one_lane(connection, lane, asked.text("of"))
        history = EpochHistory(lane.schema, name)
        row = history.find(connection, key)
        if row is None:
            raise NoSuchThing(f"the ledger of lane {name} has no epoch {key.epoch} of generation {key.generation}")
        older = history.page(connection, EpochFilter(), 1, key)
        newer = history.after(connection, key)
        generations = history.generations(connection, key.generation, key.generation)
        checkpoint = Ledger(lane.schema, name).checkpoints(connection).get(key.generation)
    events = EpochLog(lane.logs)
    read = events.read(name, {(key.generation, key.epoch)})
    return {
        "lane": name,
        **_epoch(row),
        "steps": read.steps.get((key.generation, key.epoch)),
        "steps_from": events.where,
        "visible_at": read.visible_at.get((key.generation, key.epoch)),
        "last_message": row.last_message,
        "read": row.read_position,
        "generation_row": _generation(generations[0]) if generations else None,
        "checkpoint": checkpoint_times(lane.settings.checkpoint, key.epoch, checkpoint),
        "older": f"{older[0].generation}.{older[0].epoch}" if older else None,
        "newer": None if newer is None else f"{newer.generation}.{newer.epoch}",
    }


def _epoch(row: Row[Any]) -> Document:
    return _figures(row) | {
        "key": f"{row.generation}.{row.epoch}",
        "plan": row.plan,
        "start": row.start_position,
        "end": row.end_position,
        **{count: getattr(row, count) for count in COUNTS},
        "source_from": row.source_from and row.source_from.isoformat(),
        "source_to": row.source_to and row.source_to.isoformat(),
    }


def _generation(row: Row[Any]) -> Document:
    plain = {name: getattr(row, name) for name in ("generation", "checkpoint", "delivery", "host", "pid")}
    return plain | {"started_at": row.started_at.isoformat()}


def transactions(lane: ServedLane, _: Parameters) -> Document:
    """The documents of `surelane indoubt list` and `surelane indoubt answers`."""
    with in_doubt(lane.settings) as (connection, observer):
        found = observer.overview(connection)
        past, total = observer.answers.past(connection, None, SHOWN_ANSWERS)
    document = list_document(lane.name, found, lane.settings.guard.redact)
    return document | {"answers": answers_document(lane.name, past, total)["answers"], "answers_total": total}


def transaction(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane indoubt explain`, or what became of the transaction, and the answers to it."""
    gid = asked.text("gid") or ""
    with in_doubt(lane.settings) as (connection, observer):
        found = observer.find(connection, gid)
        past, _ = observer.answers.past(connection, gid, SHOWN_ANSWERS)
        fate = observer.fate(connection, gid) if found is None else None
    return {
        "gid": gid,
        "prepared": None if found is None else transaction_document(found, lane.settings.guard.redact),
        "fate": fate,
        "answers": answers_document(lane.name, past, len(past))["answers"],
    }


def quarantined(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane quarantine list`, a page of it."""
    filters, limit, before = asked.quarantine_filter(), _limit(asked), asked.number("before")
    redaction = Redaction(lane.settings.guard.redact)
    with quarantine(lane.settings) as (connection, operator):
        rows = operator.find(
            connection, filters, limit + 1, before=before, with_values=bool(lane.settings.guard.redact)
        )
        total = operator.count(connection, filters)
        may_change = operator.count(connection, open_ones) if (open_ones := open_only(filters)) is not None else 0
    document = entries_document(rows[:limit], total, redaction)
    older = document["entries"][-1]["id"] if len(rows) > limit else None
    return document | {"older": older, "open": may_change}


def open_only(filters: Filter) -> Filter | None:
    """The filter without entries that can be neither released nor discarded; None: it has no others."""
    states = tuple(state for state in OPEN if not filters.states or state in filters.states)
    return replace(filters, states=states) if states else None


def outcome(lane: ServedLane, asked: Parameters) -> Document:
    """What has become of entries that were changed together."""
    ids = asked.numbers("ids")
    if not ids:
        raise NoSuchThing("an outcome's address has the numbers of its entries: ids=1-50,60")
    filters = Filter(ids=ids)
    with quarantine(lane.settings) as (connection, operator):
        counted = operator.outcomes(connection, filters)
        rows = operator.find(connection, filters, PAGE_LINES, with_values=bool(lane.settings.guard.redact))
    states: dict[str, int] = {}
    for state, _, count in counted:
        states[state] = states.get(state, 0) + count
    still_open = [(release, count) for state, release, count in counted if state in OPEN]
    return {
        "ids": asked.text("ids"),
        "states": states,
        "waiting": sum(count for release, count in still_open if release is ReleaseState.REQUESTED),
        "refused": sum(count for release, count in still_open if release is ReleaseState.REFUSED),
        "entries": entries_document(rows, sum(states.values()), Redaction(lane.settings.guard.redact))["entries"],
    }


def quarantine_entry(lane: ServedLane, asked: Parameters) -> Document:
    """The document of `surelane quarantine show`, with what is parked behind the message."""
    number = asked.number("id")
    if number is None:
        raise NoSuchThing("an entry's address is its number")
    redaction = Redaction(lane.settings.guard.redact)
    with quarantine(lane.settings) as (connection, operator):
        try:
            row = operator.get(connection, number)
        except Refused as error:
            raise NoSuchThing(error.message) from None
        document = entry_document(row, operator.history(connection, number), redaction)
        behind = operator.behind(connection, row, PAGE_LINES)
    return document | {"behind": entries_document(behind, len(behind), redaction)["entries"]}


def readable(entry: Document) -> Mapping[str, Any]:
    """Key, value and headers of an entry as texts that a page shows."""
    return {
        "key": shown(entry["key"]),
        "value": shown(entry["value"]),
        "headers": [(name, shown(value)) for name, value in entry["headers"]],
    }


def guard(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane guard show`."""
    return guard_records(lane.settings)


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
    try:
        stored = _snapshots(lane).directory.get(name)
    except Refused as error:
        raise NoSuchThing(error.message) from None
    with lane.broker() as broker:
        plan = plan_document(make_plan(lane.settings, stored, broker))
    return {"plan": plan, "recovery": {"snapshot": name, **course(stored).as_json()}}


def _snapshots(lane: ServedLane) -> Snapshots:
    return Snapshots(lane.settings, lambda _: None)


def verifications(lane: ServedLane, _: Parameters) -> Document:
    """The last runs of `surelane verify`, the newest first."""
    with translated("reading the comparisons"), lane.engine.connect() as connection:
        runs = VerificationRuns(lane.schema, lane.name).newest(connection)
    return {"lane": lane.name, "runs": [one.as_json() for one in runs]}


def verification(lane: ServedLane, asked: Parameters) -> Document:
    """One run: the document of `surelane verify`, with the keys that it kept."""
    number = asked.number("id")
    with translated("reading the comparisons"), lane.engine.connect() as connection:
        found = None if number is None else VerificationRuns(lane.schema, lane.name).find(connection, number)
    if found is None:
        raise NoSuchThing(f"there is no comparison {asked.text('id')} of lane {lane.name} on record")
    return found.as_json() | {"document": found.document(Redaction(lane.settings.guard.redact))}


def queries(lane: ServedLane, _: Parameters) -> Document:
    """State, watermark and windows of each query of the configuration."""
    settings = lane.settings
    names = [*settings.queries] if settings.query is None else []
    of_each = [settings.of_query(name) for name in names] or ([settings] if settings.query is not None else [])
    with translated("reading the state of queries"), lane.engine.connect() as connection:
        return {"lane": lane.name, "queries": [query_document(connection, one) for one in of_each]}


def doctor(lane: ServedLane, _: Parameters) -> Document:
    """The document of `surelane doctor`."""
    return findings_document(lane.name, examine(lane.settings))


def doctor_not_yet(lane: ServedLane, _: Parameters) -> Document:
    """The same before anything is checked."""
    return findings_document(lane.name, [])


def configuration(lane: ServedLane, _: Parameters) -> Document:
    """The effective configuration, secrets hidden."""
    return {"lane": lane.name, "file": str(lane.file or "surelane.yaml"), "values": configuration_of(lane.settings)}


def _one_lane(connection: Connection, lane: ServedLane, wanted: str | None) -> str:
    """The lane's name in the ledger: with `order: partition` the wanted partition's, or the first one's."""
    if not lane.several:
        return lane.name
    names = lanes_there(connection, lane.schema, lane.name, several=True)
    return wanted if wanted in names else names[0] if names else lane.name


def _key(text: str | None) -> EpochKey | None:
    if text is None:
        return None
    generation, _, number = text.partition(".")
    if not (generation.isdecimal() and number.isdecimal() and max(len(generation), len(number)) <= 18):
        return None
    return EpochKey(int(generation), int(number))


def _limit(asked: Parameters) -> int:
    return min(max(asked.number("limit") or PAGE_LINES, 1), MAX_LINES)
