"""Filling a topic."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

#: settings of a producer: many messages at once; each at once. A request for each message would load the broker more
#: than all that is measured, so librdkafka's default for lingering is kept
BULK: Mapping[str, object] = {"compression.type": "lz4", "linger.ms": 50, "batch.size": 1_000_000}
PROMPT: Mapping[str, object] = {"compression.type": "none", "linger.ms": 5}
_FLUSH_SECONDS = 60.0
#: takes a value and its key
Send = Callable[[str, str | None], None]


@contextmanager
def filling(bootstrap: str, topic: str, settings: Mapping[str, object] = BULK) -> Iterator[Send]:
    """A function that sends a message to the topic's only partition. The end of the block waits until all are
    delivered, and raises RuntimeError if one is not."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, **settings})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        failed.extend([error] if error else [])

    def send(value: str, key: str | None) -> None:
        producer.poll(0)
        while True:
            try:
                return producer.produce(topic, value, key, partition=0, on_delivery=delivered)
            except BufferError:  # the producer's queue is full
                producer.poll(0.1)

    yield send
    if producer.flush(_FLUSH_SECONDS) or failed:
        raise RuntimeError(f"topic {topic} could not be filled: {failed[:3]}")
