"""Offsets keep what they were given, in one stable text, and refuse what is no position."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.offsets import Offsets, Position, TopicPartition

topics = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)
partitions = st.builds(TopicPartition, topics, st.integers(0, 10_000))
maps = st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=6)
offsets = maps.map(Offsets.of)


@given(maps)
def test_a_map_is_kept_as_it_is(given_map: dict[TopicPartition, int]) -> None:
    made = Offsets.of(given_map)
    assert dict(made) == given_map
    assert len(made) == len(given_map)
    assert list(made) == sorted(given_map)


@given(offsets)
def test_json_and_back(made: Offsets) -> None:
    assert Offsets.from_json(made.to_json()) == made
    nested: Any = made.nested()
    assert Offsets.from_nested(nested) == made
    assert Offsets.from_json(json.dumps(json.loads(made.to_json()), indent=3)) == made


@given(maps)
def test_equal_offsets_have_one_text(given_map: dict[TopicPartition, int]) -> None:
    backwards = dict(reversed(given_map.items()))
    assert Offsets.of(given_map) == Offsets.of(backwards)
    assert Offsets.of(given_map).to_json() == Offsets.of(backwards).to_json()
    assert hash(Offsets.of(given_map)) == hash(Offsets.of(backwards))


@given(offsets, offsets)
def test_updated_takes_the_newer_and_keeps_the_rest(old: Offsets, new: Offsets) -> None:
    result = old.updated(new)
    assert dict(result) == {**old, **new}


@given(offsets, st.sets(partitions))
def test_only_keeps_nothing_else(made: Offsets, wanted: set[TopicPartition]) -> None:
    assert set(made.only(wanted)) == set(made) & wanted
    assert made.only(set(made)) == made


@given(maps, partitions, st.integers(max_value=-1))
def test_a_negative_offset_is_refused(
    given_map: dict[TopicPartition, int], partition: TopicPartition, offset: int
) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Offsets.of({**given_map, partition: offset})


@pytest.mark.parametrize(
    "text", ["", "5", "[]", "null", '"x"', '{"t": 5}', '{"t": [1]}', '{"t": {"x": 5}}', '{"t": {"0": -1}}', "{", "-1"]
)
def test_what_is_no_offset_map_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Offsets.from_json(text)


def test_sparks_own_text_is_understood() -> None:
    made = Offsets.from_json('{"shop.cdc":{"0":42,"10":7}}')
    assert made[TopicPartition("shop.cdc", 10)] == 7
    assert str(made) == "shop.cdc[0]@42, shop.cdc[10]@7"


def test_a_position_says_where_a_message_is() -> None:
    assert str(Position("shop.cdc", 2, 17)) == "shop.cdc[2]@17"
