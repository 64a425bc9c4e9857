"""Whether Kafka has what the ledger says: the pinned topics before each epoch is recorded, and the last message that
was applied before the first one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.db.sqlstate import translated
from app.kafka.broker import Broker
from app.ledger.pins import check_pins
from app.model.last import LastMessage, LastMessages
from app.model.offsets import Span, TopicPartition
from app.recover.rewritten import check_not_rewritten
from app.source.messages import TaskMessages
from app.worker.lane_writer import LaneWriter

#: cluster id, and the id of each topic
Answer = Callable[[], tuple[str, dict[str, str]]]


class LogIdentity:
    """Compares cluster and topics with what they were when the lanes were opened."""

    def __init__(
        self, broker: Broker, messages: TaskMessages, lane: str, cluster: str, topics: Mapping[str, str]
    ) -> None:
        """`topics`: name -> id, as they are pinned."""
        self._broker, self._messages = broker, messages
        self._lane, self._cluster, self._topics = lane, cluster, dict(topics)
        #: the last messages that were identified
        self._known: dict[TopicPartition, LastMessage] = {}

    def of(self, planned: Span) -> "Asked":
        """For one epoch."""
        names = sorted({tp.topic for tp in planned.end})
        return Asked(lambda: self._broker.ask_identity(names), self._compare, self._last, self._follow)

    def _compare(self, cluster: str, topics: Mapping[str, str]) -> None:
        """A topic that is new is pinned by its first sight."""
        check_pins(self._lane, (self._cluster, cluster), self._topics, topics)
        self._topics.update(topics)

    def _follow(self, span: Span, found: LastMessages) -> None:
        """Raises LogTruncated where the message before the span is not the one that was read: a log that lost its end
        has a leader of another term from there on. Tasks read spans without knowing the term before them."""
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
    """What is requested of an epoch's topics as soon as its messages are read: an answer that is older than a read says
    nothing of what was read. Lanes side by side may wait for it at the same time."""

    _request: Callable[[], Answer]
    _compare: Callable[[str, Mapping[str, str]], None]
    _last: Callable[[TopicPartition, int, int], LastMessage | None]
    _follow: Callable[[Span, LastMessages], None]
    _answer: Answer | None = None
    _read: LastMessages = field(default_factory=dict)

    def ask(self, read: LastMessages | None = None) -> None:
        """Messages were read: send the requests. Whoever records the epoch waits for the answer. `read`: the last of
        them, where they are known."""
        self._read = {**self._read, **(read or {})}
        self._answer = self._request()

    def identified(self, span: Span) -> dict[TopicPartition, LastMessage]:
        """See `app.lane.guarded_read.Source`."""
        answer = self._answer or self._request()
        self._compare(*answer())
        moved = {tp: (span.start.get(tp, 0), end) for tp, end in span.end.items() if end > span.start.get(tp, 0)}
        found = {tp: self._read.get(tp) or self._last(tp, start, end) for tp, (start, end) in moved.items()}
        known = {tp: one for tp, one in found.items() if one is not None}
        self._follow(span, known)
        return known


def check_last(broker: Broker, writer: LaneWriter) -> dict[TopicPartition, int]:
    """Raises LogTruncated when Kafka has another message in place of the last one that was applied; else the leader
    epochs of those that end right before the position."""
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
