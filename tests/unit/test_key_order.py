"""The order in which rows are written is that of their keys in an index."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.epoch.key_order import key_numbers, key_order

_WHOLE = '{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},"payload":{"id":%d}}'


def texts(keys: list[Any]) -> pa.Array:
    return pa.array([None if key is None else json.dumps(key, separators=(",", ":")) for key in keys], pa.string())


@given(st.lists(st.integers(-(2**59), 2**59)))
def test_numbers_go_by_their_value(numbers: list[int]) -> None:
    order = key_order(texts([{"id": number} for number in numbers])).tolist()
    assert [numbers[index] for index in order] == sorted(numbers)


def test_the_number_of_a_key_with_its_schema() -> None:
    numbers = [10, 9, 100, -1]
    order = key_order(pa.array([_WHOLE % number for number in numbers])).tolist()
    assert [numbers[index] for index in order] == [-1, 9, 10, 100]


@pytest.mark.parametrize(
    "keys",
    [
        [{"id": "b"}, {"id": "a"}, {"id": "ü"}],
        [{"a": 1, "b": 2}, {"a": 1, "b": 1}, {"a": 0, "b": 3}],
        [{"id": 1}, {"other": 0}],  # of two tables
        [{"id": 1}, {"id": "1"}],
        [{"id": 1}, {"id": 1.5}],
        [{"id": 1}, {"id": 10**30}],
        [{"id": 10**30}, {"id": 1}],
        [{"id": 1}, "1}"],
        [1, 0],
        [],
    ],
)
def test_others_go_by_their_texts(keys: list[Any]) -> None:
    found = texts(keys)
    assert found.take(pa.array(key_order(found))).to_pylist() == sorted(found.to_pylist())


def test_rows_without_a_key_come_last() -> None:
    assert key_order(texts([None, {"id": 2}, None, {"id": 1}])).tolist() == [3, 1, 0, 2]


@given(st.lists(st.one_of(st.none(), st.text(max_size=3), st.integers(), st.sampled_from(['{"id":1}', '{"id":-}']))))
def test_every_row_has_its_place(keys: list[Any]) -> None:
    found = pa.array([None if key is None else str(key) for key in keys], pa.string())
    assert sorted(key_order(found).tolist()) == list(range(len(keys)))


@pytest.mark.parametrize("number", ["-0", "007", "-01", "1.0", "1e3", "+1", " 1", "null", "0xF"])
def test_another_text_is_another_key(number: str) -> None:
    assert key_numbers(pa.array(['{"id":1}', f'{{"id":{number}}}'])) is None
    assert key_numbers(pa.array([f'{{"id":{number}}}', '{"id":1}'])) is None


@given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1), min_size=1))
def test_every_number_is_one(numbers: list[int]) -> None:
    found = key_numbers(texts([{"id": number} for number in numbers]))
    assert found is not None
    assert found.tolist() == numbers


def test_a_key_that_is_not_utf8_has_none() -> None:
    for keys in ([b"\xff", b'{"id":1}'], [b'{"id":1}', b"\xff"], [b'{"\xff":1}', b'{"\xff":2}']):
        found = key_numbers(pa.array(keys, pa.binary()).view(pa.string()))
        assert (None if found is None else found.tolist()) == ([1, 2] if keys[0].startswith(b'{"\xff') else None)
