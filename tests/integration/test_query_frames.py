"""A sink that reads the frame of an epoch in part, or twice: Spark writes the state of an epoch while tasks read it."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from app.config.settings import CommitMode
from app.errors import AccountingBroken, ExitStatus
from app.query.result_files import ResultFiles
from app.query.result_sink import ResultSink
from app.query.result_table import ResultTable
from app.query.staged_results import StagedPart
from tests.fix_lane import MODES, LaneUnderTest, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import LINES, QUERIES, Shop, with_options
from tests.query_sinks import epochs, offsets_of, rows_of

#: the sink's own staging
Stage = Callable[[DataFrame], list[StagedPart]]
#: what it does instead
Fault = Callable[[Stage, DataFrame], list[StagedPart]]
#: `faulty(sink, fault)`: sinks of this class do that in the second epoch
Faulty = Callable[[type[ResultSink], Fault], None]


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    def make(sink: type[ResultSink], fault: Fault) -> None:
        whole, calls = sink.staged, itertools.count()

        def staged(self: ResultSink, rows: DataFrame) -> list[StagedPart]:
            def stage(frame: DataFrame) -> list[StagedPart]:
                return whole(self, frame)

            return fault(stage, rows) if next(calls) == 1 else stage(rows)

        monkeypatch.setattr(sink, "staged", staged)

    return make


def in_part(stage: Stage, rows: DataFrame) -> list[StagedPart]:
    return stage(rows.limit(1))


def twice(stage: Stage, rows: DataFrame) -> list[StagedPart]:
    stage(rows)
    return stage(rows)


def _made(shop: Shop, lane: MakeLane, query: str, mode: CommitMode) -> LaneUnderTest:
    shop.prepare()
    shop.send(150)
    return lane(mode, queries={query: {**QUERIES[query], "max_messages": 60}}).of_query(query)


@pytest.mark.parametrize("mode", MODES)
def test_a_part_of_a_frame(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic, faulty: Faulty) -> None:
    """It is noticed before the epoch is decided."""
    shop = Shop(target, topic, seed=11)
    made = _made(shop, lane, "by_minute", mode)
    faulty(ResultTable, in_part)
    with pytest.raises(AccountingBroken, match=r"(?s)partitions \[0\] of the 2 .*report it") as stopped:
        made.run_until_caught_up()
    assert stopped.value.exit_status == ExitStatus.ACCOUNTING
    assert made.checkpoint_files.complete() == [0]
    assert [row.epoch for row in target.epochs(made.name)] == [0]
    assert shop.half_seen("by_minute", made.name) is None
    _is_clean(target, made)
    made.run_until_caught_up()
    assert shop.result("by_minute") == shop.batch("by_minute")
    _is_clean(target, made)


@pytest.mark.parametrize("query", ["by_minute", "counts"])
def test_a_frame_twice(query: str, lane: MakeLane, target: Target, topic: Topic, faulty: Faulty) -> None:
    """The state of the epoch is computed again, from that of the epoch before."""
    shop = Shop(target, topic, seed=13)
    made = _made(shop, lane, query, CommitMode.TWO_PHASE)
    faulty(ResultTable, twice)
    made.run_until_caught_up()
    assert shop.result(query) == shop.batch(query)
    shop.send(60)
    made.run_until_caught_up()
    assert shop.result(query) == shop.batch(query)
    assert target.ledger_sum(made.name).applied == len(topic.sent)
    _is_clean(target, made)


def test_a_frame_twice_to_files(lane: MakeLane, target: Target, topic: Topic, faulty: Faulty, tmp_path: Path) -> None:
    """Files of the first time are no part of the epoch."""
    shop = Shop(target, topic, seed=14)
    shop.prepare()
    shop.send(150)
    (tmp_path / "rows").mkdir()
    query = {**LINES, "max_messages": 60, "files": {"path": str(tmp_path / "rows"), "format": "parquet"}}
    made = lane(CommitMode.TWO_PHASE, queries={"lines": query}).of_query("lines")
    faulty(ResultFiles, twice)
    made.run_until_caught_up()
    folders = epochs(tmp_path / "rows" / made.name)
    assert sorted(row["offset"] for folder in folders for row in rows_of(folder)) == offsets_of(topic)
    assert len(folders) == 3


def _is_clean(target: Target, made: LaneUnderTest) -> None:
    assert target.prepared() == []
    for table in ("quarantine", "suspect"):
        assert target.execute(f"select from surelane.{table} where lane = :lane", lane=made.name) == []
