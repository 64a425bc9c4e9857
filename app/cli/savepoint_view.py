"""Savepoints as JSON documents, and as text made from them."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType

from app.cli.rendering import Document, facts_table, grid, moment, offsets
from app.cli.replayable_view import replayable_text
from app.cli.snapshot_view import lanes_text
from app.savepoint.compatibility import ItemResult
from app.savepoint.fingerprint import fingerprint
from app.savepoint.savepoint import Savepoint


def savepoint_document(one: Savepoint) -> Document:
    return {**one.as_json(), "fingerprint": fingerprint(one.items)}


def created_text(document: Document) -> Iterator[str]:
    yield f"{document['name']}: {document['folder']}"
    yield f"  position {offsets(document['position'])}"


def listed_text(document: Document) -> Iterator[RenderableType]:
    reach, columns = document.get("replayable"), ["name", "lane", "made", "position", "surelane", "snapshot"]
    if reach is not None:
        columns.append("replayable")
    rows = [
        (
            one["name"],
            one["lane"],
            moment(one["made_at"]),
            offsets(one["position"]),
            one["versions"]["surelane"],
            _snapshot(one),
            *([] if reach is None else [replayable_text(reach.get(one["name"]))]),
        )
        for one in document["savepoints"]
    ]
    if rows:
        yield grid(columns, rows)
    else:
        yield f"there is no savepoint in {document['directory']}"
    yield from (f"{name}: cannot be used: {why}" for name, why in document["broken"].items())


def shown_text(one: Document) -> Iterator[RenderableType]:
    yield facts_table(
        {
            "name": one["name"],
            "made": moment(one["made_at"]),
            "position": offsets(one["position"]),
            "lanes": "\n".join(lanes_text(one["lanes"])),
            "cluster": one["cluster_id"] or "not pinned",
            "topics": ", ".join(f"{name} ({topic_id})" for name, topic_id in one["topics"].items()) or "none",
            "quarantine": "\n".join(map(_quarantine, one["lanes"])),
            "snapshot": _snapshot(one),
            "state": ", ".join(one["state"]) or "none",
            "versions": ", ".join(f"{name} {value}" for name, value in one["versions"].items()),
            "configuration": one["fingerprint"],
        }
    )


def verified_text(document: Document) -> Iterator[str]:
    problem = document["problem"]
    yield f"{document['name']}: {'whole' if problem is None else f'cannot be used: {problem}'}"


def checked_document(name: str, results: Sequence[ItemResult]) -> Document:
    return {"name": name, "fits": not any(one.blocks for one in results), "items": list(map(vars, results))}


def checked_text(document: Document) -> Iterator[RenderableType]:
    yield grid(
        ("item", "result", "why"), [(one["item"], one["compatibility"], one["why"]) for one in document["items"]]
    )


def _quarantine(one: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in one["quarantine"].items() if count) or "none"
    return f"{one['lane']}: {counts}; {len(one['parked'])} keys wait; {one['suspects']} suspects"


def _snapshot(one: Document) -> str:
    return "none" if one["snapshot"] is None else one["snapshot"]["name"]
