"""The state of queries in savepoints: what is recorded of it, and which configurations it fits."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.config.settings import CommitMode
from app.errors import ExitStatus
from app.ledger.query_states import QueryStates
from app.query.state_shape import planned_shape, stored_shape
from app.savepoint.compatibility import Compatibility
from app.savepoint.state_compatibility import compare_states
from tests.commands import apart
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Topic
from tests.hostile import fail_first_commits, has_failed
from tests.queries import LINES, QUERIES, Shop, with_options
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


def ran(shop: Shop, whole: LaneUnderTest, query: str) -> LaneUnderTest:
    """The query, after some epochs, when its state is recorded."""
    shop.prepare()
    made = whole.of_query(query)
    shop.send(150)
    made.start()
    states = QueryStates(SCHEMA)

    def recorded() -> bool:
        with shop.target.engine.begin() as connection:
            return states.find(connection, made.name) is not None

    eventually(recorded, why="the state to be recorded")
    made.stop()
    return made


@pytest.mark.costly(1)
@pytest.mark.parametrize("query", QUERIES)
def test_a_plan_has_the_shape_of_what_it_stores(
    query: str, lane: MakeLane, spark: SparkSession, target: Target, topic: Topic
) -> None:
    whole = lane(CommitMode.LEDGER, queries={query: {**QUERIES[query], "max_messages": 60}})
    made = ran(Shop(target, topic, seed=1), whole, query)
    stored = stored_shape(spark, made.settings.checkpoint)
    assert stored
    assert stored == planned_shape(made.settings, spark, target.as_lane)
    with target.engine.begin() as connection:
        assert QueryStates(SCHEMA).find(connection, made.name) == stored


def test_the_record_is_written_later(lane: MakeLane, spark: SparkSession, target: Target, topic: Topic) -> None:
    """Where its COMMIT failed."""
    fail_first_commits(target, "surelane.query_state")
    whole = lane(CommitMode.LEDGER, queries={"counts": {**QUERIES["counts"], "max_messages": 60}})
    made = ran(Shop(target, topic, seed=1), whole, "counts")
    assert has_failed(target)
    with target.engine.begin() as connection:
        assert QueryStates(SCHEMA).find(connection, made.name) == stored_shape(spark, made.settings.checkpoint)


def test_a_query_without_state_has_none(lane: MakeLane, spark: SparkSession, target: Target, topic: Topic) -> None:
    Shop(target, topic, seed=1).prepare()
    made = lane(CommitMode.LEDGER, queries={"lines": {**LINES, "kafka": {"topic": "any"}}}).of_query("lines")
    assert planned_shape(made.settings, spark, target.as_lane) == []


WINDOWS = QUERIES["by_minute"]["sql"]
CASES = [
    ("by_minute", {}, Compatibility.SAME, ""),
    ("by_minute", {"table": "reports.other"}, Compatibility.SAME, ""),
    (
        "by_minute",
        {"sql": WINDOWS.replace("after.customer", "cast(after.customer as string)")},
        Compatibility.INCOMPATIBLE,
        "the key of operator 0 .* string.*, was .* bigint",
    ),
    (
        "by_minute",
        {"sql": WINDOWS.replace("sum(after.amount)", "sum(cast(after.amount as double))")},
        Compatibility.INCOMPATIBLE,
        "the value of operator 0 ",
    ),
    (
        "by_minute",
        {"sql": WINDOWS.replace("count(*) as orders", "count(*) as orders, max(after.id) as newest")},
        Compatibility.INCOMPATIBLE,
        "the value of operator 0 ",
    ),
    ("counts", {"function": "tests.queries:counts_and_more"}, Compatibility.COMPATIBLE, "values have more columns"),
    ("counts", {"function": "tests.queries:counts_in_text"}, Compatibility.INCOMPATIBLE, "n string.*, was .n bigint"),
    ("counts", {"function": "tests.queries:pairs"}, Compatibility.INCOMPATIBLE, "operator 0 .* is "),
]


@pytest.mark.parametrize(("query", "change", "expected", "why"), CASES)
def test_which_configurations_fit(
    query: str,
    change: dict[str, Any],
    expected: Compatibility,
    why: str,
    lane: MakeLane,
    spark: SparkSession,
    target: Target,
    topic: Topic,
) -> None:
    """Compared as planned; `test_a_plan_has_the_shape_of_what_it_stores` has the rest."""
    Shop(target, topic, seed=1).prepare()
    before, after = (
        lane(CommitMode.LEDGER, queries={query: one}).of_query(query).settings
        for one in (QUERIES[query], {**QUERIES[query], **change})
    )
    old, new = (planned_shape(one, spark, target.as_lane) for one in (before, after))
    (found,) = compare_states({query: old}, {query: new})
    assert found.item == f"state:{query}"
    assert found.compatibility is expected
    assert re.search(why, found.why)


def test_values_get_a_column(lane: MakeLane, target: Target, topic: Topic) -> None:
    """What `check` calls compatible goes on from the state that is there."""
    shop = Shop(target, topic, seed=1)
    shop.prepare()
    whole = lane(CommitMode.TWO_PHASE, queries={"counts": QUERIES["counts"]})
    for function in ("counts", "counts_and_more"):
        shop.send(100)
        changed = whole.changed(queries={"counts": {**QUERIES["counts"], "function": f"tests.queries:{function}"}})
        changed.of_query("counts").run_until_caught_up()
        assert shop.result("counts") == shop.batch("counts")


def test_a_query_that_is_gone() -> None:
    (found,) = compare_states({"old": []}, {})
    assert (found.item, found.compatibility) == ("state:old", Compatibility.LOSES)
    (found,) = compare_states({"old": []}, {}, ["state:old"])
    assert found.compatibility is Compatibility.COMPATIBLE


def test_from_the_command_line(lane: MakeLane, target: Target, topic: Topic, tmp_path: Any) -> None:
    shop = Shop(target, topic, seed=1)
    whole = lane(
        CommitMode.TWO_PHASE,
        queries={"by_minute": {**QUERIES["by_minute"], "max_messages": 60}},
        savepoints={"directory": str(tmp_path / "savepoints")},
    )
    ran(shop, whole, "by_minute")
    whole.run_until_caught_up()

    def call(*arguments: str, status: ExitStatus = ExitStatus.OK) -> Any:
        found = apart("savepoint", *arguments, "--json", "--config", str(whole.config_file))
        assert found.status == status, found.err
        return found.json

    made = call("create", "one")
    ((store,),) = made["state"].values()
    assert (store["operator"], store["name"]) == (0, "stateStoreSave")
    items = {one["item"]: one for one in call("check", "one")["items"]}
    assert items["state:by_minute"]["compatibility"] == "same"
    other = {"sql": WINDOWS + ", after.id"}
    whole.changed(queries={"by_minute": {**QUERIES["by_minute"], **other}})
    items = {one["item"]: one for one in call("check", "one", status=ExitStatus.DIFFERENT)["items"]}
    assert items["state:by_minute"]["compatibility"] == "incompatible"
    assert "state rebuild" in items["state:by_minute"]["why"]
