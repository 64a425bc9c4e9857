"""Until when snapshots and savepoints can be replayed from, as documents and text."""

import datetime
import math
from collections.abc import Iterable

from app.cli.rendering import Document, moment
from app.config.settings import Settings
from app.errors import SurelaneError
from app.kafka.broker import Broker
from app.kafka.replayable import replayable
from app.model.offsets import Offsets
from app.recover.archive_reach import archive_reach

#: newest ones for which Kafka is asked
REPLAYABLE_SHOWN = 10


def replayable_documents(settings: Settings, broker: Broker, listed: Iterable[Document]) -> dict[str, Document]:
    """Of the newest REPLAYABLE_SHOWN of `listed`, which have a name and a position, the oldest first; fewer where Kafka
    is away."""
    found: dict[str, Document] = {}
    for one in list(listed)[-REPLAYABLE_SHOWN:]:
        found[one["name"]] = _replayable(settings, broker, Offsets.from_nested(one["position"]))
        if found[one["name"]]["ok"] is None:
            break  # each would wait as long
    return found


def _replayable(settings: Settings, broker: Broker, position: Offsets) -> Document:
    """`ok` is null where Kafka is away. `until`: at the earliest, Kafka deletes a message that is needed; null: see
    `limit`."""
    try:
        there = broker.partitions()
        found = replayable(broker, position.only(there), archive_reach(settings, position))
    except SurelaneError as error:
        return {"ok": None, "messages_at_most": None, "until": None, "limit": None, "trouble": error.message}
    missing = sorted(str(tp) for tp in position if tp not in there)
    seconds = found.headroom_seconds
    until = None
    if found.ok and math.isfinite(seconds):
        until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)).isoformat(
            timespec="seconds"
        )
    return {
        "ok": found.ok and not missing,
        "messages_at_most": found.messages,
        "until": until,
        "limit": "none" if math.isinf(seconds) else "not known" if math.isnan(seconds) else "time",
        "trouble": f"Kafka has no {', '.join(missing)}" if missing else None,
    }


def replayable_text(one: Document | None) -> str:
    if one is None:
        return "not asked"
    if one["ok"] is None:
        return f"not known: {one['trouble']}"
    if not one["ok"]:
        return f"no: {one['trouble'] or 'Kafka has deleted messages behind it'}"
    if one["until"] is not None:
        return f"until {moment(one['until'])}"
    return "without limit of time" if one["limit"] == "none" else "yes; for how long is not known"
