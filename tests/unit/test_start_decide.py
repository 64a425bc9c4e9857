"""The start table, pure: what is decided from checkpoint and ledger, branch by branch."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.errors import Diverged, ExitStatus
from app.model.gid import Gid
from app.model.offsets import Offsets, Span, TopicPartition
from app.protocol.start_table import Planned, PreparedOutcome, Start, decide, ending
from app.protocol.target_participant import lost
from tests.runbook import commands

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def at(a: int, b: int | None = None) -> Offsets:
    """A position."""
    return Offsets.of({A: a} if b is None else {A: a, B: b})


def planned(start: Offsets, end: Offsets, *, complete: bool) -> Planned:
    """An epoch of a checkpoint."""
    return Planned(epoch=3, span=Span(start=start, end=end), complete=complete)


@pytest.mark.parametrize(
    ("checkpoint", "ledger", "expected"),
    [
        (None, None, Start.FIRST),
        (None, at(20), Start.RESUME),
        (planned(at(0), at(20), complete=False), None, Start.REPLAY),
        (planned(at(10), at(20), complete=True), at(20), Start.GO_ON),
        (planned(at(10), at(20), complete=False), at(20), Start.SKIP),
        (planned(at(10), at(20), complete=False), at(10), Start.REPLAY),
        (planned(at(10), at(20), complete=True), at(25), Start.RESUME),
        (planned(at(10), at(20), complete=False), at(25), Start.RESUME),
        (planned(at(10), at(20), complete=False), at(15), Start.RESUME),
        # a partition that only one side knows begins at 0
        (planned(at(10), at(20, 0), complete=True), at(20), Start.GO_ON),
        (planned(at(10), at(20, 5), complete=False), at(10), Start.REPLAY),
        (planned(at(10, 5), at(20, 5), complete=True), at(20, 5), Start.GO_ON),
    ],
)
def test_the_lane_goes_on(checkpoint: Planned | None, ledger: Offsets | None, expected: Start) -> None:
    assert decide("orders", checkpoint, ledger) is expected


@pytest.mark.parametrize(
    ("checkpoint", "ledger"),
    [
        (planned(at(0), at(20), complete=True), None),
        (planned(at(10), at(20), complete=False), None),
        (planned(at(10), at(20), complete=True), at(10)),
        (planned(at(10), at(20), complete=True), at(19)),
        (planned(at(10), at(20), complete=False), at(9)),
        (planned(at(10), at(20), complete=True), at(0)),
        (planned(at(10, 10), at(20, 20), complete=True), at(30, 10)),
        (planned(at(10, 10), at(20, 20), complete=False), at(30, 9)),
        (planned(at(10), at(20, 5), complete=True), at(20)),
    ],
)
def test_a_target_that_lacks_what_was_decided_is_refused(checkpoint: Planned, ledger: Offsets | None) -> None:
    with pytest.raises(Diverged) as refused:
        decide("orders", checkpoint, ledger)
    assert refused.value.exit_status is ExitStatus.DIVERGED
    for word in ("orders", str(ledger or "nothing"), "epoch 3", "recover --from-ledger"):
        assert word in str(refused.value)


positions = st.integers(0, 5)


@given(positions, positions, positions, st.booleans())
def test_nothing_between_target_and_next_epoch_is_ever_lost_or_done_twice(
    start: int, end: int, ledger: int, complete: bool
) -> None:
    """Where the lane goes on from is exactly where the target is, whatever the numbers are."""
    assume(start < end)
    decided = end if complete else start
    try:
        how = decide("orders", planned(at(start), at(end), complete=complete), at(ledger))
    except Diverged:
        assert ledger < decided
        return
    assert ledger >= decided
    spark_goes_on_at = {Start.GO_ON: end, Start.SKIP: end, Start.REPLAY: start, Start.RESUME: ledger}
    assert spark_goes_on_at[how] == ledger
    assert how is not Start.SKIP or not complete


GID = Gid("orders", 7, 3)


def test_a_lost_epoch_s_hint_is_the_runbook_s_section_with_its_names() -> None:
    hint = lost(GID).hint or ""
    page = [one for one in commands("restore-and-replay.md") if one.section == "Stopped with status 6"]
    printed = [line.partition("#")[0].split() for line in hint.splitlines()[1:]]
    assert printed == [one.arguments(gid=str(GID)) for one in page]
    assert "lane orders" in hint


@pytest.mark.parametrize(
    ("generations", "checkpoint", "complete", "expected"),
    [
        ({7: "this"}, "this", True, PreparedOutcome.COMMIT),
        ({7: "this"}, "this", False, PreparedOutcome.ROLL_BACK),
        ({7: "other", 8: "this"}, "this", True, PreparedOutcome.ORPHAN),
        ({7: "other"}, "this", False, PreparedOutcome.ORPHAN),
        ({8: "this"}, "this", True, PreparedOutcome.ORPHAN),
        ({7: "this"}, None, True, PreparedOutcome.ORPHAN),
        ({}, None, False, PreparedOutcome.ORPHAN),
    ],
)
def test_the_checkpoint_decides_about_a_prepared_transaction(
    generations: dict[int, str], checkpoint: str | None, complete: bool, expected: PreparedOutcome
) -> None:
    assert ending(GID, generations, checkpoint, complete) is expected
