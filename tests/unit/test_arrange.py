"""Several topics in one lane: merged by the source's order, and no topic's own order is ever changed."""

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.epoch.epoch_batch import EpochBatch
from app.model.row_layout import SEPARATOR, RowKind
from tests.decoded import table_of

#: (topic, source position or None for a message that has none)
Event = tuple[str, tuple[int, int] | None]


def _row(topic: str, offset: int, source: tuple[int, int] | None) -> dict[str, Any]:
    kind = RowKind.UPSERT if source else RowKind.FILTERED
    layout = [kind, "", "public", topic, "id"] if source else [kind, "", "", ""]
    return {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "layout": SEPARATOR.join(layout),
        "key": f"{topic}{offset}",
        "line": "1\n" if source else "",
        "ts_ms": None,
        "sequence": json.dumps([str(part) for part in source]) if source else None,
    }


def _arranged(events: list[Event], seed: int) -> list[tuple[str, int]]:
    """(topic, offset) as the lane will apply them; events of a topic get rising offsets."""
    offsets: dict[str, int] = {}
    rows = []
    for topic, source in events:
        offsets[topic] = offsets.get(topic, -1) + 1
        rows.append(_row(topic, offsets[topic], source))
    random.Random(seed).shuffle(rows)
    epoch = EpochBatch.arrange(table_of(rows))
    return list(zip(epoch.rows["topic"].to_pylist(), epoch.rows["offset"].to_pylist(), strict=True))


topics = st.sampled_from(["a", "b", "c"])
steps = st.lists(st.tuples(topics, st.integers(0, 2), st.integers(1, 3)), max_size=30)


@given(steps, st.integers())
def test_topics_are_merged_by_commit_and_then_by_lsn(given_steps: list[tuple[str, int, int]], seed: int) -> None:
    commit, lsn, events = 0, 0, []
    for topic, commits, advance in given_steps:
        commit, lsn = commit + commits, lsn + advance
        events.append((topic, (commit, lsn)))
    offsets: dict[str, int] = {}
    expected = []
    for topic, _ in events:
        offsets[topic] = offsets.get(topic, -1) + 1
        expected.append((topic, offsets[topic]))
    assert _arranged(events, seed) == expected


@given(st.lists(st.tuples(topics, st.none() | st.tuples(st.integers(0, 9), st.integers(0, 99))), max_size=30))
def test_whatever_the_messages_say_a_topics_own_order_stays(events: list[Event]) -> None:
    arranged = _arranged(events, seed=1)
    assert sorted(arranged) == sorted(set(arranged))
    for topic in ("a", "b", "c"):
        own = [offset for name, offset in arranged if name == topic]
        assert own == list(range(len(own)))


def test_a_message_without_position_stays_behind_the_one_before_it() -> None:
    events: list[Event] = [("a", (1, 10)), ("a", None), ("b", (1, 11)), ("a", (1, 12)), ("b", None)]
    assert _arranged(events, seed=3) == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 2)]


def test_a_first_sequence_without_commit_counts_as_the_oldest() -> None:
    """Debezium writes null for the last commit before its first one."""
    rows = [_row("a", 0, (5, 20)), {**_row("b", 0, (0, 10)), "sequence": '[null,"10"]'}]
    epoch = EpochBatch.arrange(table_of(rows))
    assert epoch.rows["topic"].to_pylist() == ["b", "a"]


@given(st.lists(topics, min_size=1, max_size=30), st.integers(0, 2))
def test_rows_by_layout(names: list[str], step: int) -> None:
    epoch = EpochBatch.arrange(
        table_of([_row("a", offset, (0, offset)) | _of(name) for offset, name in enumerate(names)])
    )
    among = epoch.of_kind(RowKind.UPSERT)[:: step + 1]
    found = epoch.by_layout(among)
    for index, layout in enumerate(epoch.layouts):
        ordinals = [ordinal for ordinal, name in enumerate(names) if name == layout.table]
        assert epoch.firsts[index] == ordinals[0]
        assert found[index].tolist() == [ordinal for ordinal in ordinals if ordinal in among]
    part = epoch.part(len(names) - 1, len(names))
    assert list(part.firsts.values()) == [0]  # layouts without a row have no first one


def _of(table: str) -> dict[str, str]:
    return {"layout": SEPARATOR.join([RowKind.UPSERT, "", "public", table, "id"])}


@given(st.lists(st.tuples(st.integers(-3, 12), st.sampled_from("ab")), min_size=1), st.sampled_from(["%d", '"%d"']))
def test_the_last_change_of_each_key_in_the_order_of_the_keys(changes: list[tuple[int, str]], key: str) -> None:
    rows = [
        _row("t", offset, (0, offset)) | _of(name) | {"key": f'{{"id":{key % number}}}', "line": f"{number}\n"}
        for offset, (number, name) in enumerate(changes)
    ]
    epoch = EpochBatch.arrange(table_of(rows))
    assert epoch.survivors.tolist() == sorted({one: offset for offset, one in enumerate(changes)}.values())
    for layout, lines in zip(epoch.layouts, epoch.last_lines, strict=True):
        numbers = {number for number, name in changes if name == layout.table}
        ordered = sorted(numbers) if key == "%d" else sorted(numbers, key='"{}"'.format)
        assert lines.to_pylist() == [f"{number}\n" for number in ordered]


def test_tables_whose_names_read_alike_are_two() -> None:
    """Schema `a` with table `b.c`, and schema `a.b` with table `c`: each keeps its row."""
    rows = [_row("t", offset, (1, offset + 1)) for offset in range(2)]
    for row, names in zip(rows, (["a", "b.c"], ["a.b", "c"]), strict=True):
        row |= {"key": '{"id":1}', "layout": SEPARATOR.join([RowKind.UPSERT, "", *names, "id"])}
    epoch = EpochBatch.arrange(table_of(rows))
    assert epoch.survivors.tolist() == [0, 1]
    assert len(set(epoch.identities.tolist())) == 2


def test_without_positions_topics_are_merged_by_the_times_of_the_source() -> None:
    """Never against a topic's own order: a clock may go back."""
    rows = [
        _row(topic, offset, None) | {"ts_ms": time}
        for topic, times in (("a", (3, 1, 9, None)), ("b", (2, 4, None, 10)))
        for offset, time in enumerate(times)
    ]
    arranged = EpochBatch.arrange(table_of(rows)).rows
    places = zip(arranged["topic"].to_pylist(), arranged["offset"].to_pylist(), strict=True)
    assert "".join(f"{topic}{offset}" for topic, offset in places) == "b0a0a1b1b2a2a3b3"
