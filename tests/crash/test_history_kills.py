"""A lane with history and soft delete, killed at places of its epochs: rows, versions and ledger always agree."""

from collections.abc import Sequence
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
from tests.fix_target import OWNER, Target
from tests.fix_topic import Topic
from tests.integration.test_history import BATCH, EVERY_BATCH, FOUND
from tests.queries import ORDERS, Shop

SOFT_DELETE = {"public.orders": {"column": "deleted_at"}}
#: whether each change makes a version
EVERY = {CommitMode.AT_LEAST_ONCE: True, CommitMode.LEDGER: True, CommitMode.TWO_PHASE: False}
#: one statement, one snapshot
DISAGREE = """
    select coalesce(t.id, h.id) from (select id, amount from orders where deleted_at is null) t
    full join (select id, amount from reports.orders_history where valid_to is null) h using (id)
    where t.amount is distinct from h.amount
"""


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", MODES)
def test_kills(mode: CommitMode, kills: Kills, seed: int, lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed)
    target.create(ORDERS)
    target.execute("alter table orders add column deleted_at timestamptz")
    target.create_schema("reports")
    target.execute(f"grant create on schema reports to {OWNER}")
    history = {"public.orders": {"table": "reports.orders_history", "every_change": EVERY[mode]}}
    made = lane(mode, epoch={"max_messages": EPOCH_MESSAGES}, target={"history": history, "soft_delete": SOFT_DELETE})

    def wrong() -> Sequence[Any]:
        is_there = target.execute("select from pg_tables where tablename = 'orders_history'")
        return (target.execute(DISAGREE) if is_there else []) or beside_the_ledger(shop, made.name)

    reader = Looks(wrong)
    kills.at(made, places_of(mode, *EARLY_NAMES), KILLS, three_epochs(shop, made.name))
    reader.stop()
    shop.fill_seen()
    batch = EVERY_BATCH if EVERY[mode] else BATCH
    arguments = {} if EVERY[mode] else {"topic": topic.name, "lane": made.name}
    assert target.execute(FOUND) == target.execute(batch, **arguments)
    rows = target.execute("select id, amount from orders where deleted_at is null order by 1")
    assert [tuple(row) for row in rows] == sorted((key, row["amount"]) for key, row in shop.rows.items())
    assert target.prepared() == []
    assert beside_the_ledger(shop, made.name) == []
    assert dict(target.position(made.name)) == topic.ends
    counted = target.ledger_sum(made.name)
    assert counted.adds_up
    once = counted.consumed - counted.duplicate
    assert once == len(topic.sent) if made.exactly_once else once >= len(topic.sent)
    assert target.execute("select from surelane.quarantine where lane = :lane", lane=made.name) == []


def beside_the_ledger(shop: Shop, lane: str) -> list[tuple[int, Any]]:
    """Rows that are not those of the messages before the ledger's end, of one snapshot."""
    position, tables = shop.target.snapshot([ORDERS.full_name], lane)
    (end,) = position.values() if position else (0,)
    alive: dict[int, Any] = {}
    for op, _, offset, row in shop.seen:
        if offset < end:
            alive.pop(row["id"], None)
            alive |= {} if op == "d" else {row["id"]: row["amount"]}
    rows = tables[ORDERS.full_name].values()
    return sorted({(row["id"], row["amount"]) for row in rows if row["deleted_at"] is None} ^ set(alive.items()))
