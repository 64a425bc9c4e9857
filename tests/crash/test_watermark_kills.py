"""A query whose watermark closes windows, killed in epochs with messages and in those that only move the watermark."""

import pytest

from app.config.settings import CommitMode
from tests.closed_windows import AGGREGATE, QUERY, TIMERS, WAYS, ClosedWindows
from tests.crash.killing import FEW_KILLS, MODES, TIMEOUT_SECONDS, Kills, Looks, places_of
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import Shop


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [AGGREGATE, pytest.param(TIMERS, marks=pytest.mark.full)])
def test_kills(
    way: str,
    mode: CommitMode,
    kills: Kills,
    seed: int,
    lane: MakeLane,
    target: Target,
    topic: Topic,
) -> None:
    made = lane(mode, queries={QUERY: WAYS[way]})
    name = made.of_query(QUERY).name
    windows = ClosedWindows(Shop(target, topic, seed), name, way)
    windows.prepare()
    reader = Looks(windows.difference)
    # one epoch of messages, then one without: the second time at a place is in that one
    kills.at(made, places_of(mode), FEW_KILLS, lambda: windows.send(35), "--query", QUERY)
    reader.stop()
    assert windows.difference() == []
    assert all(windows.counted())
    assert target.prepared() == []
    assert set(target.position(name).values()) == {topic.end}
    assert target.ledger_sum(name).adds_up
