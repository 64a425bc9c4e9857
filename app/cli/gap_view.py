"""Gaps as documents and as text."""

from collections.abc import Iterator, Sequence

from app.cli.rendering import Document, moment, offsets
from app.recover.gap import Found, Gap

_ACCEPTED = ("id", "lane", "generation", "from_position", "to_position", "missing", "reason", "os_user", "host")


def gaps_document(found: Found, done: Sequence[tuple[Gap, int]]) -> Document:
    """`done`: the gaps that this call accepted, and their numbers."""
    return {
        "lanes": [_gap(one) for one in found.gaps],
        "done": [{**_gap(gap), "gap": number} for gap, number in done],
        "accepted": [
            {**{name: getattr(row, name) for name in _ACCEPTED}, "at": row.at.isoformat()} for row in found.accepted
        ],
    }


def _gap(gap: Gap) -> Document:
    return {
        "lane": gap.lane,
        "is_one": gap.is_one,
        "description": gap.describe(),
        "position": gap.position.nested(),
        "onward": gap.onward.nested(),
        "deleted": {str(tp): {"first": first, "last": last} for tp, (first, last) in gap.deleted.items()},
        "rewritten": {str(tp): words for tp, words in gap.rewritten.items()},
        "anew": {name: {"was": was, "is": now} for name, (was, now) in gap.anew.items()},
        "cluster": None if gap.cluster is None else {"was": gap.cluster[0], "is": gap.cluster[1]},
        "messages_at_most": gap.missing,
        "behind": gap.behind,
    }


def gaps_text(document: Document) -> Iterator[str]:
    return _done(document) if document["done"] else _lines(document)


def _lines(document: Document) -> Iterator[str]:
    for one in document["lanes"]:
        position, onward = offsets(one["position"]), offsets(one["onward"])
        if one["is_one"]:
            yield f"lane {one['lane']}: missing: {one['description']}"
            yield f"  the target ends at {position}; Kafka has {onward}, at most {one['behind']} messages to replay"
        else:
            yield f"lane {one['lane']}: nothing is missing, Kafka has everything from {position} on"
    for row in document["accepted"]:
        who = f"{row['os_user']}@{row['host']}"
        yield f"gap {row['id']} of lane {row['lane']}, accepted {moment(row['at'])} by {who}: {row['reason']}"
        yield f"  {offsets(row['from_position'])} to {offsets(row['to_position'])}, {_missing(row['missing'])}"
    if any(one["is_one"] for one in document["lanes"]):
        yield 'nothing was changed. To go on behind it: surelane recover gap --accept --reason "..."'


def _done(document: Document) -> Iterator[str]:
    for one in document["done"]:
        yield f"lane {one['lane']}: gap {one['gap']} accepted, {_missing(one['messages_at_most'])}"
        yield f"  goes on at {offsets(one['onward'])}, at most {one['behind']} messages to replay. Next: surelane run"


def _missing(missing: int | None) -> str:
    return "an unknown number of messages" if missing is None else f"at most {missing} messages"
