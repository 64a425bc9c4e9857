"""A join of streams with a watermark that is shorter than some messages are late: it lacks what Spark leaves out, and
nothing else."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.config.settings import CommitMode
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import Shop, with_options

#: of half an hour, by which some of the shop's messages are late
DELAY = "1 minute"
CONFIG: Mapping[str, Any] = {
    "changes": {"public.orders": {"watermark": DELAY}},
    "sql": "select a.offset as made, b.offset as gone, a.after.id as id from changes_of_orders a"
    " join changes_of_orders b on a.after.id = b.before.id and b.ts between a.ts and a.ts + interval 30 minutes"
    " where a.op = 'c' and b.op = 'd'",
    "table": "reports.pairs",
    "max_messages": 40,
}
#: Each side of the join has a watermark, which sees what passes that side's filter; the smaller one counts, and none
#: before both have seen something. Too late in an epoch is what it had passed when the epoch before was planned. A row
#: of the state is dropped only when what it would match is too late.
BATCH = """
    with epochs as (
        select epoch, (start_position -> :topic ->> '0')::bigint as first,
            (end_position -> :topic ->> '0')::bigint as behind
        from surelane.ledger where lane = :lane and epoch >= 0
    ), read as (
        select epochs.epoch, seen.* from epochs left join seen on "offset" >= first and "offset" < behind
    ), newest as (
        select epoch, max(max(ts) filter (where op = 'c')) over (order by epoch) as made,
            max(max(ts) filter (where op = 'd')) over (order by epoch) as gone
        from read group by epoch
    ), marks as (
        select epoch, lag(case when made is not null and gone is not null then least(made, gone) end, 2)
            over (order by epoch) - cast(:delay as interval) as mark
        from newest
    ), judged as (
        select read.*, mark is not null and ts <= mark as late from read join marks using (epoch)
    )
    select a."offset", b."offset", a.id, a.late or b.late from judged a join judged b on a.id = b.id
    where a.op = 'c' and b.op = 'd' and b.ts between a.ts and a.ts + interval '30 minutes' order by 1, 2, 3
"""
BOTH_READ = (
    "select count(distinct value) from surelane.ledger, jsonb_each(end_position) where lane = :lane group by epoch"
)


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


def test_a_join_of_late_changes(lane: MakeLane, target: Target, topic: Topic) -> None:
    """In one run: after a restart Spark does not know any more which side has seen what."""
    shop = Shop(target, topic, seed=9)
    shop.prepare()
    made = lane(CommitMode.TWO_PHASE, queries={"pairs": CONFIG}).of_query("pairs")
    shop.send(400)
    shop.fill_seen()
    made.run_until_caught_up()
    assert set(target.execute(BOTH_READ, lane=made.name)) == {(1,)}, "both sides read the same epochs"
    pairs = [tuple(row) for row in target.execute(BATCH, topic=topic.name, lane=made.name, delay=DELAY)]
    assert shop.result("pairs") == [pair[:3] for pair in pairs if not pair[3]]
    late = [pair for pair in pairs if pair[3]]
    assert 0 < len(late) < len(pairs)
