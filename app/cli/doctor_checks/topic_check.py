"""Check of a lane over several topics whose target has foreign keys between their tables: how many messages may be held
back, and how far apart the topics are."""

from app.apply.foreign_keys import between_tables
from app.cli.doctor_checks.finding import Finding, fault, ok, warn
from app.cli.doctor_checks.table_check import SHOWN
from app.config.routes import Routes
from app.config.settings import Order, Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import SurelaneError
from app.kafka.broker import Broker
from app.model.offsets import Offsets, Position, TopicPartition

#: most topics whose next message is read; a lane may have hundreds
SAMPLED_PARTITIONS = 50
_SECOND_MS, _HOUR_MS = 1000, 3600 * 1000


def topics(settings: Settings, position: Offsets | None) -> list[Finding]:
    """None where Kafka or target cannot be reached: their own checks report that."""
    if settings.source.order is not Order.TOTAL:
        return []
    if position and (removed := _removed(settings, position)):
        words = " ".join(f"--allow-non-restored topics:{name}" for name in removed)
        problem = f"the ledger has a position of {', '.join(removed)}, which source.topics does not name"
        return [fault("topics", problem, f"name it again; or surelane run {words}, which keeps its position")]
    try:
        with Broker(settings.source) as broker:
            partitions = broker.partitions()
            if len(partitions) < 2:
                return []
            keys = _foreign_keys(settings)
            apart = _apart(broker, position) if keys and position else None
    except SurelaneError:
        return []
    return [_finding(len(partitions), keys, settings.epoch.max_held_messages, apart)] if keys else []


def _removed(settings: Settings, position: Offsets) -> list[str]:
    """Topics that a start refuses to leave out."""
    named = settings.source.topics
    return sorted({tp.topic for tp in position if named and tp.topic not in named})


def _foreign_keys(settings: Settings) -> list[str]:
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane doctor")
    with translated("looking for foreign keys"), engine.connect() as connection:
        return between_tables(connection, Routes(settings.target.tables))


def _apart(broker: Broker, position: Offsets) -> str | None:
    """The two topics whose next messages are furthest apart, by Kafka's timestamps; None: fewer than two have one."""
    times: dict[TopicPartition, int] = {}
    ends = broker.ends(position)
    for tp in [tp for tp, offset in position.items() if offset < ends[tp]][:SAMPLED_PARTITIONS]:
        found = broker.messages(Position(*tp, position[tp]), 1)
        if found and found[0].timestamp_ms is not None:
            times[tp] = found[0].timestamp_ms
    if len(times) < 2:
        return None
    first, last = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
    unread = ", ".join(f"{tp} {ends[tp] - position[tp]}" for tp in (first, last))
    younger = _length(times[last] - times[first])
    return f"the next message of {last} is {younger} younger than that of {first}; {unread} left"


def _finding(count: int, keys: list[str], limit: int, apart: str | None) -> Finding:
    some = ", ".join(keys[:SHOWN]) + (f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else "")
    what = f"{count} topics, and foreign keys between their tables ({some})"
    if not limit:
        return warn(
            "foreign keys",
            f"{what}: a row that comes before the one that it refers to goes into quarantine",
            "set epoch.max_held_messages above 0, or let Debezium route all tables into one topic",
        )
    waits = f"{what}: what is from later in the source waits, {limit} messages at most (epoch.max_held_messages)"
    return ok("foreign keys", f"{waits}; {apart}" if apart else waits)


def _length(milliseconds: int) -> str:
    if milliseconds < _HOUR_MS:
        return f"{milliseconds / _SECOND_MS:.0f} s"
    return f"{milliseconds / _HOUR_MS:.1f} h"
