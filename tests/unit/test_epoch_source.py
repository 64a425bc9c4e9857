"""Reading several messages of an epoch with few requests."""

from app.model.offsets import Position
from app.worker.epoch_source import READ_ON, runs


def at(*offsets: int, topic: str = "t") -> list[Position]:
    return [Position(topic, 0, offset) for offset in offsets]


def test_neighbours_are_one_run() -> None:
    far = 3 + READ_ON + 1
    positions = [*at(far), *at(1, 3, 2), *at(2, topic="u")]
    assert runs(positions) == [(*at(1, 3),), (*at(far, far),), (*at(2, 2, topic="u"),)]
    assert runs(at(0, READ_ON)) == [(*at(0, READ_ON),)]
    assert runs([]) == []
