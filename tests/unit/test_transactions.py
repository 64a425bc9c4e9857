"""Where source transactions end: nothing of one is let through before all of it is there."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.align.transactions import held_from
from app.errors import ConfigInvalid
from app.model.offsets import Position, TopicPartition
from tests import messages as m
from tests.decoded import decoded
from tests.fix_topic import Sent
from tests.messages import Debezium, Message, Table

ONE = "cdc"
A, B = Table("a", {"id": m.INT}), Table("b", {"id": m.INT})
TOPICS = {"public.a": "shop.public.a", "public.b": "shop.public.b"}
MARKERS = "shop.transaction"

#: of each transaction the tables of its changes
Plan = list[list[Table]]
plans = st.lists(st.lists(st.sampled_from([A, B]), max_size=5), max_size=8)


def rows(by_topic: Mapping[str, Sequence[Message]]) -> pa.Table:
    """Decoded, topic after topic."""
    return decoded(
        Sent(message=message, position=Position(topic, 0, offset), number=0)
        for topic, messages in by_topic.items()
        for offset, message in enumerate(messages)
    )


def held(by_topic: Mapping[str, Sequence[Message]]) -> dict[str, int]:
    """First offset of each topic that waits."""
    found = held_from(rows(by_topic), by_topic.keys(), "lane")
    assert all(tp.partition == 0 for tp in found)
    return {tp.topic: offset for tp, offset in found.items()}


def in_one_topic(plan: Plan) -> tuple[list[Message], list[int]]:
    """Everything with markers, and the offsets at which transactions end."""
    d, made, ends = Debezium(), [], [0]
    for tables in plan:
        made.append(d.begin())
        for number, table in enumerate(tables):
            made.append(d.delete(table, {"id": number}))
            made.append(d.tombstone(table, {"id": number}))
        made.append(d.end())
        ends.append(len(made))
    return made, ends


def in_topics(plan: Plan) -> tuple[dict[str, list[Message]], list[Counter[str]]]:
    """A topic for each table and one for the markers; how many changes each transaction has in each."""
    d, counts = Debezium(), []
    made: dict[str, list[Message]] = {topic: [] for topic in (*TOPICS.values(), MARKERS)}
    for tables in plan:
        made[MARKERS].append(d.begin())
        for number, table in enumerate(tables):
            made[TOPICS[table.full_name]].append(d.create(table, {"id": number}))
        made[MARKERS].append(d.end())
        counts.append(Counter(TOPICS[table.full_name] for table in tables))
    return made, counts


@given(plans, st.data())
def test_in_one_topic_it_ends_with_the_last_marker(plan: Plan, data: st.DataObject) -> None:
    made, ends = in_one_topic(plan)
    read = data.draw(st.integers(0, len(made)))
    expected = max(end for end in ends if end <= read)
    assert held({ONE: made[:read]}) == ({ONE: expected} if expected < read else {})


def test_without_markers_the_next_transaction_says_that_one_has_ended() -> None:
    d = Debezium()
    d.begin()
    first = [d.create(A, {"id": 1}), d.create(B, {"id": 1}), d.tombstone(A, {"id": 1}), d.heartbeat()]
    d.begin()
    second = d.create(A, {"id": 2})
    assert held({ONE: [*first, second]}) == {ONE: len(first)}
    assert held({ONE: first}) == {ONE: 0}


def test_what_is_of_no_transaction_waits_for_none() -> None:
    """Rows of a snapshot, signs of life, bytes that cannot be decoded."""
    d = Debezium()
    free = [d.read(A, {"id": 1}), d.heartbeat(), Message(key=None, value=b'{"op":')]
    assert held({ONE: free}) == {}
    assert held({ONE: [*free, d.begin()]}) == {ONE: 3}


def test_a_change_that_names_no_transaction_is_refused() -> None:
    """`provide.transaction.metadata` is off."""
    d = Debezium()
    with pytest.raises(ConfigInvalid, match=r"cdc\[0\]@1 does not say") as refused:
        held({ONE: [d.read(A, {"id": 1}), d.create(A, {"id": 2})]})
    assert "provide.transaction.metadata" in str(refused.value)


@given(plans, st.data())
def test_in_several_topics_nothing_is_parted_and_nothing_overtakes(plan: Plan, data: st.DataObject) -> None:
    """Whatever of each topic was read."""
    made, counts = in_topics(plan)
    read = {topic: data.draw(st.integers(0, len(messages))) for topic, messages in made.items()}
    found = held({topic: messages[: read[topic]] for topic, messages in made.items()})
    through = {topic: found.get(topic, read[topic]) for topic in made}
    assert all(through[topic] <= read[topic] for topic in made)
    taken, waits = dict.fromkeys(TOPICS.values(), 0), False
    for number, count in enumerate(counts):
        whole = through[MARKERS] >= 2 * number + 2
        there = [min(max(through[topic] - taken[topic], 0), count[topic]) for topic in taken]
        assert there == [count[topic] if whole else 0 for topic in taken], f"transaction {number} is parted"
        assert not (waits and whole), "overtaken"
        waits = waits or not whole
        for topic in taken:
            taken[topic] += count[topic]
    if all(read[topic] == len(messages) for topic, messages in made.items()):
        assert found == {}


def test_a_table_that_the_lane_does_not_read_is_not_waited_for() -> None:
    made, _ = in_topics([[A, B]])
    del made[TOPICS["public.b"]]
    assert held(made) == {}


def test_a_change_that_is_sent_twice_counts_once() -> None:
    """As after a restart of Kafka Connect."""
    made, _ = in_topics([[A, A, B]])
    topic = TOPICS["public.a"]
    made[topic] = [made[topic][0]] * 2
    assert held(made) == {topic: 0, TOPICS["public.b"]: 0, MARKERS: 0}


def test_the_order_in_which_tasks_deliver_does_not_matter() -> None:
    made, _ = in_one_topic([[A, B], [A]])
    table = rows({ONE: made[:-1]})
    backwards = table.take(list(reversed(range(table.num_rows))))
    assert held_from(backwards, [ONE], "lane") == {TopicPartition(ONE, 0): 6}
