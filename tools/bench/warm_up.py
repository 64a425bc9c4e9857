"""Warms the broker up: its JVM was just started, and compiles what it runs often for minutes, on the same processors.

Without it the systems that are measured first share the processors with that. Each request that a steady load makes is
made some ten thousand times: produce, fetch, and the question for a partition's end.
"""

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from tools.bench.servers import Servers

TOPIC = "bench.warm-up"
SECONDS = 45.0
_VALUE = b"x" * 800
_WAIT_SECONDS = 10.0


def warm_up(servers: Servers) -> int:
    """Returns how many messages went through."""
    servers.empty_topic(TOPIC)
    producer = Producer({"bootstrap.servers": servers.bootstrap, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": servers.bootstrap, "group.id": TOPIC, "enable.auto.commit": False})
    place, passed, until = TopicPartition(TOPIC, 0, 0), 0, time.monotonic() + SECONDS
    try:
        consumer.assign([place])
        while time.monotonic() < until:
            producer.produce(TOPIC, _VALUE, partition=0)
            producer.poll(0)
            consumer.get_watermark_offsets(place, timeout=_WAIT_SECONDS)
            passed += sum(message.error() is None for message in consumer.consume(100, timeout=0))
        if not passed or producer.flush(_WAIT_SECONDS):
            raise RuntimeError(f"no message of topic {TOPIC} came through")
    finally:
        consumer.close()
    return passed
