"""Reads what a query wrote to files and to a topic, as a program of its user does."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from confluent_kafka import Consumer, KafkaError, TopicPartition

from app.config.queries import FileFormat
from tests.fix_target import Target
from tests.fix_topic import Topic

_POLL_SECONDS = 5.0
_LEDGER = """
    select generation, epoch, (start_position -> :topic ->> '0')::bigint, (end_position -> :topic ->> '0')::bigint
    from surelane.ledger where lane = :lane and epoch >= 0
"""


def epochs(path: Path) -> list[Path]:
    """Folders that a reader sees."""
    return sorted(one for one in path.glob("*") if not one.name.startswith(".")) if path.is_dir() else []


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of an epoch."""
    return [row for file in sorted(folder.iterdir()) for row in _rows(file)]


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if file.name.endswith(FileFormat.PARQUET):
        yield from pyarrow.parquet.read_table(file).to_pylist()
        return
    with pa.CompressedInputStream(pa.OSFile(str(file)), "zstd") as stream:
        yield from (json.loads(line) for line in stream.read().splitlines())


def offsets_of(topic: Topic) -> list[int]:
    """Of the messages with a value."""
    return [one.position.offset for one in topic.sent if one.message.value]


def read_by_epoch(target: Target, lane: str, topic: Topic) -> dict[str, list[int]]:
    """Of each epoch in the ledger, by the name of its folder: offsets of the messages with a value."""
    rows = target.execute(_LEDGER, lane=lane, topic=topic.name)
    offsets = offsets_of(topic)
    return {
        f"{generation:06d}-{epoch:012d}": offsets[bisect_left(offsets, start or 0) : bisect_left(offsets, end)]
        for generation, epoch, start, end in map(tuple, rows)
    }


def messages_of(topic: Topic) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Keys and values of the committed messages of a topic of one partition, in order."""
    settings = {"bootstrap.servers": topic.kafka.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": "false", "enable.partition.eof": "true"})
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    found: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    try:
        while (message := consumer.poll(_POLL_SECONDS)) is not None:
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            key, value = message.key(), message.value()
            found.append((None if key is None else json.loads(key), None if value is None else json.loads(value)))
    finally:
        consumer.close()
    raise AssertionError("the end of the topic was not reached")
