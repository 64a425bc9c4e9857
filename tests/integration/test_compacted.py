"""Messages that log compaction removes after they were decoded: what is known of them is kept, and the lane goes on."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from app.config.on_skip import OnSkip
from app.errors import Unreachable, Verdict
from app.model.message import RawMessage
from app.model.offsets import Position
from app.model.row_layout import Layout, RowKind
from app.model.rows import NO_ROWS
from app.quarantine.operator import Operator
from app.worker.epoch_source import EpochSource
from app.worker.stored_message_decoder import StoredMessages
from tests import messages as m
from tests.fix_bare_lane import TOPIC, BareLane, MakeBareLane
from tests.fix_target import SCHEMA, Target
from tests.messages import Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
d = Debezium()


def row(number: int, v: str) -> Message:
    return d.update(FLAT, {"id": number, "v": v})


def entries(target: Target) -> list[tuple[object, ...]]:
    """Offset, state, table, key, value and error of each entry."""
    found = target.execute(
        'select "offset", state, source_table, key_text is not null, value is null, error from surelane.quarantine'
        ' order by "offset"'
    )
    return [tuple(one) for one in found]


@pytest.fixture
def refusing(target: Target) -> Target:
    """The target takes no `bad`."""
    target.create(FLAT)
    target.execute("alter table flat add constraint good check (v <> 'bad')")
    return target


def skipping(bare_lane: MakeBareLane, on_skip: OnSkip, redact: Sequence[str] = ()) -> BareLane:
    """A lane that has met one that is refused and two that follow it; two of them are gone by then."""
    made = bare_lane(on_skip=on_skip, redact=redact)
    made.compacted = {1, 2}
    made.apply([row(1, "a"), row(2, "bad")])
    made.apply([row(2, "b"), row(2, "c"), row(3, "d")])
    return made


def test_parked_with_what_is_known(bare_lane: MakeBareLane, refusing: Target) -> None:
    made = skipping(bare_lane, OnSkip.PARK)
    first, second, third = entries(refusing)
    assert first[:5] == (1, "quarantined", "flat", True, True)
    assert "check constraint" in str(first[5])
    assert "log compaction" in str(first[5])
    assert second[:5] == (2, "parked", "flat", True, True)
    assert "log compaction" in str(second[5])
    assert third == (3, "parked", "flat", True, False, None)
    made.apply([row(2, "e")])  # its key waits, also for a new process
    made.reopen()
    made.apply([row(2, "f")])
    assert [one[0] for one in entries(refusing)] == [1, 2, 3, 5, 6]
    assert set(refusing.rows("public.flat")) == {(1,), (3,)}


def test_continued(bare_lane: MakeBareLane, refusing: Target) -> None:
    """What follows is applied: the row is as the newest message says."""
    made = skipping(bare_lane, OnSkip.CONTINUE)
    assert [one[:2] for one in entries(refusing)] == [(1, "superseded")]
    assert refusing.rows("public.flat")[2,]["v"] == "c"
    assert made.lane.position[TOPIC] == 5


def test_hidden_values_stay_hidden(bare_lane: MakeBareLane, refusing: Target) -> None:
    """They are not known any more, so no word of the target's is kept."""
    skipping(bare_lane, OnSkip.PARK, ["public.flat.v"])
    assert "bad" not in str(entries(refusing)[0][5])
    assert "flat" not in str(entries(refusing)[0][5])


def test_a_release_is_refused(bare_lane: MakeBareLane, refusing: Target) -> None:
    """By force, too: there is nothing to apply."""
    made = skipping(bare_lane, OnSkip.PARK)
    ((entry,),) = refusing.execute('select id from surelane.quarantine where "offset" = 1')
    with refusing.engine.begin() as connection:
        operator = Operator(SCHEMA, made.name, several=False)
        operator.request_release(connection, [entry], "me@here", "a test", forced=True)
    made.release()
    found = refusing.execute("select state, release_refused from surelane.quarantine where id = :id", id=entry)
    assert [(row.state, "discard it" in row.release_refused) for row in found] == [("quarantined", True)]


class Log:
    """A compacted partition."""

    def __init__(self, *offsets: int) -> None:
        self._found = [_raw(offset) for offset in offsets]

    def messages(self, start: Position, limit: int) -> list[RawMessage]:
        return [one for one in self._found if one.position.offset >= start.offset][:limit]


def _raw(offset: int) -> RawMessage:
    message = Debezium(envelope=True).create(FLAT, {"id": 1, "v": "a"})
    position = Position("t", 0, offset)
    return RawMessage(position=position, key=message.key, value=message.value, headers=(), timestamp_ms=None)


def test_several_messages_keep_their_places() -> None:
    source = EpochSource(lambda: NO_ROWS, lambda _: NO_ROWS, Log(1, 3).messages)
    found = source.messages([Position("t", 0, offset) for offset in (1, 2, 3)])
    assert [one and one.position.offset for one in found] == [1, None, 3]


class Nothing:
    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        return NO_ROWS


@pytest.mark.parametrize("offsets", [(), (7,)])
def test_the_schema_of_another_message_is_not_taken(offsets: tuple[int, ...]) -> None:
    """The epoch is read again, and has it no longer."""
    layout = Layout(RowKind.UPSERT, "some", "public", "flat", ("id", "v"))
    stored = StoredMessages(Nothing().stored, Log(*offsets).messages)
    with pytest.raises(Unreachable) as again:
        stored.schema(Position("t", 0, 5), layout)
    assert again.value.verdict is Verdict.RETRY
