"""Warms the broker up: its JVM was just started, and compiles what it runs often for minutes, on the same processors.

Without it the systems that are measured first share the processors with that. Each request that a steady load makes is
made some ten thousand times: produce, fetch, and the question for a partition's end. A backlog is read through.
"""

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from tools.bench.backlog import Backlog
from tools.bench.servers import Servers

TOPIC = "bench.warm-up"
SECONDS = 45.0
_VALUE = b"x" * 800
_WAIT_SECONDS = 10.0
#: how often a backlog is read, and messages of one call
_READS, _AT_ONCE = 2, 10_000


def warm_up(servers: Servers) -> int:
    """Returns how many messages went through."""
    servers.empty_topic(TOPIC)
    producer = Producer({"bootstrap.servers": servers.bootstrap, "linger.ms": 0})
    consumer = _consumer(servers)
    place, passed, until = TopicPartition(TOPIC, 0, 0), 0, time.monotonic() + SECONDS
    try:
        consumer.assign([place])
        while time.monotonic() < until:
            producer.produce(TOPIC, _VALUE, partition=0)
            producer.poll(0)
            consumer.get_watermark_offsets(place, timeout=_WAIT_SECONDS)
            passed += _consumed(consumer, 100, 0)
        if not passed or producer.flush(_WAIT_SECONDS):
            raise RuntimeError(f"no message of topic {TOPIC} came through")
    finally:
        consumer.close()
    return passed


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
    return Consumer({"bootstrap.servers": servers.bootstrap, "group.id": TOPIC, "enable.auto.commit": False})


def _consumed(consumer: Consumer, limit: int, wait_seconds: float) -> int:
    """How many messages came."""
    return sum(message.error() is None for message in consumer.consume(limit, timeout=wait_seconds))
