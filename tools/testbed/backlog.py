"""A workload as a Kafka topic, and as COPY text for the ceiling; created once and kept with the stack's data."""

import dataclasses
import hashlib
import json
import pickle
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tools.testbed.servers import Servers
from tools.testbed.tables import BEGIN_MICROS, Expected, Row, Table
from tools.testbed.topic import filling
from tools.testbed.workload import SEED, Shape, Workload, end_of, key_of, transaction_of, value_of

#: changes in a transaction of the ceiling, whose best counts
CHUNK_SIZES = (50_000, 100_000, 250_000)
#: of what is kept; another number when that changes
_FORMAT = 2
#: changes in the fingerprint that decides whether a kept backlog is still valid
_SAMPLE = 1000
#: the same where rows may be long
_SHORT = 50
#: how often a backlog is read so that the broker is warm, messages of one call, and seconds until they come
_READS, _AT_ONCE, _WAIT_SECONDS = 2, 10_000, 10.0


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One table's changes of a range of messages, compacted to the last of each key, sorted by key, as COPY text."""

    table: int
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

    def chunks(self, size: int) -> Iterator[list[Chunk]]:
        """The same changes for the ceiling; each list is one transaction of `size` changes."""
        with _chunk_file(self.folder, size).open("rb") as file:
            while file.peek(1):
                yield pickle.load(file)


def prepare(servers: Servers, shape: Shape, messages: int, sizes: Sequence[int] = CHUNK_SIZES) -> Backlog:
    """Return the backlog; create it unless it exists with the same parameters. `sizes`: changes in a transaction of the
    ceiling; for each of them there is a file, which needs as much disk as the topic."""
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


def read_through(servers: Servers, filled: Backlog) -> None:
    """Read the whole backlog, as a program does that makes nothing of it, so that the broker is warm: its JVM was just
    started, and compiles what it runs often, at the cost of the system that is drained first."""
    consumer = Consumer({"bootstrap.servers": servers.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    try:
        for _ in range(_READS):
            consumer.assign([TopicPartition(filled.topic, 0, 0)])
            left = filled.messages
            while left > 0:
                found = consumer.consume(min(left, _AT_ONCE), timeout=_WAIT_SECONDS)
                left -= sum(message.error() is None for message in found)
                if not found:
                    raise RuntimeError(f"topic {filled.topic} has {left:,} messages less than it should")
    finally:
        consumer.close()


def _fingerprint(shape: Shape, sizes: Sequence[int]) -> str:
    sample = [value_of(change, 0, 0) for change in Workload(shape, _SAMPLE if shape.row_bytes is None else _SHORT)]
    return hashlib.sha256(f"{_FORMAT}{SEED}{sizes}{sample}".encode()).hexdigest()[:8]


def _chunk_file(folder: Path, size: int) -> Path:
    return folder / f"chunks-{size}"


def _make(bootstrap: str, topic: str, workload: Workload, shape: Shape, folder: Path, sizes: Sequence[int]) -> int:
    """Fill the topic, and a file with chunks of each size; returns the bytes of all values."""
    chunks: dict[int, dict[int, Row | None]] = {size: {} for size in sizes}
    value_bytes = ordinal = 0
    with filling(bootstrap, topic) as send, ExitStack() as opened:
        files = {size: opened.enter_context(_chunk_file(folder, size).open("wb")) for size in sizes}
        for ordinal, change in enumerate(workload):
            block = transaction_of(ordinal) if shape.in_transactions else "null"
            value = value_of(change, ordinal, BEGIN_MICROS + ordinal * 1000, block)
            send(value, key_of(change))
            value_bytes += len(value)
            for size, chunk in chunks.items():
                chunk[change.number] = change.after
                if (ordinal + 1) % size == 0:
                    pickle.dump(_chunks(workload.tables, chunk), files[size])
                    chunk.clear()
        for size, chunk in chunks.items():
            pickle.dump(_chunks(workload.tables, chunk), files[size])
        if shape.in_transactions:
            send(end_of(ordinal, workload.tables[0]), None)
    return value_bytes


def _chunks(tables: Sequence[Table], rows: Mapping[int, Row | None]) -> list[Chunk]:
    """One for each table, of rows by number."""
    upserts: list[list[str]] = [[] for _ in tables]
    deletes: list[list[str]] = [[] for _ in tables]
    for number, row in sorted(rows.items()):
        key, table = divmod(number, len(tables))
        if row is None:
            deletes[table].append(f"{key}\n")
        else:
            upserts[table].append(tables[table].line(row))
    texts = zip(upserts, deletes, strict=True)
    return [
        Chunk(table=table, upserts="".join(new).encode(), deletes="".join(gone).encode())
        for table, (new, gone) in enumerate(texts)
    ]
