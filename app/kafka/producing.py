"""What every producer of Surelane's has: settings, and a topic that has to exist.

A request for a topic by name may create it, with any number of partitions and any retention.
"""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from app.errors import ConfigInvalid, EnvironmentMissing

#: an operator may override these
DEFAULTS = {
    "partitioner": "murmur2_random",  # as Java's clients do, Kafka Connect among them
    "message.max.bytes": "1000000000",  # the broker decides what is too large
}


def make_producer(config: Mapping[str, Any], option: str, on_error: Callable[[KafkaError], None]) -> Producer:
    """`option`: where the operator's settings are. Raises ConfigInvalid for those that the client does not know."""
    try:
        return Producer({**config, "error_cb": on_error, "log_level": 0})
    except KafkaException as error:
        raise ConfigInvalid(
            f"{option}: {error.args[0].str()}",
            hint="these are settings of librdkafka's producer, not of Java's: see its CONFIGURATION.md",
        ) from None


def check_topic(producer: Producer, name: str, option: str, create: str, timeout: float) -> None:
    """`option` names the topic; `create`: how to create it. Raises EnvironmentMissing where it does not exist,
    KafkaException."""
    topic = producer.list_topics(timeout=timeout).topics.get(name)
    if topic is None or topic.error is not None:
        raise EnvironmentMissing(
            f"Kafka has no topic {name} ({option})", hint=f"kafka-topics.sh --create --topic {name} {create}"
        )
