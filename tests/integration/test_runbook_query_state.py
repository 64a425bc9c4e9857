"""ops/runbooks/query-state-lost.md, command by command: the checkpoint of a query is gone."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from app.config.settings import CommitMode
from app.errors import Diverged
from tests.commands import Ended, ended
from tests.fix_lane import MakeLane
from tests.fix_runbook import printed, wanted
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import QUERIES, Shop, with_options
from tests.runbook import play, runner

PAGE = "query-state-lost.md"
QUERY = "by_minute"


@pytest.fixture(autouse=True)
def options(spark: SparkSession) -> Iterator[None]:
    """Those of a query's own session."""
    yield from with_options(spark)


def test_the_page(
    lane: MakeLane,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(target, topic, seed=9)
    shop.prepare()
    made = lane(CommitMode.TWO_PHASE, queries={QUERY: QUERIES[QUERY]})
    query = made.of_query(QUERY)
    monkeypatch.setenv("SURELANE_CONFIG", str(made.config_file))

    def typed(program: str, *words: str) -> Ended:
        if words[:1] == ("run",):
            query.run_until_caught_up()
            return Ended(0, "", "")
        return ended(*words) if words[:2] == ("state", "list") else runner(surelane)(program, *words)

    shop.send(60)
    query.run_until_caught_up()
    shutil.rmtree(query.checkpoint)
    shop.send(30)
    with pytest.raises(Diverged) as stopped:
        query.run_until_caught_up()
    values = {"query": QUERY, "table": "reports.by_minute"}
    found = [*play(PAGE, "Look", typed, **values), *play(PAGE, "Stopped with status 6", typed, **values)]
    assert [one.status for one in found] == [0] * 5
    assert shop.result(QUERY) == shop.batch(QUERY)
    named = [*wanted(PAGE, "Look"), *wanted(PAGE, "Stopped with status 6")]
    assert all([word.replace(QUERY, "<query>") for word in words] in named for words in printed(stopped.value.hint))
