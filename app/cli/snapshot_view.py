"""Snapshots as tables, text and JSON."""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.table import Table

from app.cli.rendering import age, byte_size, facts_table, grid, printable, utc
from app.model.gid import Gid
from app.snapshot.driver import Restored
from app.snapshot.manifest import InDoubtTransaction, Manifest, TargetView
from app.snapshot.snapshot_directory import StoredSnapshot
from app.snapshot.snapshots import Made


def as_json(stored: StoredSnapshot) -> dict[str, Any]:
    """A snapshot for `--json`: its manifest and its folder."""
    manifest = stored.manifest
    return {
        **manifest.as_json(),
        "exact": manifest.exact,
        "position": manifest.seen.position.nested(),
        "actual": manifest.actual.as_json() if manifest.actual else None,
        "folder": str(stored.folder),
    }


def restored_json(stored: StoredSnapshot, restored: Restored) -> dict[str, Any]:
    """A restore for `--json`, without the password: programs have it already."""
    return {
        "name": stored.manifest.name,
        "driver": stored.manifest.driver.value,
        "url": restored.url.set(password=None).render_as_string(),
        "before": restored.before,
        "position": restored.seen.position.nested() if restored.seen else None,
        "lanes": [one.as_json() for one in restored.seen.lanes] if restored.seen else None,
        "prepared": [vars(one) for one in restored.seen.prepared] if restored.seen else None,
        "trouble": restored.trouble,
    }


def listed(found: Iterable[StoredSnapshot]) -> Table:
    """A line for each snapshot."""
    now = datetime.datetime.now(datetime.UTC)
    rows = [
        (
            one.name,
            one.driver.value,
            one.lane,
            utc(one.made_at),
            age((now - one.made_at).total_seconds()),
            byte_size(one.bytes),
            position(one),
            str(len(one.prepared)) if one.prepared else "none",
        )
        for one in (stored.manifest for stored in found)
    ]
    return grid(("name", "driver", "lane", "made", "age", "size", "position", "in doubt"), rows)


def facts(stored: StoredSnapshot) -> Table:
    """The facts of a snapshot's manifest."""
    one, server = stored.manifest, stored.manifest.content.server
    lines = {
        "name": one.name,
        "driver": f"{one.driver}, {one.content.program}",
        "made": f"{utc(one.made_at)} to {utc(one.ended_at)}",
        "server": f"PostgreSQL {server.version}, max_prepared_transactions {server.max_prepared_transactions}",
        "database": server.database,
        "size": f"{byte_size(one.bytes)}, {one.files} files",
        "position": position(one),
        "lanes": "\n".join(_lanes(one.seen)) or "none",
        "in doubt": "\n".join(_prepared(one.prepared)) or "none",
        "topics": ", ".join(f"{name} ({topic_id})" for name, topic_id in one.topics.items()) or "none",
    }
    return facts_table(lines)


def made_text(made: Made) -> str:
    """The created snapshot."""
    one = made.stored.manifest
    seconds = (one.ended_at - one.made_at).total_seconds()
    lines = [
        f"{one.name}: {byte_size(one.bytes)} in {seconds:.1f} s, {made.stored.folder}",
        f"  position {position(one)}",
    ]
    lines += [f"  in doubt meanwhile: {line}" for line in _prepared(one.prepared)]
    lines += [f"  deleted for it: {name}" for name in made.deleted]
    if made.trouble:
        lines.append(f"  not on record in the target, so no metric knows it: {made.trouble}")
    return printable("\n".join(lines))


def restored_text(stored: StoredSnapshot, restored: Restored) -> str:
    """The restored snapshot, and the next commands."""
    one, url = stored.manifest, restored.url.render_as_string(hide_password=True)
    lines = [f"{one.name}: restored {'before, ' if restored.before else ''}at {url}"]
    if restored.seen is None:
        lines.append(f"  its ledger could not be read: {restored.trouble}")
        lines.append(f"  it is at {position(one)}; call restore again to read it")
    else:
        lines += [f"  {line}" for line in _lanes(restored.seen)]
        lines += [f"  in doubt: {line}" for line in _prepared(restored.seen.prepared)]
    lines += ["next:", *_next(one, restored)]
    return printable("\n".join(lines))


def position(one: Manifest) -> str:
    """The snapshot's exact position, or the two that it lies between."""
    first, last = str(one.seen.position), one.content.last
    if one.exact or last is None or last.position == one.seen.position:
        return first
    return f"{first} to {last.position}"


def _next(one: Manifest, restored: Restored) -> Iterator[str]:
    """The next steps, numbered."""
    steps = [
        "stop the lane if it runs, and set target.url to the restored one",
        "is all of it there?   surelane doctor",
    ]
    prepared = restored.seen.prepared if restored.seen else ()
    foreign = [found.gid for found in prepared if not _is_of(one, found.gid)]
    if foreign:
        steps.append(
            f"other programs' prepared transactions hold locks here, too ({', '.join(foreign)}): surelane indoubt list"
        )
    steps += [
        "go on from its ledger: surelane recover --from-ledger (rolls nothing back yet)",
        "replay:                surelane run (rolls back what came along prepared, and applies it anew)",
    ]
    yield from (f"  {number}. {step}" for number, step in enumerate(steps, 1))


def _is_of(one: Manifest, text: str) -> bool:
    gid = Gid.parse(text)
    return gid is not None and gid.lane.partition(".")[0] == one.lane


def _lanes(seen: TargetView) -> list[str]:
    return [
        f"lane {one.lane}: {one.applied}, generation {one.generation}, epoch {one.epoch}"
        + ("" if one.read == one.applied else f", read to {one.read}")
        for one in seen.lanes
    ]


def _prepared(found: Sequence[InDoubtTransaction]) -> list[str]:
    return [f"{one.gid} in {one.database}, by {one.owner}, since {one.prepared_at}" for one in found]
