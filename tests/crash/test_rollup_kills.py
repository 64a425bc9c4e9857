"""A lane with rollups, killed at places of its epochs: the groups are those of the rows, for every reader."""

from typing import Any

import pytest

from app.config.settings import CommitMode
from app.failpoint import EARLY_NAMES
from tests.crash.killing import (
    EPOCH_MESSAGES,
    KILLS,
    MODES,
    TIMEOUT_SECONDS,
    Kills,
    Looks,
    places_of,
    three_epochs,
)
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.queries import ORDERS, Shop
from tests.rollups import RollupUnderTest

#: with extremes, and without: the trigger functions differ
BY_CUSTOMER = RollupUnderTest(
    "by_customer",
    {
        "of": "public.orders",
        "by": ["customer"],
        "bucket": {"column": "at", "width": "10 minutes"},
        "aggregates": {"orders": "count", "amount": "sum(amount)", "least": "min(amount)", "most": "max(amount)"},
    },
    "select customer, date_bin('10 minutes', at, '2000-01-01Z') as bucket, count(*) as orders, sum(amount) as amount,"
    " min(amount) as least, max(amount) as most from public.orders group by 1, 2",
)
BY_NOTE = RollupUnderTest(
    "by_note",
    {"of": "public.orders", "by": ["note"], "aggregates": {"orders": "count", "amount": "sum(amount)"}},
    "select note, count(*) as orders, sum(amount) as amount from public.orders group by 1",
)
ROLLUPS = (BY_CUSTOMER, BY_NOTE)


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", MODES)
def test_kills(mode: CommitMode, kills: Kills, seed: int, lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed)
    target.create(ORDERS)
    made = lane(
        mode, epoch={"max_messages": EPOCH_MESSAGES}, rollups={one.name: one.prepare(target) for one in ROLLUPS}
    )

    def differences() -> list[Any]:
        return [row for one in ROLLUPS if one.is_made(target) for row in one.differences(target)]

    with Reader(target, topic) as reader:
        groups = Looks(differences)
        kills.at(made, places_of(mode, *EARLY_NAMES), KILLS, three_epochs(shop, made.name))
        groups.stop()
        questions(target, topic, exactly_once=made.exactly_once, reader=reader)
    for one in ROLLUPS:
        assert one.differences(target) == []
        assert one.groups(target)
