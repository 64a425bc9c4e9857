"""Releases by the real decoder and the real service: stored bytes mean what they meant, and no message has to come."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from app.config.settings import CommitMode
from app.decode.debezium import DebeziumJson
from app.decode.decoding import Decoding
from app.model.message import RawMessage
from app.model.offsets import Position
from app.model.row_layout import Layout
from app.quarantine.operator import Operator
from app.worker.stored_message_decoder import StoredMessages
from tests import messages as m
from tests.fix_decode import TOPIC, Decoded
from tests.fix_lane import MODES, MakeLane
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.waiting import eventually

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT, "at": m.TIMESTAMP_MS})
AT = datetime(2026, 2, 3, 4, 5, 6)
BAD = "x" * 11
DDL = "create table flat (id int primary key, v varchar(10), at timestamp(3))"
#: with schemas, which nothing but the message itself carries
d = Debezium(envelope=True)


def row(number: int, v: str) -> m.Message:
    """A change."""
    return d.create(FLAT, {"id": number, "v": v, "at": AT})


def states(target: Target) -> list[str]:
    """Of all entries, in order."""
    return [state for (state,) in target.execute('select state from surelane.quarantine order by "offset"')]


def request(target: Target, lane: str, entries: Sequence[int]) -> None:
    """As `surelane quarantine release`."""
    with target.engine.begin() as connection:
        Operator(SCHEMA, lane, several=False).request_release(connection, entries, "me@here", None, forced=False)


def test_stored_messages_decode_like_others(decode: Decoded) -> None:
    messages = [row(1, "a\tb"), m.Message(key=None, value=b"\xff{"), d.delete(FLAT, {"id": 2, "v": None, "at": None})]
    kept = [
        RawMessage(position=Position(TOPIC, 0, number), key=one.key, value=one.value, headers=(), timestamp_ms=None)
        for number, one in enumerate(messages)
    ]
    stored = StoredMessages(Decoding(DebeziumJson()).stored, lambda *_: [])  # Kafka does not have them any more
    found = stored.decode(kept).sort_by("offset")
    assert found["line"].to_pylist() == decode(messages)["line"].to_pylist()
    fields: Any = stored.schema(kept[0].position, Layout.parse(found["layout"][0].as_py()))
    assert fields["at"]["name"] == "io.debezium.time.Timestamp"


@pytest.mark.parametrize("mode", MODES)
def test_an_idle_lane_releases(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """While it runs, and when it only runs until it has caught up."""
    target.execute(DDL)
    made = lane(mode, guard={"on_skip": "park"})
    topic.send([row(1, BAD), row(2, "b"), row(3, BAD)])
    made.start()
    made.until_caught_up(topic)
    topic.send([row(1, "new")])
    made.until_caught_up(topic)
    assert states(target) == ["quarantined", "quarantined", "parked"]
    target.execute("alter table flat alter v type text")
    ids = [number for (number,) in target.execute('select id from surelane.quarantine order by "offset"')]
    request(target, made.name, [ids[0], ids[2]])
    eventually(lambda: states(target) == ["released", "quarantined", "released"], 60, "the release")
    made.stop()
    request(target, made.name, ids[1:2])
    made.run_until_caught_up()
    assert states(target) == ["released"] * 3
    assert target.rows("public.flat") == {
        (number,): {"id": number, "v": v, "at": AT} for number, v in ((1, "new"), (2, "b"), (3, BAD))
    }
    assert target.prepared() == []
