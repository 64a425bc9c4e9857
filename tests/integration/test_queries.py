"""Queries: a window, a join of streams and `transformWithState` equal what Postgres computes of the same changes."""

from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY
from pyspark.sql import SparkSession

from app.config.settings import CommitMode
from app.errors import ConfigInvalid
from tests.fix_lane import MODES, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import QUERIES, Shop, with_options
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


@pytest.fixture
def in_memory(spark: SparkSession, options: None) -> Iterator[None]:
    """The same with the state in the JVM."""
    del options
    yield from with_options(spark, backend="memory")


#: each query in a mode, and one of them in each mode; the rest with --full-matrix
SAMPLE = {"by_minute": MODES, "pairs": (CommitMode.AT_LEAST_ONCE,), "counts": (CommitMode.TWO_PHASE,)}
CASES = [
    pytest.param(query, mode, marks=() if mode in SAMPLE[query] else pytest.mark.full)
    for query in QUERIES
    for mode in MODES
]


@pytest.mark.parametrize(("query", "mode"), CASES)
def test_a_query_equals_the_batch(mode: CommitMode, query: str, lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    made = lane(mode, queries={query: {**QUERIES[query], "max_messages": 60}}).of_query(query)
    for count in (150, 50):
        shop.send(count)
        made.run_until_caught_up()
        assert shop.result(query) == shop.batch(query)
    assert target.prepared() == []
    counted = target.ledger_sum(made.name)
    assert counted.consumed == counted.applied > 0


@pytest.mark.usefixtures("in_memory")
def test_state_in_memory(lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """Another process goes on with it. There is none of `transformWithState`."""
    shop = Shop(target, topic, seed=3)
    shop.prepare()
    queries = {name: {**QUERIES[name], "state": {"backend": "memory"}} for name in ("by_minute", "counts")}
    whole = lane(CommitMode.TWO_PHASE, queries=queries)
    made = whole.of_query("by_minute")
    shop.send(150)
    made.run_until_caught_up()
    assert shop.result("by_minute") == shop.batch("by_minute")
    shop.send(50)
    process = lane_process(whole, until_caught_up=True, arguments=("--query", "by_minute")).start()
    assert process.wait() == 0, process.tail()
    assert shop.result("by_minute") == shop.batch("by_minute")
    # what each epoch changed, as this backend writes it
    assert list(made.checkpoint.glob("state/0/*/2.delta"))
    with pytest.raises(ConfigInvalid, match=r"(?s)transformWithState .*backend: rocksdb"):
        whole.of_query("counts").run_until_caught_up()


def test_figures_of_the_state(lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=2)
    shop.prepare()
    watched = {**QUERIES["by_minute"], "changes": {"public.orders": {"watermark": "1 hours"}}}
    made = lane(CommitMode.TWO_PHASE, queries={"by_minute": watched}).of_query("by_minute")
    shop.send(100)

    def figure(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"surelane_query_{name}", {"lane": made.name, **labels}) or 0.0

    made.start()
    made.until_caught_up(topic)
    eventually(lambda: figure("state_rows") > 0, why="the state's figures")
    shop.send(20)
    made.until_caught_up(topic)
    rows = len(shop.result("by_minute"))
    eventually(lambda: figure("rows_total", change="upserted") >= rows, why="rows to be counted")
    for name in ("state_rows", "state_memory_bytes", "state_commit_seconds", "state_load_seconds"):
        assert eventually(lambda name=name: figure(name), why=name) > 0
    newest = max(ts for _, ts, _, _ in shop.seen) / 1000
    eventually(lambda: newest - 3 * 3600 < figure("watermark_timestamp_seconds") <= newest, why="the watermark")
    made.stop()
