"""The archive's files: what is written comes back, and what is not whole is never taken for it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.archive.file import FileWriter, blocks, head_of, messages, verify
from app.archive.line_format import VERSION, EpochLine, HeadLine
from app.archive.names import EpochId, Name
from app.archive.offset_ranges import Stretch, gaps, missing, reach, union
from app.errors import Diverged
from app.model.gid import Gid
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition

TP = TopicPartition("shop.cdc", 0)
CONTENT = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
MESSAGES = st.lists(
    st.builds(
        RawMessage,
        position=st.builds(Position, st.just(TP.topic), st.just(0), st.integers(0, 1 << 62)),
        key=CONTENT,
        value=CONTENT,
        headers=st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3).map(tuple),
        timestamp_ms=st.none() | st.integers(0, 1 << 50),
    ),
    max_size=20,
)
HEAD = HeadLine(VERSION, "orders", "cluster", {TP.topic: "id"}, [EpochLine.of(EpochId(1, 2), 3.5, [Stretch(TP, 0, 9)])])


def written(path: Path, content: list[RawMessage]) -> Path:
    writer = FileWriter(path, HEAD, 3)
    for block in blocks(content, 3):
        writer.write(block)
    writer.end()
    return path


@given(content=MESSAGES)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_comes_back(tmp_path: Path, content: list[RawMessage]) -> None:
    """Every byte of key, value and headers, and what has none."""
    path = written(tmp_path / "one", content)
    assert verify(path).messages == len(content)
    assert (head_of(path), list(messages(path))) == (HEAD, content)


def test_whatever_is_cut_off_or_changed_is_noticed(tmp_path: Path) -> None:
    """Each length, and each byte."""
    content = [
        RawMessage(position=Position(*TP, at), key=b"k", value=b"%d" % at, headers=(), timestamp_ms=at)
        for at in range(20)
    ]
    whole = written(tmp_path / "whole", content).read_bytes()
    bad = tmp_path / "bad"
    for length in range(len(whole)):
        bad.write_bytes(whole[:length])
        with pytest.raises(Diverged):
            verify(bad)
    for at in range(len(whole)):
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            verify(bad)
        except Diverged:
            continue
        assert (head_of(bad), list(messages(bad))) == (HEAD, content), "a byte that means nothing, in a frame's header"


def test_without_its_end_it_is_not_whole(tmp_path: Path) -> None:
    """Frames that are whole in themselves, as a death between two of them leaves them."""
    writer = FileWriter(tmp_path / "one", HEAD, 3)
    writer.close()
    with pytest.raises(Diverged, match="its end is missing"):
        verify(tmp_path / "one")


@given(
    lane=st.from_regex(r"[a-z][a-z0-9_-]{0,20}(\.[0-9])?", fullmatch=True),
    first=st.tuples(st.integers(0), st.integers(0)),
)
def test_names(lane: str, first: tuple[int, int]) -> None:
    """Like a gid: they say whose they are, and another spelling is another program's."""
    one = Name(lane, EpochId(*first), EpochId(*first))
    assert (Name.parse(str(one)), one.gid, Name.of(Gid(lane, *first))) == (one, Gid(lane, *first), one)
    several = Name(lane, EpochId(*first), EpochId(first[0] + 1, 0))
    assert (Name.parse(str(several)), several.gid) == (several, None)
    assert Name.parse(f"{one}x") is Name.parse(one.part) is Name.parse(f"{lane}@01-2.jsonl.zst") is None


OFFSETS = st.integers(0, 30)
STRETCHES = st.lists(st.tuples(OFFSETS, OFFSETS).map(lambda pair: Stretch(TP, min(pair), max(pair))), max_size=6)


@given(known=STRETCHES, ends=st.tuples(OFFSETS, OFFSETS))
def test_stretches_are_sets_of_offsets(known: list[Stretch], ends: tuple[int, int]) -> None:
    """What is kept, what is missing, how far it reaches, where the gaps are."""
    held = {offset for one in known for offset in range(one.start, one.end)}
    kept, (start, end) = union(known), sorted(ends)
    assert {offset for low, high in kept.get(TP, []) for offset in range(low, high)} == held
    assert all(before < after for (_, before), (after, _) in zip(kept.get(TP, []), kept.get(TP, [])[1:], strict=False))
    span = Span(start=Offsets.of({TP: start}), end=Offsets.of({TP: end}))
    wanted = {offset for one in missing(kept, span) for offset in range(one.start, one.end)}
    assert wanted == set(range(start, end)) - held
    reached = reach(kept, Offsets.of({TP: start}))[TP]
    assert set(range(start, reached)) <= held
    assert reached not in held
    between = {offset for one in gaps(kept) for offset in range(one.start, one.end)}
    assert between == (set(range(min(held), max(held))) - held if held else set())
