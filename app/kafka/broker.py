"""Metadata and single messages of the Kafka cluster: identity, topics, watermarks, retention.

`app.kafka.spans` reads the messages of an epoch; this is for everything around it (start offsets, lag, doctor, error
messages). Watermarks are those of a `read_committed` reader: behind an open transaction nothing can be applied yet.
Topics are looked up among the existing ones, because a request for a missing topic by name may create it.
"""

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
)
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from app.config.settings import SourceSettings, StartAt
from app.errors import ConfigInvalid, EnvironmentMissing, LogTruncated, OffsetMissing, Unreachable
from app.kafka.client import client_config
from app.kafka.error_codes import ELECTED, GONE, TRUNCATED, Complaint, unreachable
from app.kafka.librdkafka import ASSIGNED
from app.model.last import LastMessage
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, TopicPartition

#: a broker that is up answers in milliseconds; a restarting one needs a few seconds
REQUEST_TIMEOUT_SECONDS = 10.0
#: longest wait for messages that should exist
FETCH_TIMEOUT_SECONDS = 10.0
#: offsets before an end that are searched for its last message: markers of transactions hold none
LOOK_BACK_OFFSETS = 16
#: between the first two requests for the new leader; then longer
ELECTION_LOOK_SECONDS = 0.1
_T = TypeVar("_T")
_Futures = dict[KafkaPartition, "concurrent.futures.Future[ListOffsetsResultInfo]"]


@dataclass(frozen=True, kw_only=True)
class TopicInfo:
    """Identity and size of a topic."""

    #: Kafka's id; a topic that is deleted and created again has another one
    topic_id: str
    partitions: int


def ids_of(topics: Mapping[str, TopicInfo]) -> dict[str, str]:
    """Kafka's id of each topic."""
    return {name: info.topic_id for name, info in topics.items()}


class Watermarks(NamedTuple):
    """Offset of the oldest message kept, and of the next one that a read_committed reader will see."""

    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long a topic keeps messages; None: without limit."""

    milliseconds: int | None
    bytes: int | None
    #: log compaction removes older messages of a key
    compacted: bool


class Broker:
    """Connection to the cluster of `source`; use as a context manager or call `close`."""

    def __init__(self, source: SourceSettings) -> None:
        self._source = source
        self._config = client_config(source)
        self._complaint = Complaint()
        self._open_admin: AdminClient | None = AdminClient(self._client())
        self._consumer: Consumer | None = None
        #: lanes of several partitions share this connection, and a consumer reads one position at a time
        self._reading = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._close_reader()
        self._open_admin = None

    @property
    def _admin(self) -> AdminClient:
        assert self._open_admin is not None, "not closed"
        return self._open_admin

    def cluster_id(self) -> str:
        return str(self._metadata().cluster_id)

    def topics(self) -> dict[str, TopicInfo]:
        """The configured topics; raises EnvironmentMissing when one does not exist (yet)."""
        names = self._names(self._existing())
        futures = self._admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_SECONDS)
        return {name: _info(self._answer(future)) for name, future in futures.items()}

    def topic_ids(self) -> dict[str, str]:
        """Kafka's id of each topic that `topics` has."""
        return ids_of(self.topics())

    def ask_identity(self, names: Iterable[str]) -> Callable[[], tuple[str, dict[str, TopicInfo]]]:
        """Request cluster id and topics now; the result waits for the answer. It raises Unreachable without one, and
        EnvironmentMissing for a topic that is gone."""
        topics = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT_SECONDS)

        def answer() -> tuple[str, dict[str, TopicInfo]]:
            found = {name: _info(self._answer(future)) for name, future in topics.items()}
            try:
                # that of the same answer, or of a newer one; `describe_cluster` ends the process where a broker that
                # stops or starts knows of no broker (librdkafka's assertion `rko_result`)
                return str(self._admin.cluster_id(timeout=0)), found
            except KafkaException as error:
                raise self._refused(error.args[0]) from error

        return answer

    def partitions(self) -> set[TopicPartition]:
        """All partitions of the configured topics."""
        return {TopicPartition(name, p) for name, info in self.topics().items() for p in range(info.partitions)}

    def watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Watermarks]:
        """First and next offset of each partition."""
        wanted = sorted(partitions)
        low = self._offsets(wanted, OffsetSpec.earliest())  # pyright: ignore[reportArgumentType]  # never None, though
        high = self._offsets(wanted, OffsetSpec.latest())  # pyright: ignore[reportArgumentType]  # its type says so
        return {tp: Watermarks(low[tp], high[tp]) for tp in wanted}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Next offset of each partition."""
        return self._offsets(sorted(partitions), OffsetSpec.latest())  # pyright: ignore[reportArgumentType]

    def ask_ends(self, partitions: Iterable[TopicPartition]) -> Callable[[], dict[TopicPartition, int]]:
        """Request the next offset of each partition now; the result waits for the answer, as `ends` does."""
        wanted = sorted(partitions)
        futures = self._request(wanted, OffsetSpec.latest())  # pyright: ignore[reportArgumentType]

        def answer() -> dict[TopicPartition, int]:
            if any(_moved(future.exception()) for future in futures.values()):
                return self.ends(wanted)
            return self._answers(futures)

        return answer

    def offsets_at(self, timestamp_ms: int) -> Offsets:
        """For every partition the first message with this timestamp or a later one; its end, where there is none."""
        wanted = sorted(self.partitions())
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        found = self._offsets(wanted, spec)
        ends = self._offsets(wanted, OffsetSpec.latest())  # pyright: ignore[reportArgumentType]
        return Offsets.of({tp: ends[tp] if found[tp] < 0 else min(found[tp], ends[tp]) for tp in wanted})

    def start_offsets(self, start: StartAt | Offsets) -> Offsets:
        """`source.start` as offsets of every partition; raises ConfigInvalid for offsets that Kafka does not have."""
        marks = self.watermarks(self.partitions())
        if isinstance(start, Offsets):
            return _checked(start, marks)
        return Offsets.of({tp: mark.low if start is StartAt.EARLIEST else mark.high for tp, mark in marks.items()})

    def added_offsets(self, start: StartAt | Offsets, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where partitions begin that an existing lane has not read yet: at the offsets that `start` names, else at the
        first message that Kafka has. Raises ConfigInvalid for offsets that Kafka does not have."""
        marks = self.watermarks(partitions)
        named = start if isinstance(start, Offsets) else Offsets()
        return _checked(Offsets.of({tp: named.get(tp, mark.low) for tp, mark in marks.items()}), marks)

    def retention(self, topic: str) -> Retention:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        futures = self._admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_SECONDS)
        entries = self._answer(futures[resource])
        values = {name: entry.value for name, entry in entries.items()}
        return Retention(
            milliseconds=_limit(values.get("retention.ms")),
            bytes=_limit(values.get("retention.bytes")),
            compacted="compact" in (values.get("cleanup.policy") or ""),
        )

    def message(self, position: Position) -> RawMessage | None:
        """The message at `position`; None where there is none (offsets have gaps)."""
        found = self.messages(position, 1)
        return found[0] if found and found[0].position == position else None

    def last_before(self, tp: TopicPartition, start: int, end: int) -> LastMessage | None:
        """Identity of the last message from `start` to `end`; None: the last offsets hold none, or are deleted."""
        for first in {max(start, end - 1): None, max(start, end - LOOK_BACK_OFFSETS): None}:
            try:
                found = self.messages(Position(*tp, first), end - first)
            except OffsetMissing:
                return None
            before = [one for one in found if one.position.offset < end]
            if before:
                return before[-1].last
        return None

    def check_term(self, position: Position, leader_epoch: int | None) -> None:
        """Raises LogTruncated when the log of that leader epoch ended at or before `position`."""
        if leader_epoch is not None:
            behind = position._replace(offset=position.offset + 1)
            try:
                with self._reading:
                    self._close_reader()  # one that has read the partition before does not check
                    self._messages(behind, 1, FETCH_TIMEOUT_SECONDS, leader_epoch)
            except OffsetMissing as error:  # librdkafka's code for both
                if self.watermarks([position.tp])[position.tp].low <= behind.offset:
                    raise LogTruncated.of(error.message) from error

    def messages(self, start: Position, limit: int, timeout_seconds: float = FETCH_TIMEOUT_SECONDS) -> list[RawMessage]:
        """Up to `limit` messages from `start` on; fewer where the partition ends. Safe from any thread."""
        with self._reading:
            return self._messages(start, limit, timeout_seconds)

    def _messages(
        self, start: Position, limit: int, timeout_seconds: float, leader_epoch: int = -1
    ) -> list[RawMessage]:
        consumer = self._reader()
        consumer.assign([KafkaPartition(start.topic, start.partition, start.offset, leader_epoch=leader_epoch)])
        found: list[RawMessage] = []
        while len(found) < limit:
            message = consumer.poll(timeout_seconds)
            if message is None:
                raise self._unreachable(f"no message within {timeout_seconds:g} s at {start}")
            error = message.error()
            if error is None:
                found.append(raw(message))
            elif error.code() == KafkaError._PARTITION_EOF:  # librdkafka's name
                break
            else:
                raise self._refused(error)
        consumer.unassign()
        return found

    def _client(self) -> dict[str, Any]:
        """Logging is off: twenty lines a second while a broker is away. Our error has the last of them."""
        return {**self._config, "error_cb": self._complaint.note, "log_level": 0}

    def _reader(self) -> Consumer:
        if self._consumer is None:
            own = {
                "group.id": f"surelane-{id(self):x}",  # never joined: partitions are assigned, nothing is committed
                **ASSIGNED,
                "fetch.wait.max.ms": "50",  # report the end of a partition at once, too
                "fetch.queue.backoff.ms": "5",  # with a full queue the next fetch waits so long: a second by default
                "queued.min.messages": "1",  # a few messages are needed, so do not fetch 64 MB ahead
                "fetch.message.max.bytes": "262144",
            }
            self._consumer = Consumer({**self._client(), **own})
        return self._consumer

    def _close_reader(self) -> None:
        if self._consumer:
            self._consumer.close()
            self._consumer = None

    def _existing(self) -> list[str]:
        return [name for name, topic in self._metadata().topics.items() if topic.error is None]

    def _metadata(self) -> ClusterMetadata:
        try:
            return self._admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise self._refused(error.args[0]) from error

    def _names(self, existing: list[str]) -> list[str]:
        if self._source.topic_pattern:
            names = [name for name in existing if self._source.reads(name)]
            if not names:
                raise _missing_topic(f"no topic matches {self._source.topic_pattern}", "TOPIC")
            return names
        missing = sorted(set(self._source.topics) - set(existing))
        if missing:
            raise _missing_topic(f"Kafka has no topic {', '.join(missing)}", missing[0])
        return list(self._source.topics)

    def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        """After an election librdkafka requests with the old leader epoch (its #4620) until it reads the metadata
        again."""
        end, pause = time.monotonic() + REQUEST_TIMEOUT_SECONDS, 0.0
        while True:
            futures = self._request(partitions, spec)
            if not any(_moved(future.exception()) for future in futures.values()) or time.monotonic() + pause > end:
                break
            time.sleep(pause)
            pause = min(2 * pause, 1.0) or ELECTION_LOOK_SECONDS
            if self._lacks({tp.topic for tp in partitions}):
                break  # a deleted topic gets no leader
        return self._answers(futures)

    def _request(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> "_Futures":
        return self._admin.list_offsets(
            {KafkaPartition(tp.topic, tp.partition): spec for tp in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=REQUEST_TIMEOUT_SECONDS,
        )

    def _answers(self, futures: "_Futures") -> dict[TopicPartition, int]:
        return {TopicPartition(tp.topic, tp.partition): self._answer(future).offset for tp, future in futures.items()}

    def _lacks(self, topics: set[str]) -> bool:
        """During an election the metadata can lack the only broker: librdkafka then closes its connections and fails
        the requests on them, this one too; the next has new ones."""
        try:
            return not topics <= set(self._existing())
        except Unreachable:
            return False

    def _answer(self, future: "concurrent.futures.Future[_T]") -> _T:
        try:
            result = future.result()
        except KafkaException as error:
            raise self._refused(error.args[0]) from error
        self._admin.poll(0)  # calls `error_cb`; without it errors pile up
        self._complaint.text = ""
        return result

    def _refused(self, error: KafkaError) -> Exception:
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            problem = f"Kafka does not know the topic or partition: {error.str()}"
            return EnvironmentMissing(problem, hint="`surelane doctor` shows which topics there are")
        if error.code() == TRUNCATED:
            return LogTruncated.of(error.str())
        if error.code() in GONE:
            hint = "retention deleted messages before they were applied: `surelane doctor` shows what Kafka still has"
            return OffsetMissing(f"Kafka does not have this offset: {error.str()}", hint=hint)
        return self._unreachable(error.str())

    def _unreachable(self, what: str) -> Unreachable:
        self._admin.poll(0)
        return unreachable(self._source.bootstrap_servers, what, self._complaint.text)


def raw(message: Message) -> RawMessage:
    """Convert librdkafka's message, which has no error."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise AssertionError("librdkafka gave a message without a position")
    kind, timestamp_ms = message.timestamp()
    return RawMessage(
        position=Position(topic, partition, offset),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, _bytes(value)) for name, value in message.headers() or ()),
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        leader_epoch=message.leader_epoch(),
    )


def _info(found: TopicDescription) -> TopicInfo:
    return TopicInfo(topic_id=str(found.topic_id), partitions=len(found.partitions))


def _moved(error: BaseException | None) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in ELECTED


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _limit(text: str | None) -> int | None:
    return None if text is None or int(text) < 0 else int(text)


def _checked(start: Offsets, marks: Mapping[TopicPartition, Watermarks]) -> Offsets:
    """The given offsets; raises ConfigInvalid unless they are complete and Kafka has them."""
    problems = [f"{tp}: not given (Kafka has {mark.low}..{mark.high})" for tp, mark in marks.items() if tp not in start]
    for tp, offset in start.items():
        mark = marks.get(tp)
        if mark is None:
            problems.append(f"{tp}: no such partition among the configured topics")
        elif not mark.low <= offset <= mark.high:
            problems.append(f"{tp}: offset {offset} is outside what Kafka has, {mark.low}..{mark.high}")
    if problems:
        raise ConfigInvalid(
            "source.start cannot be used:" + "".join(f"\n  {problem}" for problem in problems),
            hint="give one offset for each partition, within what Kafka has, or write start: earliest",
        )
    return start


def _missing_topic(problem: str, name: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        problem,
        hint="Debezium makes it with its first message, so start the connector, or make it now: kafka-topics.sh"
        f" --create --topic {name} --partitions 1 --replication-factor 3 --bootstrap-server HOST:PORT"
        " (one partition keeps the total order)",
    )
