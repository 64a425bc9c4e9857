"""Verbs that change the state of a query, killed in the middle: the query goes on with the state from before or from
after them, never with a part."""

import os
import re
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.config.settings import CommitMode
from app.db.engine import make_engine
from app.errors import Refused, StateUnfit, Unreachable
from app.failpoint import REBUILD_NAMES, RESCALE_NAMES
from app.kafka.broker import Broker
from app.query import rebuilding, stored_state
from app.query.rescaling import rescale
from app.recover import stopped_lanes
from app.recover.stopped_lanes import LaneRunning
from tests.crash.cases import TWO_PHASE_ONLY
from tests.crash.killing import TIMEOUT_SECONDS
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_proxy import Proxy
from tests.fix_recover import killed, process
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.hostile import at_commit
from tests.queries import LINES, QUERIES, Shop, with_options
from tests.query_sinks import epochs, offsets_of, rows_of
from tests.waiting import eventually

BEFORE, AFTER, OTHER = 2, 8, 3
#: of rebuilds
QUERY = "by_minute"
#: number of an advisory lock
LOCK = 4711
#: what Spark writes for the epoch `{epoch}`, in this order; the state's version `{version}` is one higher
WRITTEN = {
    "entry": "offsets/{epoch}",
    "state": "state/0/*/{version}.*",
    "metadata": "state/0/_metadata/v2/{epoch}",
    "decision": "commits/{epoch}",
}
BEFORE_DECISION, BEFORE_LEDGER = "before-decision", RESCALE_NAMES[0]
#: place, query, and the number of partitions of the next call
_ORDINARY = (BEFORE_DECISION, "by_minute", OTHER)
_CASES = [
    *((place, "by_minute", OTHER) for place in (*WRITTEN, BEFORE_DECISION, *RESCALE_NAMES)),
    *((place, query, AFTER) for place in ("state", BEFORE_DECISION, BEFORE_LEDGER) for query in ("pairs", "counts")),
]
RESCALES = [pytest.param(*case, marks=() if case == _ORDINARY else pytest.mark.full) for case in _CASES]


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


def _cases(places: Sequence[str], ordinary: str) -> list[Any]:
    """Each place in each mode that has it; an ordinary run takes one."""
    return [
        pytest.param(place, mode, marks=() if (place, mode) == (ordinary, CommitMode.TWO_PHASE) else pytest.mark.full)
        for mode in CommitMode
        for place in places
        if mode is CommitMode.TWO_PHASE or place not in TWO_PHASE_ONLY
    ]


def _made(shop: Shop, lane: MakeLane, query: str, mode: CommitMode = CommitMode.TWO_PHASE) -> LaneUnderTest:
    shop.prepare()
    shop.send(150)
    return lane(mode, queries={query: {**QUERIES[query], "max_messages": 60}}).of_query(query)


def _kill_rescale(made: LaneUnderTest, query: str, place: str) -> None:
    """At a failpoint, or when a file of the next epoch appears."""
    epoch = made.checkpoint_files.complete()[-1] + 1
    words = ("state", "rescale", query, "--partitions", str(AFTER), "--config", str(made.config_file))
    if place not in WRITTEN:
        killed(BEFORE_LEDGER if place == BEFORE_DECISION else place, *words)
        if place == BEFORE_DECISION:
            made.checkpoint_files.forget_commit(epoch)
        return
    pattern = WRITTEN[place].format(epoch=epoch, version=epoch + 1)
    with process(*words, failpoint="") as verb:
        eventually(lambda: verb.poll() is not None or any(made.checkpoint.glob(pattern)), why=pattern)
        if verb.poll() is None:
            os.killpg(verb.pid, signal.SIGKILL)
        verb.communicate()


def _partitions(spark: SparkSession, made: LaneUnderTest) -> set[int]:
    return {one["numPartitions"] for one in stored_state.operators(spark, made.settings.checkpoint)}


def _equals_batch(shop: Shop, made: LaneUnderTest, query: str) -> None:
    """Each epoch is in the ledger once, each message counts once, and nothing is prepared."""
    shop.send(60)
    made.run_until_caught_up()
    assert shop.result(query) == shop.batch(query)
    target = shop.target
    assert target.prepared() == []
    assert [row.epoch for row in target.epochs(made.name)] == made.checkpoint_files.complete()
    assert target.ledger_sum(made.name).applied == len(target.position(made.name)) * len(shop.topic.sent)
    assert target.execute("select relname from pg_class where relname ~ '^rebuild_' and relkind = 'r'") == []


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize(("place", "query", "partitions"), RESCALES)
def test_a_rescale(
    place: str, query: str, partitions: int, lane: MakeLane, spark: SparkSession, target: Target, topic: Topic
) -> None:
    """The query refuses to start from a part, with the command that goes on; that may be called with another number."""
    shop = Shop(target, topic, seed=21)
    made = _made(shop, lane, query)
    made.run_until_caught_up()
    last = made.checkpoint_files.complete()[-1]
    _kill_rescale(made, query, place)
    is_decided = last + 1 in made.checkpoint_files.complete()
    assert _partitions(spark, made) == {AFTER if is_decided else BEFORE}
    if is_decided:
        _equals_batch(shop, made, query)
    elif last + 1 in made.checkpoint_files.planned():
        with pytest.raises(StateUnfit, match="not finished") as refused:
            made.run_until_caught_up()
        assert f"surelane state rescale {query} --partitions {AFTER}" in str(refused.value)
        assert shop.result(query) == shop.batch(query)
    rescale(made.settings, spark, target.as_lane, partitions)
    assert _partitions(spark, made) == {partitions}
    # as a kill before the ledger's row leaves it
    target.execute(
        "delete from surelane.ledger where lane = :lane and epoch = :epoch and plan = 'rescale'", **_newest(made)
    )
    _equals_batch(shop, made, query)


def _newest(made: LaneUnderTest) -> dict[str, Any]:
    return {"lane": made.name, "epoch": made.checkpoint_files.complete()[-1]}


def _begin(target: Target, made: LaneUnderTest) -> None:
    with Broker(made.settings.source) as broker:
        rebuilding.begin(made.settings, target.as_lane, broker, from_earliest=False)


REBUILDS = _cases(REBUILD_NAMES, "rebuild-before-commit")


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize(("place", "mode"), REBUILDS)
def test_a_rebuild(
    place: str,
    mode: CommitMode,
    lane: MakeLane,
    lane_process: MakeProcess,
    spark: SparkSession,
    target: Target,
    topic: Topic,
) -> None:
    """Of a query that was killed, too, with an epoch that is decided and not committed."""
    shop = Shop(target, topic, seed=23)
    made = _made(shop, lane, QUERY, mode)
    at = "before-commit" if mode is CommitMode.TWO_PHASE else "after-merge"
    assert lane_process(made, failpoint=f"{at}=kill@2", arguments=("--query", QUERY)).start().wait() < 0
    if mode is CommitMode.TWO_PHASE:
        with pytest.raises(Refused, match="prepared"):
            rescale(made.settings, spark, target.as_lane, AFTER)
    killed(place, "state", "rebuild", QUERY, "--config", str(made.config_file))
    is_forgotten = place == REBUILD_NAMES[2]
    assert (target.epochs(made.name) == []) is is_forgotten
    assert target.prepared() == []
    _equals_batch(shop, made, QUERY)


#: of the epoch that puts the new rows in place of the old ones
ENDS = _cases(("after-merge", "after-ledger", "after-pre-commit", "before-commit", "after-commit"), "before-commit")


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize(("place", "mode"), ENDS)
def test_the_end_of_a_rebuild(
    place: str, mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    shop = Shop(target, topic, seed=24)
    made = _made(shop, lane, QUERY, mode)
    made.run_until_caught_up()
    epochs = len(made.checkpoint_files.complete())
    _begin(target, made)
    started = lane_process(made, failpoint=f"{place}=kill@{epochs}", arguments=("--query", QUERY)).start()
    assert started.wait() < 0, started.tail()
    assert shop.result(QUERY) == shop.batch(QUERY)
    _equals_batch(shop, made, QUERY)


def test_a_lost_answer(
    lane: MakeLane, target: Target, topic: Topic, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is lost while the rebuild's transaction commits, which it does all the same. The server has not
    noticed, and its session keeps the lane's lock."""
    monkeypatch.setattr(stopped_lanes, "ENDING_SECONDS", 0.1)
    shop = Shop(target, topic, seed=25)
    made = _made(shop, lane, QUERY)
    at_commit(target, "insert on surelane.generation", f"perform pg_advisory_xact_lock({LOCK});")
    through = make_engine(proxy.url(target.url), target.owner_role)
    waiting = f"select from pg_locks where locktype = 'advisory' and objid = {LOCK} and not granted"
    with Broker(made.settings.source) as broker, ThreadPoolExecutor() as threads, target.engine.begin() as holder:
        holder.exec_driver_sql(f"select pg_advisory_xact_lock({LOCK})")
        begun = threads.submit(rebuilding.begin, made.settings, through, broker, from_earliest=False)
        eventually(lambda: target.execute(waiting), why="the COMMIT")
        proxy.lose()
        with pytest.raises(Unreachable, match="rebuild") as lost:
            begun.result()
    assert f"surelane state rebuild {QUERY}, once more" in str(lost.value)
    rebuilt = rebuilding.rebuild_name(made.name)
    eventually(lambda: target.execute("select from pg_class where relname = :name", name=rebuilt), why="the commit")
    target.execute("drop trigger at_commit on surelane.generation")
    with pytest.raises(LaneRunning) as refused:
        _begin(target, made)
    (command,) = re.findall(r"select pg_terminate_backend\(\d+\)", str(refused.value))
    assert target.execute(command) == [(True,)]
    eventually(lambda: not target.execute("select from pg_locks where locktype = 'advisory'"), why="its end")
    _begin(target, made)
    _equals_batch(shop, made, QUERY)


@pytest.mark.full
def test_files_that_are_decided(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """A rebuild ends them as a start does, and refuses to begin beside them."""
    shop = Shop(target, topic, seed=26)
    shop.prepare()
    shop.send(30)
    made = lane(CommitMode.TWO_PHASE, queries={"lines": {**LINES, "files": {"path": str(tmp_path)}}}).of_query("lines")
    killed_process = lane_process(made, failpoint="files-before-rename=kill", arguments=("--query", "lines")).start()
    assert killed_process.wait() < 0, killed_process.tail()
    with pytest.raises(Refused, match="of the former result"):
        _begin(target, made)
    made.run_until_caught_up()
    assert [row["offset"] for one in epochs(tmp_path / made.name) for row in rows_of(one)] == offsets_of(topic)
