"""A query that is killed at places of its epochs: its table and its state agree, whatever came in between."""

import pytest

from app.config.settings import CommitMode
from tests.crash.killing import EPOCH_MESSAGES, FEW_KILLS, TIMEOUT_SECONDS, Kills, Looks, places_of, three_epochs
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import QUERIES, Shop

#: the mode of each query in an ordinary run
SAMPLE = {"by_minute": CommitMode.TWO_PHASE, "pairs": CommitMode.LEDGER, "counts": CommitMode.AT_LEAST_ONCE}
_CASES = [
    pytest.param(query, mode, marks=() if SAMPLE[query] is mode else pytest.mark.full)
    for query in SAMPLE
    for mode in CommitMode
]


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize(("query", "mode"), _CASES)
def test_kills(
    query: str,
    mode: CommitMode,
    kills: Kills,
    seed: int,
    lane: MakeLane,
    target: Target,
    topic: Topic,
) -> None:
    shop = Shop(target, topic, seed)
    shop.prepare()
    made = lane(mode, queries={query: {**QUERIES[query], "max_messages": EPOCH_MESSAGES}})
    name = made.of_query(query).name
    reader = Looks(lambda: shop.half_seen(query, name))
    kills.at(made, places_of(mode), FEW_KILLS, three_epochs(shop, name), "--query", query)
    reader.stop()
    assert shop.result(query) == shop.batch(query)
    assert target.prepared() == []
    assert set(target.position(name).values()) == {topic.end}
    counted = target.ledger_sum(name)
    assert counted.adds_up
    sources = len(target.position(name))
    if mode is not CommitMode.AT_LEAST_ONCE:
        assert counted.applied == sources * len(topic.sent)
    assert target.execute("select from surelane.quarantine where lane = :lane", lane=name) == []
