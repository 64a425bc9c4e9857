"""A lane with a rollup, killed at places of its epochs: the groups are those of the rows, for every reader."""

from typing import Any

import pytest

from app.config.settings import CommitMode
from app.rollup import keeping
from tests.crash.killing import TIMEOUT_SECONDS, Looks, killed_at, places_of
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import OWNER, Target
from tests.fix_topic import Topic
from tests.oracle import equals_oracle, questions
from tests.queries import ORDERS, Shop

ROLLUPS: dict[str, Any] = {
    "by_customer": {
        "of": "public.orders",
        "table": "reports.by_customer",
        "by": ["customer"],
        "bucket": {"column": "at", "width": "10 minutes"},
        "aggregates": {"orders": "count", "amount": "sum(amount)", "least": "min(amount)", "most": "max(amount)"},
    }
}


@pytest.mark.costly(1)
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", CommitMode)
def test_kills(
    mode: CommitMode, kills: int, seed: int, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    shop = Shop(target, topic, seed)
    target.create(ORDERS)
    target.create_schema("reports")
    target.execute(f"grant create on schema reports to {OWNER}; grant trigger on public.orders to {OWNER}")
    made = lane(mode, epoch={"max_messages": 40}, rollups=ROLLUPS)

    def differences() -> list[Any]:
        if not target.execute("select from pg_tables where tablename = 'by_customer'"):
            return []
        with target.as_lane.connect() as connection, connection.begin():
            connection.exec_driver_sql("set transaction isolation level repeatable read")
            (one,) = keeping.definitions(connection, made.settings)
            return keeping.differences(connection, one, 3)

    reader = Looks(differences)
    killed_at(made, lane_process, places_of(mode), kills, seed, lambda: shop.send(90))
    reader.stop()
    equals_oracle(target, topic)
    questions(target, topic, exactly_once=mode is not CommitMode.AT_LEAST_ONCE)
    assert target.execute("select from reports.by_customer")
