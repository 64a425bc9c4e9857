"""Reads a backlog through, so that the broker is warm: its JVM was just started, and compiles what it runs often.

Without it the systems that are drained first share the processors with that.
"""

from confluent_kafka import Consumer, TopicPartition

from tools.bench.backlog import Backlog
from tools.bench.servers import Servers

GROUP = "bench.warm-up"
_WAIT_SECONDS = 10.0
#: how often a backlog is read, and messages of one call
_READS, _AT_ONCE = 2, 10_000


def read_through(servers: Servers, filled: Backlog) -> None:
    """Read the whole backlog, as a program does that makes nothing of it. Raises RuntimeError where it ends early."""
    consumer = _consumer(servers)
    try:
        for _ in range(_READS):
            consumer.assign([TopicPartition(filled.topic, 0, 0)])
            left = filled.messages
            while left > 0:
                if not (found := _consumed(consumer, min(left, _AT_ONCE), _WAIT_SECONDS)):
                    raise RuntimeError(f"topic {filled.topic} has {left:,} messages less than it should")
                left -= found
    finally:
        consumer.close()


def _consumer(servers: Servers) -> Consumer:
    return Consumer({"bootstrap.servers": servers.bootstrap, "group.id": GROUP, "enable.auto.commit": False})


def _consumed(consumer: Consumer, limit: int, wait_seconds: float) -> int:
    """How many messages came."""
    return sum(message.error() is None for message in consumer.consume(limit, timeout=wait_seconds))
