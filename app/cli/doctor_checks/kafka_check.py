"""Checks of Kafka: it is reachable, the topics exist, keep the lane's order, and keep messages long enough."""

from collections.abc import Mapping

from app.cli.doctor_checks.finding import Finding, failed, fault, ok, warn
from app.config.settings import Order, Settings
from app.errors import EnvironmentMissing, SurelaneError
from app.kafka.broker import Broker, Retention, TopicInfo
from app.model.offsets import Offsets

#: retention below which doctor warns: an outage of the target over a weekend should lose no messages
RETENTION_WARN_MS = 3 * 24 * 3600 * 1000
_HOUR_MS = 3600 * 1000


def kafka(settings: Settings, position: Offsets | None) -> list[Finding]:
    """All checks of Kafka; `position` is the ledger's, None: not known."""
    try:
        with Broker(settings.source) as broker:
            return _answers(broker, settings, position)
    except SurelaneError as error:
        return [failed("kafka", error)]


def _answers(broker: Broker, settings: Settings, position: Offsets | None) -> list[Finding]:
    reachable = ok("kafka", f"cluster {broker.cluster_id()} at {settings.source.bootstrap_servers}")
    try:
        topics = broker.topics()
    except EnvironmentMissing as error:
        return [reachable, failed("topics", error)]
    found = ok("topics", ", ".join(f"{name} ({info.partitions})" for name, info in topics.items()))
    kept = [retention(name, broker.retention(name)) for name in topics]
    ordered = order(settings.source.order, topics, settings.epoch.max_held_messages)
    return [reachable, found, *ordered, *kept, *still_there(broker, position)]


def order(wanted: Order, topics: Mapping[str, TopicInfo], held: int) -> list[Finding]:
    """Whether the topics can keep the order `wanted`; `held`: messages that may be held back for another topic."""
    if wanted is Order.PARTITION:
        return [_by_partition(*next(iter(topics.items())))]
    several = [name for name, info in topics.items() if info.partitions > 1]
    findings = [_too_many_partitions(name, topics[name].partitions) for name in several]
    if len(topics) > 1:
        findings.append(_several_topics(len(topics), held))
    return findings or [ok("order", "one topic with one partition: total order")]


def _too_many_partitions(name: str, count: int) -> Finding:
    return fault(
        "order",
        f"{name} has {count} partitions: no order between them, and order: total needs it",
        "write order: partition (a lane for each), or let Debezium route into a topic with one partition",
    )


def _several_topics(count: int, limit: int) -> Finding:
    if limit:
        return ok("order", f"{count} topics share the lane: applied in the order of the source's commits")
    return warn(
        "order",
        f"{count} topics share the lane: merged by source position within an epoch, but across epochs only the order"
        " within each topic is certain; a row may be seen before the row of another table it refers to",
        "set epoch.max_held_messages above 0, or route all tables into one topic with one partition (Debezium: "
        "RegexRouter)",
    )


def _by_partition(name: str, info: TopicInfo) -> Finding:
    if info.partitions == 1:
        return ok("order", f"{name} has one partition: order: partition makes one lane")
    return warn(
        "order",
        f"{name}: {info.partitions} lanes, each ordered; nothing is promised between different partitions",
        "partition by primary key (Debezium's default) and have no foreign keys in the target, or write order: total",
    )


def retention(topic: str, kept: Retention) -> Finding:
    """Whether the topic keeps messages longer than an outage of the target lasts."""
    if kept.compacted:
        message = f"{topic} is compacted: older changes of a row disappear, also before they were applied"
        return warn("retention", message, "set cleanup.policy=delete; final rows stay right, their history does not")
    if kept.milliseconds is not None and kept.milliseconds < RETENTION_WARN_MS:
        message = (
            f"{topic} keeps messages for {kept.milliseconds / _HOUR_MS:g} h: an outage longer than that loses some"
        )
        return warn("retention", message, f"set retention.ms={RETENTION_WARN_MS} or more")
    if kept.bytes is not None:
        message = f"{topic} keeps {kept.bytes:,} bytes a partition: a burst may push out what was not applied"
        return warn("retention", message, "set retention.bytes=-1 and limit by time")
    days = "without limit" if kept.milliseconds is None else f"for {kept.milliseconds / _HOUR_MS / 24:g} days"
    return ok("retention", f"{topic} keeps messages {days}")


def still_there(broker: Broker, position: Offsets | None) -> list[Finding]:
    """Whether Kafka has everything from the ledger's position on."""
    if not position:
        return []
    marks = broker.watermarks(broker.partitions())
    gone = [
        f"{tp}: next is {position[tp]}, Kafka has {mark.low}..{mark.high}"
        for tp, mark in marks.items()
        if tp in position and not mark.low <= position[tp] <= mark.high
    ]
    if gone:
        hint = "surelane recover gap, which says what is missing; then ops/runbooks/retention-exceeded.md"
        return [fault("position", "; ".join(gone), hint)]
    return [ok("position", f"Kafka holds everything from {position} on")]
