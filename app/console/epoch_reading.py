"""The ledger's epochs: a page of them, and one with all that is known of it."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Row

from app.apply.order_plan import FALLBACKS, OrderPlan
from app.cli.rendering import Document
from app.config.settings import Settings
from app.console.epoch_log import LaneLog
from app.console.epoch_times import NO_TIMES, checkpoint_times
from app.console.generation_reading import generation_document, shown_generations, state_of, with_ends
from app.console.parameters import PAGE_LINES, NoSuchThing, Parameters
from app.console.served_lanes import ServedLane
from app.console.timeline import ahead_ms, timeline
from app.db.sqlstate import translated
from app.ledger.epoch_history import EpochFilter, EpochHistory, EpochKey, EpochSummary
from app.ledger.held_lanes import lanes_there
from app.ledger.ledger_tables import COUNTS
from app.ledger.store import Ledger


def epochs(lane: ServedLane, asked: Parameters) -> Document:
    """A page of the ledger, the newest first, with the generations since its oldest epoch, and steps where they are
    known."""
    filters = EpochFilter(
        plan=asked.text("plan"),
        generation=asked.number("generation"),
        since=asked.moment("since"),
        quarantined=asked.has("quarantined"),
        duplicate=asked.has("duplicate"),
    )
    limit, before = asked.limit, key_of(asked.text("before"))
    with translated("reading the ledger"), lane.engine.connect() as connection:
        name = lane.in_ledger(connection, asked.text("of"))
        history = EpochHistory(lane.schema, name)
        rows = history.page(connection, filters, limit + 1, before)
        total = history.count(connection, filters)
        generations = shown_generations(connection, history, rows, limit, before, filters.generation)
        newest = state_of(connection, lane.schema, name)
        plans = history.plans(connection)
        lanes = lanes_there(connection, lane.schema, lane.name, several=True) if lane.several else [name]
    shown_rows = rows[:limit]
    log = lane.log.read(name, lane.name, {(row.generation, row.epoch) for row in shown_rows})
    last = shown_rows[-1] if len(rows) > limit else None
    return {
        "lane": name,
        "lanes": lanes,
        "total": total,
        "epochs": [_epoch(row) | _logged(row, log) for row in shown_rows],
        "generations": with_ends(generations, log.events, newest),
        "plans": plans,
        "older": None if last is None else f"{last.generation}.{last.epoch}",
        "events": [one.document() for one in log.events[-PAGE_LINES:]],
        "steps_from": lane.log.where,
    }


def epoch(lane: ServedLane, asked: Parameters) -> Document:
    """One epoch of the ledger: span, counts, steps, what the checkpoint's files say, and what went into quarantine."""
    key = key_of(asked.text("key"))
    if key is None:
        raise NoSuchThing("an epoch's address is its generation and number, like 3.41")
    with translated("reading the ledger"), lane.engine.connect() as connection:
        name = lane.in_ledger(connection, asked.text("of"))
        history = EpochHistory(lane.schema, name)
        row = history.find(connection, key)
        if row is None:
            raise NoSuchThing(f"the ledger of lane {name} has no epoch {key.epoch} of generation {key.generation}")
        older = history.page(connection, EpochFilter(), 1, key)
        newer = history.after(connection, key)
        generations = history.generations(connection, key.generation, key.generation)
        checkpoint = Ledger(lane.schema, name).checkpoints(connection).get(key.generation)
    log = lane.log.read(name, lane.name, {(key.generation, key.epoch)})
    logged = log.epochs.get((key.generation, key.epoch))
    return {
        "lane": name,
        **_epoch(row),
        **_logged(row, log),
        "steps_from": lane.log.where,
        "began_at": logged and logged.began_at,
        "visible_at": logged and logged.visible_at,
        "ahead_ms": logged and ahead_ms(logged),
        "last_message": row.last_message,
        "read": row.read_position,
        "generation_row": generation_document(generations[0]) if generations else None,
        "checkpoint": _checkpoint_times(lane.settings, key.epoch, checkpoint),
        "older": f"{older[0].generation}.{older[0].epoch}" if older else None,
        "newer": None if newer is None else f"{newer.generation}.{newer.epoch}",
    }


def _checkpoint_times(settings: Settings, epoch: int, checkpoint: str | None) -> Document:
    if settings.goes_ahead:
        return NO_TIMES | {"trouble": "the lane goes ahead of its checkpoint, and numbers its epochs by itself"}
    return checkpoint_times(settings.checkpoint, epoch, checkpoint)


def _epoch(row: Row[Any]) -> Document:
    return figures(EpochSummary.of(row)) | {
        "key": f"{row.generation}.{row.epoch}",
        "plan": row.plan,
        "start": row.start_position,
        "end": row.end_position,
        **{count: getattr(row, count) for count in COUNTS},
        "source_from": row.source_from and row.source_from.isoformat(),
        "source_to": row.source_to and row.source_to.isoformat(),
    }


def _logged(row: Row[Any], log: LaneLog) -> Document:
    """What the log adds to an epoch, and what is out of the ordinary about it."""
    key = (row.generation, row.epoch)
    found = log.epochs.get(key)
    return {
        "steps": None if found is None else found.steps,
        "timeline": None if found is None else timeline(found),
        "marks": list(_marks(row, log.fallbacks.get(key), log.settled.get(key))),
    }


def _marks(row: Row[Any], unapplied: str | None, settled: str | None) -> Iterator[Document]:
    fallback = [f"not applied as staged: {unapplied}"] if unapplied is not None else []
    fallback += [f"{OrderPlan.DELETES_FIRST} was refused: {row.plan}"] if row.plan in FALLBACKS else []
    if fallback:
        yield {"mark": "fallback", "said": "; ".join(fallback)}
    if row.duplicate:
        yield {"mark": "replay", "said": "a new process planned it again; the target had it"}
    if settled is not None:
        yield {"mark": "settled", "said": f"prepared when its process ended; {settled}"}


def figures(of: EpochSummary) -> Document:
    return {
        "generation": of.generation,
        "epoch": of.epoch,
        "applied_at": of.applied_at.isoformat(),
        "consumed": of.consumed,
        "freshness_seconds": of.freshness_seconds,
    }


def key_of(text: str | None) -> EpochKey | None:
    if text is None:
        return None
    generation, _, number = text.partition(".")
    if not (generation.isdecimal() and number.isdecimal() and max(len(generation), len(number)) <= 18):
        return None
    return EpochKey(int(generation), int(number))
