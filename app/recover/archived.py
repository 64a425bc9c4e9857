"""How far the archive reaches where Kafka does not: for plans, commands and metrics."""

from collections.abc import Iterable
from pathlib import Path

from app.archive.reader import ArchiveReader
from app.config.settings import Order, Settings
from app.model.offsets import Offsets, TopicPartition


def archive_readers(settings: Settings, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ArchiveReader]:
    """Of each partition the archive that has it; none where nothing is archived."""
    told = settings.archive
    if told is None:
        return {}
    root = Path(told.path)
    if settings.source.order is Order.TOTAL:
        return dict.fromkeys(partitions, ArchiveReader(root, settings.lane))
    return {tp: ArchiveReader(root, f"{settings.lane}.{tp.partition}") for tp in partitions}


def archive_reach(settings: Settings, position: Offsets) -> Offsets:
    """Up to where the archive has everything from `position` on; the position itself where it has nothing of it."""
    readers = archive_readers(settings, position)
    ends = {tp: reader.reach(position.only({tp}))[tp] for tp, reader in readers.items()}
    return position.updated(ends)
