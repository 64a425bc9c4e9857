"""When a switch pauses the original: once the copy is so near that its lane is there in a few epochs."""

import datetime
from collections.abc import Callable, Iterator

import pytest

from app.ledger.shadow_copies import ShadowCopy, ShadowState
from app.model.offsets import Offsets, TopicPartition
from app.shadow.switching import NEAR, NEAR_EPOCHS, ShadowStatus, wait_until_near

COPY = ShadowCopy(
    lane="new",
    original="old",
    savepoint="before",
    copy_schema="copy",
    old_schema="old",
    old_tables=(),
    new_tables=(),
    state=ShadowState.FOLLOWING,
    by="a test",
    at=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
)


def looks(behind: Iterator[int]) -> Callable[[], ShadowStatus]:
    at = TopicPartition("orders", 0)

    def look() -> ShadowStatus:
        offset = 1_000_000 - next(behind)
        return ShadowStatus(copy=COPY, original=Offsets.of({at: 1_000_000}), position=Offsets.of({at: offset}))

    return look


@pytest.mark.parametrize(("epoch", "near"), [(50, NEAR_EPOCHS * 50), (100_000, NEAR)])
def test_it_waits_for_a_copy_that_is_far(epoch: int, near: int) -> None:
    behind, said = iter([near + 500, near + 1, near, 7]), list[str]()
    wait_until_near(looks(behind), epoch, said.append)
    assert len(said) == 2
    assert list(behind) == [7]
