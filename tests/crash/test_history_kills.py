"""A lane with history and soft delete, killed at places of its epochs: rows and current versions always agree."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.config.settings import CommitMode
from tests.crash.killing import TIMEOUT_SECONDS, Looks, killed_at, places_of
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import OWNER, Target
from tests.fix_topic import Topic
from tests.integration.test_history import BATCH, EVERY_BATCH, FOUND
from tests.queries import ORDERS, Shop

SOFT_DELETE = {"public.orders": {"column": "deleted_at"}}
#: whether each change makes a version
EVERY = {CommitMode.AT_LEAST_ONCE: True, CommitMode.LEDGER: False, CommitMode.TWO_PHASE: True}
#: one statement, one snapshot
DISAGREE = """
    select coalesce(t.id, h.id) from (select id, amount from orders where deleted_at is null) t
    full join (select id, amount from reports.orders_history where valid_to is null) h using (id)
    where t.amount is distinct from h.amount
"""


@pytest.mark.costly(1)
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", CommitMode)
def test_kills(
    mode: CommitMode, kills: int, seed: int, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    shop = Shop(target, topic, seed)
    target.create(ORDERS)
    target.execute("alter table orders add column deleted_at timestamptz")
    target.create_schema("reports")
    target.execute(f"grant create on schema reports to {OWNER}")
    history = {"public.orders": {"table": "reports.orders_history", "every_change": EVERY[mode]}}
    made = lane(mode, epoch={"max_messages": 40}, target={"history": history, "soft_delete": SOFT_DELETE})

    def disagree() -> Sequence[Any]:
        is_there = target.execute("select from pg_tables where tablename = 'orders_history'")
        return target.execute(DISAGREE) if is_there else []

    reader = Looks(disagree)
    killed_at(made, lane_process, places_of(mode), kills, seed, lambda: shop.send(90))
    reader.stop()
    shop.fill_seen()
    batch = EVERY_BATCH if EVERY[mode] else BATCH
    arguments = {} if EVERY[mode] else {"topic": topic.name, "lane": made.name}
    assert target.execute(FOUND) == target.execute(batch, **arguments)
    rows = target.execute("select id, amount from orders where deleted_at is null order by 1")
    assert [tuple(row) for row in rows] == sorted((key, row["amount"]) for key, row in shop.rows.items())
    assert target.prepared() == []
