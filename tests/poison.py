"""Poisoned topics: good messages with bad ones among them, and what has to have become of both."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests import messages as m
from tests.fix_lane import LaneUnderTest
from tests.fix_target import Target
from tests.fix_topic import Sent, Topic
from tests.messages import Debezium, Message, Table
from tests.oracle import Reader, questions

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
d = Debezium()


def row(number: int, v: str | None = "good") -> Message:
    """A change of FLAT."""
    return d.create(FLAT, {"id": number, "v": v})


@dataclass(frozen=True)
class Expected:
    """What is to be known of a message in quarantine; None: not asked."""

    attempts: int
    sqlstate: str | None = None
    stage: str | None = None


def send(topic: Topic, messages: Iterable[Message], bad: Iterable[Message]) -> dict[int, Message]:
    """Send `messages`; those of them that are in `bad` mean nothing from then on. The bad ones by offset."""
    poison = [id(message) for message in bad]
    sent = topic.send(messages)
    found = {one.position.offset: one.message for one in sent if id(one.message) in poison}
    topic.sent = [_harmless(one) if one.position.offset in found else one for one in topic.sent]
    return found


def _harmless(one: Sent) -> Sent:
    return replace(one, message=replace(one.message, change=None))


def check(
    made: LaneUnderTest,
    target: Target,
    topic: Topic,
    bad: dict[int, tuple[Message, Expected]],
    reader: Reader | None = None,
) -> None:
    """Every good message applied in order and once, every bad one kept whole, nothing left in doubt or suspected."""
    rows = target.execute('select * from surelane.quarantine where lane = :lane order by "offset"', lane=target.lane)
    assert [found.offset for found in rows] == sorted(bad)
    for found in rows:
        message, expected = bad[found.offset]
        assert (_bytes(found.key), _bytes(found.value)) == (message.key, message.value)
        assert found.state == "quarantined"
        assert found.attempts == expected.attempts, found.error
        assert expected.sqlstate in (None, found.sqlstate), found.error
        assert expected.stage in (None, found.stage), found.error
    questions(target, topic, exactly_once=made.exactly_once, reader=reader, quarantined=len(bad))
    assert target.execute("select from surelane.suspect where lane = :lane", lane=target.lane) == []


def _bytes(value: memoryview | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)
