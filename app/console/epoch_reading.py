"""The ledger's epochs: a page of them, and one with all that is known of it."""

from typing import Any

from sqlalchemy import Row

from app.cli.rendering import Document
from app.console.epoch_log import EpochLog
from app.console.epoch_times import checkpoint_times
from app.console.parameters import PAGE_LINES, NoSuchThing, Parameters
from app.console.served_lanes import ServedLane
from app.db.sqlstate import translated
from app.ledger.epoch_history import EpochFilter, EpochHistory, EpochKey
from app.ledger.held_lanes import lanes_there
from app.ledger.ledger_tables import COUNTS
from app.ledger.store import Ledger


def epochs(lane: ServedLane, asked: Parameters) -> Document:
    """A page of the ledger, the newest first, with the generations that wrote it, and steps where they are known."""
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
    return figures(row) | {
        "key": f"{row.generation}.{row.epoch}",
        "plan": row.plan,
        "start": row.start_position,
        "end": row.end_position,
        **{count: getattr(row, count) for count in COUNTS},
        "source_from": row.source_from and row.source_from.isoformat(),
        "source_to": row.source_to and row.source_to.isoformat(),
    }


def figures(row: Row[Any]) -> Document:
    """`freshness_seconds`: from the newest change's commit in the source to the target."""
    fresh = None if row.source_to is None else max(0.0, (row.applied_at - row.source_to).total_seconds())
    return {
        "generation": row.generation,
        "epoch": row.epoch,
        "applied_at": row.applied_at.isoformat(),
        "consumed": row.consumed,
        "freshness_seconds": None if fresh is None else round(fresh, 3),
    }


def _generation(row: Row[Any]) -> Document:
    plain = {name: getattr(row, name) for name in ("generation", "checkpoint", "delivery", "host", "pid")}
    return plain | {"started_at": row.started_at.isoformat()}


def key_of(text: str | None) -> EpochKey | None:
    if text is None:
        return None
    generation, _, number = text.partition(".")
    if not (generation.isdecimal() and number.isdecimal() and max(len(generation), len(number)) <= 18):
        return None
    return EpochKey(int(generation), int(number))
