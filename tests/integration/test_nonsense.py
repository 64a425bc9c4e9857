"""Nonsense in what later steps compute with: the row is as good as its neighbours, and is applied with them."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from app.align.transactions import held_from
from app.config.on_skip import OnSkip
from app.epoch.epoch_batch import EpochBatch
from app.model.arrow import compute
from app.model.row_layout import Layout, RowKind
from app.model.rows import MOST_TS_MS
from tests import messages as m
from tests.fix_bare_lane import BareLane, MakeBareLane
from tests.fix_decode import TOPIC, Decoded
from tests.fix_target import Target
from tests.messages import Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
LONG = 2**63
TIMES = [300_000_000_000_000, MOST_TS_MS + 1, LONG - 1, -1, -LONG]
SEQUENCES = [
    "",
    "[]",
    "{}",
    "[1,2]",
    '["x","y"]',
    '["1"]',
    '["1","2","3"]',
    f'["{LONG}","{LONG}"]',
    '["' + "9" * 400 + '","1"]',
    "[" * 5000,
    '["-1","1"]',
]
PLACES = [-1, 0, LONG - 1, -LONG]
PARTS: list[Any] = [
    [{"data_collection": "public.flat"}],
    [{"event_count": 3}],
    [{"data_collection": 7, "event_count": "x"}],
    [{"data_collection": "public.flat", "event_count": -5}],
    [None, 1, "x", []],
]


def row(number: int, v: str = "x", **origin: Any) -> Message:
    """A change of FLAT, with other values in its `source`."""
    message = Debezium().create(FLAT, {"id": number, "v": v})
    assert message.value is not None
    body = json.loads(message.value)
    body["source"] |= origin
    return replace(message, value=json.dumps(body, separators=(",", ":")).encode())


def in_transaction(d: Debezium, number: int, place: Any) -> Message:
    """A change of FLAT whose place in its transaction is another one."""
    message = d.create(FLAT, {"id": number, "v": "x"})
    assert message.value is not None
    body = json.loads(message.value)
    body["transaction"]["total_order"] = place
    return replace(message, value=json.dumps(body, separators=(",", ":")).encode())


def computed(rows: pa.Table) -> None:
    """All that is computed of an epoch."""
    EpochBatch.arrange(rows).rehearse()


@pytest.mark.costly(4)
@pytest.mark.parametrize("ts_ms", TIMES)
def test_a_time_that_is_none(ts_ms: int, decode: Decoded) -> None:
    rows = decode([row(1), row(2, ts_ms=ts_ms), row(3)])
    assert [time is None for time in rows["ts_ms"].to_pylist()] == [False, True, False]
    assert [Layout.parse(text).kind for text in rows["layout"].to_pylist()] == [RowKind.UPSERT] * 3
    computed(rows)


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda text: text[:20])
def test_a_source_position_that_is_none(sequence: str, decode: Decoded) -> None:
    """It only orders several topics: the row stays behind the one before it in its own."""
    rows = decode([row(1), row(2, sequence=sequence), row(3)])
    other = rows.set_column(0, "topic", pa.array(["another"] * 3))
    epoch = EpochBatch.arrange(pa.concat_tables([rows, other]))
    for topic in (TOPIC, "another"):
        found = epoch.rows.filter(compute.equal(epoch.rows["topic"], topic))
        assert found["offset"].to_pylist() == [0, 1, 2]
    epoch.rehearse()


#: compiled code leaves transactions to the other decoder
with_transactions = pytest.mark.parametrize("decode", ["python"], indirect=True)


@with_transactions
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("topics", [[TOPIC], [TOPIC, "markers"]], ids=len)
def test_a_place_in_a_transaction_that_is_none(place: int, topics: list[str], decode: Decoded) -> None:
    """The change counts as one of its transaction's all the same, which is whole with it."""
    d = Debezium()
    rows = decode([d.begin(), in_transaction(d, 1, place), in_transaction(d, 2, 2), d.end()])
    assert held_from(rows, topics, "lane") == {}


@with_transactions
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_counts_of_a_transaction_that_are_none(parts: Any, decode: Decoded) -> None:
    """Nothing is waited for that may never come."""
    d = Debezium()
    *messages, end = d.begin(), in_transaction(d, 1, 1), d.end()
    assert end.value is not None
    body = json.loads(end.value)
    body["data_collections"] = parts
    rows = decode([*messages, replace(end, value=json.dumps(body).encode())])
    assert held_from(rows, [TOPIC, "public.flat"], "lane") == {}


@pytest.mark.parametrize("key", [b"[" * 5000, b'{"id":', b"\xff\xfe", b"", b"[]"], ids=lambda key: repr(key[:8]))
def test_a_key_that_is_no_row(key: bytes, decode: Decoded) -> None:
    computed(decode([row(1), replace(row(2), key=key), row(3)]))


@pytest.fixture
def lane(target: Target, bare_lane: MakeBareLane) -> BareLane:
    """A lane that skips."""
    target.execute("create table flat (id int primary key, v text)")
    return bare_lane(on_skip=OnSkip.CONTINUE)


NONSENSE: dict[str, Callable[[], Message]] = {
    "microseconds in ts_ms": lambda: row(201, ts_ms=300_000_000_000_000),
    "a sequence that is no JSON": lambda: row(201, sequence="nonsense"),
    "a deep key": lambda: replace(row(201), key=b"[" * 5000),
}


@pytest.mark.costly(4)
@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.parametrize("at", [0, 100, 200])
def test_it_is_applied_with_200_others(name: str, at: int, lane: BareLane) -> None:
    messages = [row(number) for number in range(200)]
    messages.insert(at, NONSENSE[name]())
    record = lane.apply(messages)
    assert (record.counts.applied, record.counts.quarantined) == (201, 0)
    assert len(lane.target.rows("public.flat")) == 201
    assert lane.target.execute("select from surelane.suspect where lane = :lane", lane=lane.name) == []
