"""Gaps as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Row

from app.cli.rendering import printable, utc
from app.model.offsets import Offsets
from app.recover.gap import Found, Gap

Done = Sequence[tuple[Gap, int]]


def gaps_json(found: Found, done: Done) -> dict[str, Any]:
    return {
        "lanes": [_as_json(one) for one in found.gaps],
        "done": [{"lane": gap.lane, "gap": number} for gap, number in done],
        "accepted": [_row_as_json(row) for row in found.accepted],
    }


def gaps_text(found: Found, done: Done) -> str:
    return printable("\n".join(_done(done) if done else _lines(found)))


def _lines(found: Found) -> Iterator[str]:
    for one in found.gaps:
        if not one.is_one:
            yield f"lane {one.lane}: nothing is missing, Kafka has everything from {one.position} on"
            continue
        yield f"lane {one.lane}: missing: {one.describe()}"
        yield f"  the target ends at {one.position}; Kafka has {one.onward}, at most {one.behind} messages to replay"
    for row in found.accepted:
        yield f"gap {row.id} of lane {row.lane}, accepted {utc(row.at)} by {_who(row)}: {row.reason}"
        yield f"  {_position(row.from_position)} to {_position(row.to_position)}, {_missing(row.missing)}"
    if any(one.is_one for one in found.gaps):
        yield 'nothing was changed. To go on behind it: surelane recover gap --accept --reason "..."'


def _done(done: Done) -> Iterator[str]:
    for gap, number in done:
        yield f"lane {gap.lane}: gap {number} accepted, {_missing(gap.missing)}"
        yield f"  goes on at {gap.onward}, at most {gap.behind} messages to replay. Next: surelane run"


def _missing(missing: int | None) -> str:
    return "nobody knows how many messages" if missing is None else f"at most {missing} messages"


def _who(row: Row[Any]) -> str:
    return f"{row.os_user}@{row.host}"


def _position(nested: Any) -> Offsets:
    return Offsets.from_nested(nested)


def _as_json(gap: Gap) -> dict[str, Any]:
    return {
        "lane": gap.lane,
        "is_one": gap.is_one,
        "position": gap.position.nested(),
        "onward": gap.onward.nested(),
        "deleted": {str(tp): {"first": first, "last": last} for tp, (first, last) in gap.deleted.items()},
        "rewritten": {str(tp): words for tp, words in gap.rewritten.items()},
        "anew": {name: {"was": was, "is": now} for name, (was, now) in gap.anew.items()},
        "cluster": None if gap.cluster is None else {"was": gap.cluster[0], "is": gap.cluster[1]},
        "messages_at_most": gap.missing,
        "behind": gap.behind,
    }


def _row_as_json(row: Row[Any]) -> dict[str, Any]:
    names = ("id", "lane", "generation", "from_position", "to_position", "missing", "reason", "os_user", "host")
    return {**{name: getattr(row, name) for name in names}, "at": row.at.isoformat()}
