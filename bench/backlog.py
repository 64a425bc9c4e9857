"""A workload as a Kafka topic, and as COPY files for the ceiling; made once and kept with the stack's data."""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from bench.servers import Servers
from bench.workload import BEGIN_MICROS, SEED, Change, Expected, Kind, Row, Workload, key_of, value_of

#: changes in one file of the ceiling: as many as an epoch has at most unless told otherwise
CHUNK_CHANGES = 50_000
#: changes that tell whether a kept backlog is what this program would make
_SAMPLE = 1000
_PRODUCER = {"compression.type": "lz4", "linger.ms": 50, "batch.size": 1_000_000, "acks": 1}
_FLUSH_SECONDS = 60.0
Delivered = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Changes of `CHUNK_CHANGES` messages, folded to the last of each key, sorted by key, as COPY text."""

    upserts: bytes
    deletes: bytes


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """One partition full of changes."""

    kind: Kind
    messages: int
    topic: str
    expected: Expected
    folder: Path

    def chunks(self) -> list[Chunk]:
        """The same changes for the ceiling."""
        return [
            Chunk(upserts=(folder / "upserts").read_bytes(), deletes=(folder / "deletes").read_bytes())
            for folder in sorted(self.folder.glob("chunk-*"))
        ]


def prepare(servers: Servers, kind: Kind, messages: int) -> Backlog:
    """The backlog; made if it is not there with the same parameters."""
    topic = f"bench.{kind}.{messages}.{_fingerprint(kind)}"
    folder = servers.data_dir / "backlogs" / topic
    result = folder / "expected.json"
    if not (result.exists() and servers.stack.kafka.has_topic(topic)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if servers.stack.kafka.has_topic(topic):
            servers.stack.kafka.delete_topic(topic)
        servers.stack.kafka.create_topic(topic)
        expected = _make(servers.bootstrap, topic, folder, Workload(kind, messages))
        result.write_text(json.dumps(dataclasses.asdict(expected)))
    expected = Expected(**json.loads(result.read_text()))
    return Backlog(kind=kind, messages=messages, topic=topic, expected=expected, folder=folder)


def _fingerprint(kind: Kind) -> str:
    sample = [value_of(change, 0, 0) for change in Workload(kind, _SAMPLE)]
    return hashlib.sha256(f"{SEED}{CHUNK_CHANGES}{sample}".encode()).hexdigest()[:8]


def _make(bootstrap: str, topic: str, folder: Path, workload: Workload) -> Expected:
    producer = Producer({"bootstrap.servers": bootstrap, **_PRODUCER})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        failed.extend([error] if error else [])

    chunk: dict[int, Row | None] = {}
    for ordinal, change in enumerate(workload):
        _send(producer, topic, change, ordinal, delivered)
        chunk[change.key] = change.after
        if (ordinal + 1) % CHUNK_CHANGES == 0:
            _write(folder / f"chunk-{ordinal:010d}", chunk)
            chunk = {}
    _write(folder / "chunk-last", chunk)
    if producer.flush(_FLUSH_SECONDS) or failed:
        raise RuntimeError(f"topic {topic} could not be filled: {failed[:3]}")
    return Expected.of(workload.table.values())


def _send(producer: Producer, topic: str, change: Change, ordinal: int, delivered: Delivered) -> None:
    value = value_of(change, ordinal, BEGIN_MICROS + ordinal * 1000)
    while True:
        try:
            producer.produce(topic, value, key_of(change), partition=0, on_delivery=delivered)
            return
        except BufferError:  # the queue is full
            producer.poll(0.1)


def _write(folder: Path, chunk: dict[int, Row | None]) -> None:
    folder.mkdir()
    upserts = ["\t".join((str(row.id), *row[1:])) + "\n" for _, row in sorted(chunk.items()) if row is not None]
    deletes = [f"{key}\n" for key, row in sorted(chunk.items()) if row is None]
    (folder / "upserts").write_text("".join(upserts))
    (folder / "deletes").write_text("".join(deletes))
