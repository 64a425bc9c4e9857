"""A workload as a Kafka topic, and as COPY files for the ceiling; created once and kept with the stack's data."""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tools.bench.servers import Servers
from tools.bench.shape import Shape
from tools.bench.tables import BEGIN_MICROS, Expected, Row, Table
from tools.bench.workload import SEED, Workload, end_of, key_of, transaction_of, value_of

#: changes in a transaction of the ceiling, whose best counts
CHUNK_SIZES = (50_000, 100_000, 250_000)
#: changes in the fingerprint that decides whether a kept backlog is still valid
_SAMPLE = 1000
#: the same where rows may be long
_SHORT = 50
_PRODUCER = {"compression.type": "lz4", "linger.ms": 50, "batch.size": 1_000_000, "acks": 1}
_FLUSH_SECONDS = 60.0
Delivered = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One table's changes of a range of messages, compacted to the last of each key, sorted by key, as COPY text."""

    table: Table
    upserts: bytes
    deletes: bytes


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """A topic with one partition of changes."""

    shape: Shape
    messages: int
    #: sum of all message values
    value_bytes: int
    topic: str
    #: the right content by table name
    expected: Mapping[str, Expected]
    folder: Path
    #: changes in a transaction of the ceiling: those that there are files of
    sizes: Sequence[int]

    @property
    def tables(self) -> Sequence[Table]:
        """The changed tables; the workload's last change is in the first of them."""
        return self.shape.made

    def chunks(self, size: int) -> list[list[Chunk]]:
        """The same changes for the ceiling; each inner list is one transaction of `size` changes."""
        folders = sorted(self.folder.glob(f"chunk-{size}-*"))
        return [[_chunk(folder, table) for table in self.tables] for folder in folders]


def prepare(servers: Servers, shape: Shape, messages: int, sizes: Sequence[int] = CHUNK_SIZES) -> Backlog:
    """Return the backlog; create it unless it exists with the same parameters. `sizes`: changes in a transaction of the
    ceiling; for each of them there are COPY files, which need as much disk as the topic."""
    topic = f"bench.{shape.name}.{messages}.{_fingerprint(shape, sizes)}" + ("" if sizes else ".topic-only")
    folder = servers.data_dir / "backlogs" / topic
    result = folder / "made.json"
    if not (result.exists() and servers.stack.kafka.has_topic(topic)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        servers.empty_topic(topic)
        workload = Workload(shape, messages)
        value_bytes = _make(servers.bootstrap, topic, workload, shape, folder, sizes)
        expected = {name: dataclasses.asdict(one) for name, one in workload.expected().items()}
        result.write_text(json.dumps({"value_bytes": value_bytes, "expected": expected}))
    kept = json.loads(result.read_text())
    return Backlog(
        shape=shape,
        messages=messages,
        value_bytes=kept["value_bytes"],
        topic=topic,
        expected={name: Expected(**one) for name, one in kept["expected"].items()},
        folder=folder,
        sizes=sizes,
    )


def forget(servers: Servers, backlog: Backlog) -> None:
    """Delete the topic and the files."""
    shutil.rmtree(backlog.folder, ignore_errors=True)
    servers.stack.kafka.delete_topic(backlog.topic)


def _fingerprint(shape: Shape, sizes: Sequence[int]) -> str:
    sample = [value_of(change, 0, 0) for change in Workload(shape, _SAMPLE if shape.row_bytes is None else _SHORT)]
    return hashlib.sha256(f"{SEED}{sizes}{sample}".encode()).hexdigest()[:8]


def _make(bootstrap: str, topic: str, workload: Workload, shape: Shape, folder: Path, sizes: Sequence[int]) -> int:
    """Fill the topic, and the folder with chunks of each size; returns the bytes of all values."""
    producer = Producer({"bootstrap.servers": bootstrap, **_PRODUCER})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        failed.extend([error] if error else [])

    chunks: dict[int, dict[int, Row | None]] = {size: {} for size in sizes}
    value_bytes = ordinal = 0
    for ordinal, change in enumerate(workload):
        block = transaction_of(ordinal) if shape.in_transactions else "null"
        value = value_of(change, ordinal, BEGIN_MICROS + ordinal * 1000, block)
        _send(producer, topic, value, key_of(change), delivered)
        value_bytes += len(value)
        for size, chunk in chunks.items():
            chunk[change.number] = change.after
            if (ordinal + 1) % size == 0:
                _write(folder / f"chunk-{size}-{ordinal:010d}", workload.tables, chunk)
                chunk.clear()
    for size, chunk in chunks.items():
        _write(folder / f"chunk-{size}-last", workload.tables, chunk)
    if shape.in_transactions:
        _send(producer, topic, end_of(ordinal, workload.tables[0]), None, delivered)
    if producer.flush(_FLUSH_SECONDS) or failed:
        raise RuntimeError(f"topic {topic} could not be filled: {failed[:3]}")
    return value_bytes


def _send(producer: Producer, topic: str, value: str, key: str | None, delivered: Delivered) -> None:
    while True:
        try:
            return producer.produce(topic, value, key, partition=0, on_delivery=delivered)
        except BufferError:  # the producer's queue is full
            producer.poll(0.1)


def _write(folder: Path, tables: Sequence[Table], chunk: Mapping[int, Row | None]) -> None:
    folder.mkdir()
    upserts: dict[str, list[str]] = {table.name: [] for table in tables}
    deletes: dict[str, list[str]] = {table.name: [] for table in tables}
    for number, row in sorted(chunk.items()):
        table = tables[number % len(tables)]
        if row is None:
            deletes[table.name].append(f"{number // len(tables)}\n")
        else:
            upserts[table.name].append(table.line(row))
    for table in tables:
        for file, lines in zip(_files(folder, table), (upserts, deletes), strict=True):
            file.write_text("".join(lines[table.name]))


def _chunk(folder: Path, table: Table) -> Chunk:
    upserts, deletes = _files(folder, table)
    return Chunk(table=table, upserts=upserts.read_bytes(), deletes=deletes.read_bytes())


def _files(folder: Path, table: Table) -> tuple[Path, Path]:
    return folder / f"{table.name}.upserts", folder / f"{table.name}.deletes"
