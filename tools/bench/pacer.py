"""A source at a steady rate: each change is sent when its time has come, and carries that time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from tools.bench.shape import Shape
from tools.bench.tables import Expected
from tools.bench.workload import Kind, Workload, key_of, value_of

#: as librdkafka itself has it: a request for each message would keep the broker busier than anything that is measured
_LINGER_MS = 5
#: seconds slept at least: what has become due meanwhile is sent together
_TICK_SECONDS = 0.002
_PRODUCER = {"linger.ms": _LINGER_MS, "acks": 1, "compression.type": "none"}
_FLUSH_SECONDS = 60.0
#: what is sent unless it is said
SHAPE = Kind.UNIFORM.shape


@dataclass(frozen=True, kw_only=True)
class Paced:
    """What was sent; the index is the message's ordinal, in a topic of its own also its offset."""

    #: source commit time of each message, seconds since 1970
    sent_at: NDArray[np.float64]
    #: by table
    expected: Mapping[str, Expected]


def pace(bootstrap: str, topic: str, rate: int, count: int, shape: Shape = SHAPE) -> Paced:
    """Send `count` changes, `rate` a second. To be run in a process of its own: whoever looks must not slow it down."""
    producer = Producer({"bootstrap.servers": bootstrap, **_PRODUCER})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        failed.extend([error] if error else [])

    workload = Workload(shape, count)
    sent_at = np.zeros(count, np.float64)
    begin = time.time()
    for ordinal, change in enumerate(workload):
        ahead = begin + ordinal / rate - time.time()
        if ahead > 0:
            time.sleep(max(ahead, _TICK_SECONDS))
        sent_at[ordinal] = now = time.time()
        value = value_of(change, ordinal, int(now * 1_000_000))
        producer.produce(topic, value, key_of(change), partition=0, on_delivery=delivered)
        producer.poll(0)
    if producer.flush(_FLUSH_SECONDS) or failed:
        raise RuntimeError(f"topic {topic} could not be filled: {failed[:3]}")
    return Paced(sent_at=sent_at, expected=workload.expected())
