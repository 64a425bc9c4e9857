"""A gid says whose it is, and no other transaction is ever taken for a lane's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.gid import LANE_NAME, Gid

#: Postgres' limit for a transaction identifier
MAX_GID_BYTES = 199

lanes = st.from_regex(LANE_NAME, fullmatch=True)
lane_names = st.one_of(lanes, st.builds("{}.{}".format, lanes, st.integers(0, 9999)))
numbers = st.integers(0, 2**63 - 1)
gids = st.builds(Gid, lane_names, numbers, numbers)


@given(gids)
def test_a_gid_is_read_as_it_was_written(gid: Gid) -> None:
    assert Gid.parse(str(gid)) == gid
    assert gid.belongs_to(gid.lane)
    assert len(str(gid).encode()) <= MAX_GID_BYTES


@given(gids, gids)
def test_two_gids_never_have_one_text(one: Gid, other: Gid) -> None:
    assert (str(one) == str(other)) == (one == other)


@given(gids, st.text(max_size=3), st.text(max_size=3))
def test_what_parses_is_exactly_what_would_be_written(gid: Gid, before: str, after: str) -> None:
    text = f"{before}{gid}{after}"
    parsed = Gid.parse(text)
    assert parsed is None or str(parsed) == text


@given(gids, lane_names)
def test_a_lane_owns_only_what_has_exactly_its_name(gid: Gid, lane: str) -> None:
    assert gid.belongs_to(lane) == (gid.lane == lane)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "surelane:orders:1",
        "surelane:orders:1:2:3",
        "surelane:orders:1:2\n",
        " surelane:orders:1:2",
        "surelane:Orders:1:2",
        "surelane::1:2",
        "surelane:1st:1:2",
        "surelane:orders:-1:2",
        "surelane:orders:1:+2",
        "surelane:orders:01:2",
        "surelane:orders:1:00",
        "surelane:orders:\u0661:2",
        "surelane:orders.:1:2",
        "surelane:orders.X:1:2",
        "surelane:orders.x.1:1:2",
        "surelane:orders.1.2:1:2",
        "surelane:" + "a" * 64 + ":1:2",
        "surelane2:orders:1:2",
        "flink:surelane:orders:1:2",
        "_sa_4f2",
    ],
)
def test_a_foreign_transaction_has_no_gid(text: str) -> None:
    assert Gid.parse(text) is None


def test_a_lane_and_its_partitions_are_different_lanes() -> None:
    gid = Gid("orders.1", 1, 1)
    assert not gid.belongs_to("orders")
    assert not gid.belongs_to("orders.11")
