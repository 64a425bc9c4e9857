"""The demo's arithmetic: what follows from what was seen."""

import re

import pytest

from app.model.counts import Counts
from tools.demo.chart import Frame, linear, logarithmic, round_up
from tools.demo.crash import Crash
from tools.demo.lane import LANE
from tools.demo.recovery import Settled, first_epoch, recovery
from tools.demo.timeline import growth, lags, latencies, percentile, usual_lag
from tools.demo.topic import Length
from tools.demo.watch import SeenBeat, SeenEpoch


def epoch(at: float, generation: int, number: int, start: int, end: int, duplicate: int = 0) -> SeenEpoch:
    consumed = end - start
    counts = Counts(consumed=consumed, applied=consumed - duplicate, duplicate=duplicate)
    return SeenEpoch(
        at=at, generation=generation, epoch=number, start=start, end=end, plan="deletes-first", counts=counts
    )


def test_lag_is_what_the_topic_had_and_the_target_had_not_at_that_moment() -> None:
    epochs = [epoch(1.0, 1, 0, 0, 10), epoch(3.0, 1, 1, 10, 25)]
    lengths = [Length(at=at, end=end) for at, end in ((0.5, 5), (1.0, 12), (2.0, 25), (3.5, 25))]
    assert lags(lengths, epochs) == [(0.5, 5), (1.0, 2), (2.0, 15), (3.5, 0)]
    assert usual_lag([(0.0, 999), (9.0, 4), (10.0, 7), (10.1, 50)], killed=10.0) == 7
    assert usual_lag([], killed=10.0) == 0


def test_a_beat_that_an_epoch_compacted_counts_with_the_one_that_was_seen() -> None:
    committed = [1.0, 1.5, 2.0, 2.5]
    beats = [SeenBeat(at=1.25, beat=1), SeenBeat(at=3.0, beat=4)]
    assert latencies(committed, beats) == [(1.0, 0.25), (1.5, 1.5), (2.0, 1.0), (2.5, 0.5)]


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (51.0, 100.0, 100.0)
    assert percentile([], 0.5) is None


def test_growth_is_counted_by_whole_seconds() -> None:
    points = [(9.0, 5.0), (10.5, 8.0), (10.9, 9.0), (12.0, 20.0)]
    assert growth(points, began=10.0, seconds=3.2) == ((0.0, 4.0), (1.0, 11.0), (2.0, 0.0))


CRASH = Crash(
    at=100.0,
    wall=1_700_000_000.0,
    generation=1,
    planned=7,
    planned_end=50,
    decided=False,
    in_doubt=("surelane:demo:1:7",),
    position=40,
    lag=15,
)
LOG = [
    {"event": "settling", "gid": "surelane:demo:1:7", "decision": "roll_back", "because": "no entry"},
    {"event": "start", "timestamp": "2023-11-14T22:13:28.500000Z", LANE: "Spark replays the last planned epoch"},
    {"event": "epoch"},
]


def test_replayed_is_what_the_killed_lane_had_planned_and_not_finished() -> None:
    epochs = [epoch(99.0, 1, 6, 30, 40), epoch(112.0, 2, 7, 40, 50), epoch(113.0, 2, 8, 50, 70)]
    found = recovery(CRASH, epochs, 114.0, LOG)
    assert (found.generation, found.replayed_epochs, found.replayed_messages, found.duplicates) == (2, 1, 10, 0)
    assert (found.start_seconds, found.first_epoch_seconds, found.caught_up_seconds) == (8.5, 12.0, 14.0)
    assert found.settled == (Settled(gid="surelane:demo:1:7", decision="roll_back", because="no entry"),)
    assert first_epoch(CRASH, epochs) is epochs[1]
    assert first_epoch(CRASH, epochs[:1]) is None


def test_nothing_is_replayed_when_the_epoch_in_doubt_was_committed() -> None:
    epochs = [epoch(110.0, 1, 7, 40, 50), epoch(112.0, 2, 8, 50, 70)]
    found = recovery(CRASH, epochs, 114.0, LOG)
    assert (found.replayed_epochs, found.replayed_messages) == (0, 0)


@pytest.mark.parametrize(("value", "rounded"), [(0, 2), (1.5, 2), (2.1, 3), (7, 8), (11, 20), (52_000, 60_000)])
def test_scales_end_at_round_numbers(value: float, rounded: float) -> None:
    assert round_up(value) == rounded


def test_a_value_above_the_scale_is_drawn_at_its_top_with_its_number() -> None:
    frame = Frame(seconds=10.0, backdrop="")
    series = ((0.0, 100.0), (1.0, 90_000.0))
    scale = linear([value for _, value in series], limit=300.0)
    assert scale.y(90_000.0) == scale.y(300.0) < scale.y(100.0)
    assert "90,000" in frame.peak(series, scale)
    assert frame.peak(series[:1], scale) == ""


def test_every_place_is_inside_the_drawing() -> None:
    frame = Frame(seconds=10.0, backdrop="")
    scale = logarithmic([0.001, 42.0], lowest=0.01)
    drawn = frame.area(((0.0, 0.001), (5.0, 42.0), (10.5, 1.0)), scale, "latency")
    places = [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", drawn)]
    assert len(places) > 6
    assert all(0 <= x <= 1000 and 0 <= y <= 112 for x, y in places)
