"""How far the archive reaches where Kafka does not: for plans, commands and metrics."""

from collections.abc import Iterable
from pathlib import Path

from app.archive.reader import ArchiveReader
from app.config.settings import Settings
from app.model.offsets import Offsets, TopicPartition


def archive_readers(settings: Settings, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ArchiveReader]:
    """Of each partition the archive that has it; none where nothing is archived."""
    told = settings.archive
    if told is None:
        return {}
    lanes = {tp: settings.lane_of(tp) for tp in partitions}
    readers = {lane: ArchiveReader(Path(told.path), lane) for lane in set(lanes.values())}
    return {tp: readers[lane] for tp, lane in lanes.items()}


def archive_reach(settings: Settings, position: Offsets) -> Offsets:
    """Up to where the archive has everything from `position` on; the position itself where it has nothing of it."""
    readers = archive_readers(settings, position)
    ends = {tp: reader.reach(position.only({tp}))[tp] for tp, reader in readers.items()}
    return position.updated(ends)
