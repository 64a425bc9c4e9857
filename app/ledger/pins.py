"""Compares cluster and topics with the pins of a lane."""

from collections.abc import Mapping

from app.errors import TopicChanged


def check_pins(lane: str, cluster: tuple[str | None, str], pinned: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises TopicChanged where cluster or a topic has another id. `cluster`: pinned id (None: not pinned), and now."""
    was, is_ = cluster
    if was not in (None, is_):
        raise TopicChanged.of(f"pinned to Kafka cluster {was}, source.bootstrap_servers names cluster {is_}", lane=lane)
    for name, topic_id in now.items():
        if pinned.get(name, topic_id) != topic_id:
            raise TopicChanged.of(
                f"topic {name} was deleted and created again (id {pinned[name]}, now {topic_id})", lane=lane
            )
