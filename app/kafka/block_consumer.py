"""A consumer of one partition that gives its messages as blocks of bytes, by the functions of librdkafka itself.

confluent-kafka makes a Python object of each message, and of its key and value: as much work as decoding it. Its
package brings librdkafka, whose public interface (rdkafka.h) is called here; the configuration is the same.
"""

import ctypes
from bisect import bisect_left
from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException, cimpl

from app.kafka.batch import BlockBatch
from app.kafka.gather import Gather
from app.model.arrow import Indices, address
from app.model.last import LastMessage
from app.model.offsets import TopicPartition

#: RD_KAFKA_CONSUMER
_CONSUMER = 1
#: RD_KAFKA_TIMESTAMP_NOT_AVAILABLE
_NO_TIMESTAMP = 0
#: bytes of a message about a failure
_TEXT_BYTES = 512
_ON_ERROR = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
#: result and arguments of each function
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "conf_new": (c_void_p,),
    "conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "conf_set_error_cb": (None, c_void_p, _ON_ERROR),
    "conf_destroy": (None, c_void_p),
    "new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "destroy": (None, c_void_p),
    "poll_set_consumer": (c_int, c_void_p),
    "consumer_close": (c_int, c_void_p),
    "queue_get_consumer": (c_void_p, c_void_p),
    "queue_destroy": (None, c_void_p),
    "topic_partition_list_new": (c_void_p, c_int),
    "topic_partition_list_add": (c_void_p, c_void_p, c_char_p, c_int32),
    "topic_partition_list_set_offset": (c_int, c_void_p, c_char_p, c_int32, c_int64),
    "topic_partition_list_destroy": (None, c_void_p),
    "topic_partition_set_leader_epoch": (None, c_void_p, c_int32),
    "assign": (c_int, c_void_p, c_void_p),
    "consume_batch_queue": (c_ssize_t, c_void_p, c_int, c_void_p, c_size_t),
    "message_timestamp": (c_int64, c_void_p, POINTER(c_int)),
    "message_leader_epoch": (c_int32, c_void_p),
    "message_errstr": (c_char_p, c_void_p),
    "message_destroy": (None, c_void_p),
    "query_watermark_offsets": (c_int, c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    "err2str": (c_char_p, c_int),
}


class MessageStruct(ctypes.Structure):
    """The public part of `rd_kafka_message_t`."""

    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_bytes", c_size_t),
        ("key", c_void_p),
        ("key_bytes", c_size_t),
        ("offset", c_int64),
    )


@dataclass(frozen=True)
class Event:
    """What comes beside messages."""

    #: end of the partition, where the consumer has reached it
    end: int | None = None
    error: KafkaError | None = None


class BlockConsumer:
    """Used by one thread at a time."""

    def __init__(self, config: Mapping[str, str], gather: Gather, complain: Callable[[KafkaError], None]) -> None:
        """`complain` gets the errors of connections. Raises KafkaException for a configuration that it
        does not take."""
        self._lib, self._gather = _library(), gather
        self._destroy = ctypes.cast(self._lib.message_destroy, c_void_p).value or 0
        self._complain = _ON_ERROR(lambda _, code, reason, __: complain(_error(code, reason)))
        #: addresses of messages that are not taken yet
        self._fetched: Indices = np.empty(0, np.int64)
        self._client = self._made(config)
        self._lib.poll_set_consumer(self._client)
        self._queue = self._lib.queue_get_consumer(self._client)

    def close(self) -> None:
        """Close the connections; when no thread uses it any more."""
        if self._client:
            self._forget()
            self._lib.queue_destroy(self._queue)
            self._lib.consumer_close(self._client)
            self._lib.destroy(self._client)
            self._client = None

    def assign(self, tp: TopicPartition, offset: int, leader_epoch: int) -> None:
        """Fetch from here on. `leader_epoch`: of the message before; -1: not known."""
        lib, topic = self._lib, tp.topic.encode()
        places = lib.topic_partition_list_new(1)
        try:
            place = lib.topic_partition_list_add(places, topic, tp.partition)
            lib.topic_partition_list_set_offset(places, topic, tp.partition, offset)
            lib.topic_partition_set_leader_epoch(place, leader_epoch)
            self._check(lib.assign(self._client, places))
            self._forget()
        finally:
            lib.topic_partition_list_destroy(places)

    def fetch(self, limit: int, wait_seconds: float) -> tuple[int, Event]:
        """Fetch at most `limit` messages, those that come within this time. Returns how many came, and what beside
        them."""
        found = np.empty(limit, np.int64)
        count = self._lib.consume_batch_queue(self._queue, round(wait_seconds * 1000), address(found), limit)
        if count < 0:
            raise KafkaException(KafkaError(KafkaError._FAIL, "librdkafka gave no messages"))
        found, event = found[:count], Event()
        if count and self._gather.errors(found):
            found, event = self._without_errors(found)
        assert not self.has_more, "what was fetched is taken first"
        self._fetched = found
        return count, event

    def take(self, tp: TopicPartition, end: int) -> tuple[BlockBatch, LastMessage] | None:
        """What was fetched of the partition, up to this offset, and what identifies the last message of it; None where
        that is nothing."""
        found, before = self._fetched, bisect_left(self._fetched, end, key=_offset)
        if not before:
            return None
        found, self._fetched = found[:before], found[before:]
        last = self._identity(int(found[-1]))
        return self._gather.take(tp, found, self._destroy), last

    @property
    def has_more(self) -> bool:
        """Whether messages were fetched and not taken."""
        return len(self._fetched) > 0

    def low(self, tp: TopicPartition, timeout_seconds: float) -> int:
        """The first offset of the log. Raises KafkaException where the broker does not answer."""
        low, high = c_int64(), c_int64()
        topic, milliseconds = tp.topic.encode(), round(timeout_seconds * 1000)
        self._check(
            self._lib.query_watermark_offsets(self._client, topic, tp.partition, byref(low), byref(high), milliseconds)
        )
        return low.value

    def _without_errors(self, found: Indices) -> tuple[Indices, Event]:
        end = error = None
        kept: list[int] = []
        for at in found.tolist():
            message = MessageStruct.from_address(at)
            if not message.error:
                kept.append(at)
                continue
            if message.error == KafkaError._PARTITION_EOF:
                end = message.offset
            elif error is None:
                error = _error(message.error, self._lib.message_errstr(at))
            self._lib.message_destroy(at)
        return np.array(kept, np.int64), Event(end, error)

    def _identity(self, at: int) -> LastMessage:
        kind = c_int()
        message, timestamp_ms = MessageStruct.from_address(at), self._lib.message_timestamp(at, byref(kind))
        key, value = (
            None if place is None else ctypes.string_at(place, count)
            for place, count in ((message.key, message.key_bytes), (message.value, message.value_bytes))
        )
        return LastMessage.of(
            message.offset,
            key,
            value,
            timestamp_ms=None if kind.value == _NO_TIMESTAMP else timestamp_ms,
            leader_epoch=self._lib.message_leader_epoch(at),
        )

    def _made(self, config: Mapping[str, str]) -> int:
        lib, text = self._lib, ctypes.create_string_buffer(_TEXT_BYTES)
        conf = lib.conf_new()
        for name, value in config.items():
            if lib.conf_set(conf, name.encode(), value.encode(), text, _TEXT_BYTES):
                lib.conf_destroy(conf)
                raise _refused(text.value)
        lib.conf_set_error_cb(conf, self._complain)
        client = lib.new(_CONSUMER, conf, text, _TEXT_BYTES)
        if not client:
            lib.conf_destroy(conf)
            raise _refused(text.value)
        return client

    def _forget(self) -> None:
        for at in self._fetched.tolist():
            self._lib.message_destroy(at)
        self._fetched = self._fetched[:0]

    def _check(self, code: int) -> None:
        if code:
            raise KafkaException(_error(code, self._lib.err2str(code)))


def _offset(at: int) -> int:
    return MessageStruct.from_address(int(at)).offset


def _error(code: int, text: bytes | None) -> KafkaError:
    return KafkaError(code, (text or b"").decode(errors="replace"))


def _refused(text: bytes) -> KafkaException:
    return KafkaException(_error(KafkaError._INVALID_ARG, text))


@cache
def _library() -> Any:
    """The functions of librdkafka, without their prefix. Python runs while one is called."""
    library, found = ctypes.CDLL(cimpl.__file__), SimpleNamespace()  # it is that module's dependency
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = library[f"rd_kafka_{name}"]
        function.restype, function.argtypes = result, arguments
        setattr(found, name, function)
    return found
