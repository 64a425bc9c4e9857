"""Compares Kafka with the ledger: the pinned topics before each epoch is recorded, and the last applied message before
the first epoch."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from app.db.sqlstate import translated
from app.kafka.broker import Broker, TopicInfo, ids_of
from app.ledger.pins import check_pins
from app.model.last import LastMessage, LastMessages
from app.model.offsets import Span, TopicPartition
from app.recover.rewritten import check_not_rewritten
from app.source.messages import TaskMessages
from app.worker.lane_writer import LaneWriter

#: waits for the cluster id and each topic
Answer = Callable[[], tuple[str, dict[str, TopicInfo]]]


class LogIdentity:
    """Compares cluster and topics with those at the opening of the lanes."""

    def __init__(
        self, broker: Broker, messages: TaskMessages, lane: str, cluster: str, topics: Mapping[str, TopicInfo]
    ) -> None:
        """`topics`: by name, as they are pinned."""
        self._broker, self._messages = broker, messages
        self._lane, self._cluster = lane, cluster
        #: id of each topic
        self._topics: dict[str, str] = {}
        #: the last identified message of each partition
        self._known: dict[TopicPartition, LastMessage] = {}
        #: partitions of each topic, by the last answer
        self._sizes: dict[str, int] = {}
        self._note(topics)

    def of(self, planned: Span) -> "Asked":
        names = sorted({tp.topic for tp in planned.end})
        return Asked(lambda: self._broker.ask_identity(names), self._compare, self._last, self._follow)

    def has_more(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether the last answer had more partitions than these."""
        return sum(self._sizes.values()) > len(partitions)

    def _compare(self, cluster: str, topics: Mapping[str, TopicInfo]) -> None:
        """Raises TopicChanged; pins a new topic when it is first seen."""
        check_pins(self._lane, (self._cluster, cluster), self._topics, ids_of(topics))
        self._note(topics)

    def _note(self, topics: Mapping[str, TopicInfo]) -> None:
        self._topics.update(ids_of(topics))
        self._sizes.update({name: info.partitions for name, info in topics.items()})

    def _follow(self, span: Span, found: LastMessages) -> None:
        """Raises LogTruncated where the message before the span has changed since it was read: a log that lost its end
        has another leader epoch from there on. Tasks read spans without the leader epoch of the message before."""
        before = {tp: self._known[tp] for tp in found if tp in self._known}
        turned = {
            tp: last
            for tp, last in before.items()
            if last.offset < span.start.get(tp, 0) and last.leader_epoch != found[tp].leader_epoch
        }
        if turned:
            check_not_rewritten(self._broker, self._lane, turned, self._broker.watermarks(turned))
        self._known.update(found)

    def _last(self, tp: TopicPartition, start: int, end: int) -> LastMessage | None:
        return self._messages.last(tp, end) or self._broker.last_before(tp, start, end)


@dataclass
class Asked:
    """The request for cluster and topic ids, sent after an epoch's messages are read: an older answer proves nothing
    about them. Several lanes may wait for the answer concurrently."""

    _request: Callable[[], Answer]
    _compare: Callable[[str, Mapping[str, TopicInfo]], None]
    _last: Callable[[TopicPartition, int, int], LastMessage | None]
    _follow: Callable[[Span, LastMessages], None]
    _answer: Answer | None = None
    _read: LastMessages = field(default_factory=dict)

    def ask(self, read: LastMessages | None = None) -> None:
        """Send the request after a read; `identified` waits for the answer. `read`: the last messages, if known."""
        self._read = {**self._read, **(read or {})}
        self._answer = self._request()

    def identified(self, span: Span) -> dict[TopicPartition, LastMessage]:
        """See `app.poison.epoch_rows.EpochRows`."""
        answer = self._answer or self._request()
        self._compare(*answer())
        moved = {tp: (span.start.get(tp, 0), end) for tp, end in span.end.items() if end > span.start.get(tp, 0)}
        found = {tp: self._read.get(tp) or self._last(tp, start, end) for tp, (start, end) in moved.items()}
        known = {tp: one for tp, one in found.items() if one is not None}
        self._follow(span, known)
        return known


def check_last(broker: Broker, writer: LaneWriter) -> dict[TopicPartition, int]:
    """Raises LogTruncated when Kafka has another message at the offset of the last applied one. Returns the leader
    epochs of the last messages that are directly before the position."""
    assert writer.connection is not None, "just opened"
    with translated(f"lane {writer.name}: reading the ledger"), writer.connection.begin():
        record = writer.ledger.last(writer.connection)
    if record is None or not record.last:
        return {}
    last = {tp: one for tp, one in record.last.items() if tp in record.span.end}
    check_not_rewritten(broker, writer.name, last, broker.watermarks(last))
    end = record.span.end
    return {
        tp: one.leader_epoch for tp, one in last.items() if one.leader_epoch is not None and one.offset + 1 == end[tp]
    }
