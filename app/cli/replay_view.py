"""Replays as text and as JSON."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.cli.rendering import printable
from app.replay.destination import RebuildPlace
from app.replay.replay import Replayed
from app.replay.skip_comparison import ReplaySkips

#: most skipped messages listed one by one
SHOWN = 10


def as_json(done: Replayed, config: Path | None) -> dict[str, Any]:
    return {
        "lane": done.mark.lane,
        "into": done.place.shown,
        "schema": done.place.own,
        "from": done.mark.start.nested(),
        "to": done.mark.goal.nested(),
        "position": done.position.nested(),
        "held": done.held,
        "messages": done.counts.as_dict(),
        "seconds": round(done.seconds, 3),
        "skipped": done.skips.as_json(),
        "left_out": list(done.left_out),
        "verify": verify_command(done.place, config),
    }


def replayed_text(done: Replayed, config: Path | None) -> str:
    return printable("\n".join(_lines(done, config)))


def verify_command(place: RebuildPlace, config: Path | None) -> str:
    """The command that compares the target with the replay."""
    words = ["surelane", "verify", *(["--config", str(config)] if config else [])]
    words += ["--against", place.shown, "--same-names"] if place.is_elsewhere else ["--against-schema", place.shown]
    return shlex.join(words)


def _lines(done: Replayed, config: Path | None) -> Iterator[str]:
    yield f"lane {done.mark.lane}, replayed into {done.place.shown}: from {done.mark.start} to {done.mark.goal}"
    rate = f", {done.messages / done.seconds:,.0f}/s" if done.messages and done.seconds else ""
    counts = ", ".join(f"{count:,} {name}" for name, count in done.counts.as_dict().items() if count)
    yield f"{counts or 'there was nothing in it'}; this call: {done.messages:,} in {done.seconds:,.1f} s{rate}"
    if done.held:
        yield (
            f"applied up to {done.position}: {done.held:,} messages behind it wait for the rest of a source "
            "transaction, or of a changed key, which is not before --to"
        )
    yield from _skipped(done.skips)
    yield from (f"not made: {one}" for one in done.left_out)
    yield f"next: {verify_command(done.place, config)}"


def _skipped(skips: ReplaySkips) -> Iterator[str]:
    if not skips.there and not skips.here:
        return
    yield f"skipped in this range: {len(skips.there):,} by the lane, {len(skips.here):,} by the replay"
    for what, found in (
        ("skipped by the lane, applied here", skips.only_there),
        ("applied by the lane, skipped here", skips.only_here),
    ):
        yield from (f"  {what}: {one.position} {one.table or ''} ({one.state})" for one in found[:SHOWN])
        if len(found) > SHOWN:
            yield f"  ... and {len(found) - SHOWN:,} more"
