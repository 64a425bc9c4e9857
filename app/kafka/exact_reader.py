"""Exact spans of topics, one after the other: what is common to the ways in which their messages are taken."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException

from app.config.settings import SourceSettings
from app.errors import LogTruncated, MessagesGone, SurelaneError, Unreachable
from app.kafka.client import client_config
from app.kafka.error_codes import GONE, TRUNCATED, Complaint, unreachable
from app.kafka.librdkafka import ASSIGNED
from app.model.last import LastMessage
from app.model.offsets import Offsets, Span, TopicPartition

#: longest wait for messages that should exist
STALL_SECONDS = 30.0
#: longest wait of one call: between calls a read may be given up
WAIT_SECONDS = 0.5
#: messages of one call
AT_ONCE = 10_000
#: reads of a partition whose last message is remembered
_REMEMBERED = 256
_OPTIONS = {
    **ASSIGNED,
    "check.crcs": "true",
    "fetch.wait.max.ms": "25",
    "fetch.message.max.bytes": str(4 << 20),
    "queued.max.messages.kbytes": str(64 << 10),
    # with a full queue the next fetch waits so long: a second by default
    "fetch.queue.backoff.ms": "10",
    "fetch.error.backoff.ms": "100",
}
B_co = TypeVar("B_co", covariant=True)


class ExactReader(ABC, Generic[B_co]):
    """A consumer without a group, which gives batches of type B_co. Used by one thread at a time."""

    def __init__(self, source: SourceSettings, is_unwanted: Callable[[], bool]) -> None:
        """`is_unwanted`: called again and again while a read waits for messages, which gives up when it is true."""
        self._is_unwanted = is_unwanted
        self._servers = source.bootstrap_servers
        self._complaint = Complaint()
        group = {"group.id": f"surelane-{id(self):x}", "log_level": "0"}
        self._config: dict[str, Any] = {**client_config(source), **_OPTIONS, **group}
        #: the next offset that the consumer will return
        self._at: dict[TopicPartition, int] = {}
        #: end of what a reader may see, once the consumer has reached it
        self._ends: dict[TopicPartition, int] = {}
        #: end of a read -> the last message before it
        self._lasts: dict[TopicPartition, dict[int, LastMessage]] = {}

    @abstractmethod
    def close(self) -> None:
        """Close the connections; when no thread reads any more."""

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int] | None = None) -> None:
        """Begin the next read here: it is fetched from now on. `terms`: leader epoch of the message before it; a log in
        which that epoch ended earlier raises LogTruncated when it is read."""
        self._at, self._ends = dict(start), {}
        self._assign(start, terms or {})

    def last(self, tp: TopicPartition, end: int) -> LastMessage | None:
        """The last message before `end`, where a read ended; None: not known. From any thread."""
        return self._lasts.get(tp, {}).get(end)

    def read(self, span: Span) -> list[B_co]:
        """Every message of the span. Raises MessagesGone for offsets that Kafka no longer has, Unreachable when it does
        not answer."""
        if any(self._at.get(tp) != span.start[tp] for tp in span.end if span.end[tp] > span.start[tp]):
            self.go_to(span.start)
        try:
            return self._read(span)
        except KafkaException as error:
            meaning = self._meaning(error.args[0])
            self._at.clear()  # its position is unknown: the next read sets it
            raise meaning from error
        except SurelaneError:
            self._at.clear()
            raise

    @abstractmethod
    def _assign(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        """Fetch from here on, and forget what is fetched."""

    @abstractmethod
    def _read(self, span: Span) -> list[B_co]:
        """Every message of the span, from where the consumer is; raises a KafkaException, too."""

    @abstractmethod
    def _low(self, tp: TopicPartition) -> int:
        """The first offset of the log. Raises KafkaException where the broker does not answer."""

    def _remember(self, tp: TopicPartition, start: int, end: int, last: LastMessage | None) -> None:
        """Remember the last message before `end`: without a message in between, that before `start`."""
        known = self._lasts.setdefault(tp, {})
        last = known.get(start) if last is None else last
        known.pop(end, None)
        if last is not None:
            known[end] = last
        if len(known) > _REMEMBERED:
            known.pop(next(iter(known)))

    def _check_wanted(self) -> None:
        """Raise Unreachable where the read should be given up."""
        if self._is_unwanted():
            raise self._unreachable("the lane no longer waits for it")

    def _heard(self, before: float, partitions: Iterable[TopicPartition], *, came: bool) -> float:
        """Monotonic time at which messages came last: now, or `before`. Raises Unreachable where that is too long ago
        for messages that should exist."""
        now = time.monotonic()
        if not came and now - before > STALL_SECONDS:
            raise self._unreachable(f"no message within {STALL_SECONDS:g} s of {sorted(map(str, partitions))}")
        return now if came else before

    def _meaning(self, error: KafkaError | None, tp: TopicPartition | None = None) -> SurelaneError:
        if error is not None and error.code() == TRUNCATED:
            return LogTruncated.of(error.str())
        if error is not None and error.code() in GONE:
            return self._missing(error, tp)
        return self._unreachable(error.str() if error is not None else "a message without a position")

    def _missing(self, error: KafkaError, tp: TopicPartition | None) -> SurelaneError:
        """The error for an offset that is not in the log: deleted where the log begins behind it; else the log once
        ended before it, which librdkafka finds by the leader epoch and gives the same code."""
        places = {tp: self._at[tp]} if tp is not None and tp in self._at else self._at
        try:
            is_deleted = any(offset < self._low(at) for at, offset in places.items())
        except KafkaException as failure:
            return self._unreachable(failure.args[0].str())
        return MessagesGone.of(error.str()) if is_deleted else LogTruncated.of(error.str())

    def _unreachable(self, what: str) -> Unreachable:
        return unreachable(self._servers, what, self._complaint.text)
