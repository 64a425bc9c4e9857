"""How far the archive reaches where Kafka does not: for plans, commands and metrics."""

from pathlib import Path

from app.archive.reader import ArchiveReader
from app.config.settings import Order, Settings
from app.model.offsets import Offsets


def archive_reach(settings: Settings, position: Offsets) -> Offsets:
    """Up to where the archive has everything from `position` on; the position itself where it has nothing of it."""
    told = settings.archive
    if told is None:
        return position
    root = Path(told.path)
    if settings.source.order is Order.TOTAL:
        return ArchiveReader(root, settings.lane).reach(position)
    by_lane = {tp: f"{settings.lane}.{tp.partition}" for tp in position}
    ends = {tp: ArchiveReader(root, lane).reach(position.only({tp}))[tp] for tp, lane in by_lane.items()}
    return Offsets.of(ends)
