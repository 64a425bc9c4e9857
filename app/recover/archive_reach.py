"""The archive's reach behind a position, for plans, commands and metrics."""

from collections.abc import Iterable
from pathlib import Path

from app.archive.reader import ArchiveReader
from app.config.settings import Settings
from app.model.offsets import Offsets, TopicPartition


def archive_readers(settings: Settings, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ArchiveReader]:
    """The archive reader of each partition; empty without an archive."""
    config = settings.archive
    if config is None:
        return {}
    lanes = archiving_lanes(settings, partitions)
    readers = {lane: ArchiveReader(Path(config.path), lane) for lane in set(lanes.values())}
    return {tp: readers[lane] for tp, lane in lanes.items()}


def archiving_lanes(settings: Settings, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """The lane that archives each partition. That of a query may have a lane for each partition, with a folder each."""
    if settings.query is None or settings.archive is None:
        return {tp: settings.lane_of(tp) for tp in partitions}
    root, lane = Path(settings.archive.path), settings.archiving_lane
    own = {tp: f"{lane}.{tp.partition}" for tp in partitions}
    return {tp: name if (root / name).is_dir() else lane for tp, name in own.items()}


def archive_reach(settings: Settings, position: Offsets) -> Offsets:
    """The end of the archived range that begins at `position`; the position itself where the archive lacks it."""
    readers = archive_readers(settings, position)
    ends = {tp: reader.reach(position.only({tp}))[tp] for tp, reader in readers.items()}
    return position.updated(ends)
