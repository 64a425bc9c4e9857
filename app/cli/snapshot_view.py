"""Snapshots as documents, tables and text."""

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from sqlalchemy.engine import URL

from app.cli.rendering import Document, age, byte_size, facts_table, grid, moment, offsets
from app.cli.replayable_view import replayable_text
from app.model.gid import Gid
from app.snapshot.driver import Restored
from app.snapshot.manifest import Manifest
from app.snapshot.snapshot_directory import Listing, StoredSnapshot
from app.snapshot.snapshots import Made

_COLUMNS = ("name", "driver", "lane", "made", "age", "size", "position", "in doubt")
_REPLAYABLE = "replayable"


def snapshot_document(stored: StoredSnapshot) -> Document:
    """Its manifest and its folder."""
    manifest = stored.manifest
    return {
        **manifest.as_json(),
        **position_document(manifest),
        "actual": manifest.actual.as_json() if manifest.actual else None,
        "prepared": [vars(one) for one in manifest.prepared],
        "folder": str(stored.folder),
    }


def position_document(manifest: Manifest) -> Document:
    """`last_position`: how far the content may reach; null where `position` is exact."""
    last = None if manifest.exact else manifest.content.last
    position, last_position = manifest.seen.position.nested(), last and last.position.nested()
    return {"exact": manifest.exact, "position": position, "last_position": last_position}


def made_document(made: Made) -> Document:
    return snapshot_document(made.stored) | {"deleted": made.deleted, "trouble": made.trouble}


def listing_document(found: Listing, directory: Path) -> Document:
    return {
        "snapshots": [snapshot_document(one) for one in found.snapshots],
        "unfinished": found.unfinished,
        "broken": [{"name": name, "why": why} for name, why in found.broken],
        "directory": str(directory),
    }


def verified_document(stored: StoredSnapshot, faults: list[str]) -> Document:
    name, manifest = stored.manifest.name, snapshot_document(stored)
    return {"name": name, "sound": not faults, "faults": faults, "manifest": manifest}


def restored_document(stored: StoredSnapshot, restored: Restored) -> Document:
    """`url` is without the password: programs have it already; `shown` marks its place. `foreign`: gids of other
    programs."""
    manifest, seen = stored.manifest, restored.seen
    return {
        "name": manifest.name,
        "driver": manifest.driver.value,
        **url_document(restored.url),
        "before": restored.before,
        "position": seen.position.nested() if seen else None,
        "lanes": [one.as_json() for one in seen.lanes] if seen else None,
        "prepared": [vars(one) for one in seen.prepared] if seen else None,
        "foreign": [one.gid for one in seen.prepared if not _is_of(manifest, one.gid)] if seen else None,
        "trouble": restored.trouble,
        "manifest": snapshot_document(stored),
    }


def url_document(url: URL) -> Document:
    return {"url": url.set(password=None).render_as_string(), "shown": url.render_as_string(hide_password=True)}


def _is_of(manifest: Manifest, text: str) -> bool:
    gid = Gid.parse(text)
    return gid is not None and gid.is_of(manifest.lane)


def listing_text(document: Document) -> Iterator[RenderableType]:
    now = datetime.datetime.now(datetime.UTC)
    reach, columns = document.get(_REPLAYABLE), _COLUMNS
    if reach is not None:
        columns = (*_COLUMNS, _REPLAYABLE)
    rows = [
        (
            one["name"],
            one["driver"],
            one["lane"],
            moment(one["made_at"]),
            age((now - datetime.datetime.fromisoformat(one["made_at"])).total_seconds()),
            byte_size(one["bytes"]),
            position_text(one),
            str(len(one["prepared"]) or "none"),
            *([] if reach is None else [replayable_text(reach.get(one["name"]))]),
        )
        for one in document["snapshots"]
    ]
    yield grid(columns, rows) if rows else f"there is no snapshot in {document['directory']}"
    for name in document["unfinished"]:
        yield f"{name}: is being made, or its process died over it (the next create clears it away then)"
    for one in document["broken"]:
        yield f"{one['name']}: cannot be used: {one['why']}"


def verified_text(document: Document) -> Iterator[RenderableType]:
    one, faults = document["manifest"], document["faults"]
    server = one["server"]
    lines = {
        "name": one["name"],
        "driver": f"{one['driver']}, {one['program']}",
        "made": f"{moment(one['made_at'])} to {moment(one['ended_at'])}",
        "server": f"PostgreSQL {server['version']}, max_prepared_transactions {server['max_prepared_transactions']}",
        "database": server["database"],
        "size": f"{byte_size(one['bytes'])}, {one['files']} files",
        "position": position_text(one),
        "lanes": "\n".join(lanes_text((one["actual"] or one["first"])["lanes"])) or "none",
        "in doubt": "\n".join(_prepared(one["prepared"])) or "none",
        "topics": ", ".join(f"{name} ({topic_id})" for name, topic_id in one["topics"].items()) or "none",
    }
    yield facts_table(lines)
    yield from faults
    yield f"{one['name']}: {f'{len(faults)} faults' if faults else 'sound'}"


def made_text(document: Document) -> list[str]:
    begun, ended = (datetime.datetime.fromisoformat(document[name]) for name in ("made_at", "ended_at"))
    seconds = (ended - begun).total_seconds()
    lines = [
        f"{document['name']}: {byte_size(document['bytes'])} in {seconds:.1f} s, {document['folder']}",
        f"  position {position_text(document)}",
    ]
    lines += [f"  in doubt meanwhile: {line}" for line in _prepared(document["prepared"])]
    lines += [f"  deleted for it: {name}" for name in document["deleted"]]
    if document["trouble"]:
        lines.append(f"  not on record in the target, so no metric knows it: {document['trouble']}")
    return lines


def restored_text(document: Document) -> list[str]:
    """The restored snapshot, and the next commands."""
    lines = [f"{document['name']}: restored {'before, ' if document['before'] else ''}at {document['shown']}"]
    if document["lanes"] is None:
        lines.append(f"  its ledger could not be read: {document['trouble']}")
        lines.append(f"  it is at {position_text(document['manifest'])}; call restore again to read it")
    else:
        lines += [f"  {line}" for line in lanes_text(document["lanes"])]
        lines += [f"  in doubt: {line}" for line in _prepared(document["prepared"])]
    steps = [
        "stop the lane if it runs, and set target.url to the restored one",
        "is all of it there?   surelane doctor",
    ]
    if foreign := ", ".join(document["foreign"] or ()):
        steps.append(f"other programs' prepared transactions hold locks here, too ({foreign}): surelane indoubt list")
    steps += [
        "go on from its ledger: surelane recover --from-ledger (rolls nothing back yet)",
        "replay:                surelane run (rolls back what came along prepared, and applies it anew)",
    ]
    lines += ["next:", *(f"  {number}. {step}" for number, step in enumerate(steps, 1))]
    return lines


def position_text(document: Document) -> str:
    """Of a `position_document`: the exact position, or the two that it lies between."""
    first, last = document["position"], document["last_position"]
    return offsets(first) if last in (None, first) else f"{offsets(first)} to {offsets(last)}"


def lanes_text(found: Sequence[Document]) -> list[str]:
    """Positions of lanes (`LanePosition.as_json`), a line each."""
    return [
        f"lane {one['lane']}: {offsets(one['applied'])}, generation {one['generation']}, epoch {one['epoch']}"
        + ("" if one["read"] == one["applied"] else f", read to {offsets(one['read'])}")
        for one in found
    ]


def _prepared(found: Sequence[Document]) -> list[str]:
    return [f"{one['gid']} in {one['database']}, by {one['owner']}, since {one['prepared_at']}" for one in found]
