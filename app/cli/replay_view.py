"""Replays as documents and as text."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from app.cli.rendering import Document, offsets, position
from app.replay.replay import Replayed

#: most skipped messages listed one by one
SHOWN = 10


def replayed_document(done: Replayed, config: Path | None) -> Document:
    """`verify`: the command that compares the target with the replay."""
    place = done.place
    verify = ["surelane", "verify", *(["--config", str(config)] if config else [])]
    verify += ["--against", place.shown, "--same-names"] if place.is_elsewhere else ["--against-schema", place.shown]
    return {
        "lane": done.mark.lane,
        "into": place.shown,
        "schema": place.own,
        "from": done.mark.start.nested(),
        "to": done.mark.goal.nested(),
        "position": done.position.nested(),
        "held": done.held,
        "messages": done.counts.as_dict(),
        "messages_of_call": done.messages,
        "seconds": round(done.seconds, 3),
        "skipped": done.skips.as_json(),
        "left_out": list(done.left_out),
        "verify": shlex.join(verify),
    }


def replayed_text(document: Document) -> Iterator[str]:
    start, goal, held = offsets(document["from"]), offsets(document["to"]), document["held"]
    yield f"lane {document['lane']}, replayed into {document['into']}: from {start} to {goal}"
    messages, seconds = document["messages_of_call"], document["seconds"]
    rate = f", {messages / seconds:,.0f}/s" if messages and seconds else ""
    counts = ", ".join(f"{count:,} {name}" for name, count in document["messages"].items() if count)
    yield f"{counts or 'there was nothing in it'}; this call: {messages:,} in {seconds:,.1f} s{rate}"
    if held:
        yield (
            f"applied up to {offsets(document['position'])}: {held:,} messages behind it wait for the rest of a source "
            "transaction, or of a changed key, which is not before --to"
        )
    yield from _skipped(document["skipped"])
    yield from (f"not made: {one}" for one in document["left_out"])
    yield f"next: {document['verify']}"


def _skipped(skips: Document) -> Iterator[str]:
    if not skips["by_lane"] and not skips["by_replay"]:
        return
    yield f"skipped in this range: {skips['by_lane']:,} by the lane, {skips['by_replay']:,} by the replay"
    for what, found in (
        ("skipped by the lane, applied here", skips["only_by_lane"]),
        ("applied by the lane, skipped here", skips["only_by_replay"]),
    ):
        for one in found[:SHOWN]:
            yield f"  {what}: {position(one)} {one['table'] or ''} ({one['state']})"
        if len(found) > SHOWN:
            yield f"  ... and {len(found) - SHOWN:,} more"
