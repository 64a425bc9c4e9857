"""The messages of an archive as a source of Spark, streaming or not, with the rows and the offsets of its Kafka source.

Spark's checkpoint has nothing of a source but its offsets: a query that has read the archive goes on with Kafka.
"""

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from app.archive.reader import ArchiveReader, reached
from app.config.settings import Settings
from app.kafka.broker import Broker
from app.model.message import RawMessage
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.recover.archive_reach import archive_reach, archiving_lanes

#: of Spark's Kafka source
KAFKA_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_NAME = "surelane_archive"
_BATCH = 5000
#: CreateTime
_TIMESTAMP_TYPE = 0
_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)


@dataclass(frozen=True)
class QueryArchive:
    """The archive of a query's lane, where it has what Kafka lacks."""

    #: `archive.path`
    path: str
    #: up to where it has everything
    goal: Offsets
    #: the lane of each partition
    lanes: Mapping[TopicPartition, str]

    @classmethod
    def find(cls, settings: Settings, broker: Broker, position: Offsets) -> "QueryArchive | None":
        """The archive, where Kafka no longer has all messages from `position` on, and it has those that are missing.
        `settings`: the query's; `position`: in topics of Kafka."""
        if (config := settings.archive) is None:
            return None
        lacking = {tp: mark.low for tp, mark in broker.watermarks(position).items() if position[tp] < mark.low}
        if not lacking:
            return None
        goal, lanes = archive_reach(settings, position), archiving_lanes(settings, position)
        return cls(config.path, goal, lanes) if all(goal[tp] >= low for tp, low in lacking.items()) else None

    def stream(self, spark: SparkSession, start: Offsets, most: int, topics: Sequence[str]) -> DataFrame:
        """The messages of these topics, or of all, as a stream that begins at `start` and ends at the goal. `most`:
        messages of an epoch."""
        spark.dataSource.register(_ArchiveSource)
        mine = {tp for tp in self.goal if not topics or tp.topic in topics}
        options = {**self._options(start.only(mine), self.goal.only(mine)), "most": str(most)}
        if topics:
            options["subscribe"] = ",".join(topics)
        return spark.readStream.format(_NAME).options(**options).load()

    def batch(self, spark: SparkSession, span: Span) -> DataFrame:
        """The messages of the span."""
        spark.dataSource.register(_ArchiveSource)
        return spark.read.format(_NAME).options(**self._options(span.start, span.end)).load()

    def message(self, position: Position) -> RawMessage | None:
        """The message at a position, None where there is none."""
        reader = ArchiveReader(Path(self.path), self.lanes[position.tp])
        return next(reader.read(position.topic, position.partition, position.offset, position.offset + 1), None)

    def is_read(self, position: Offsets) -> bool:
        """Whether the position has reached the goal."""
        return reached(position, self.goal)

    def _options(self, start: Offsets, end: Offsets) -> dict[str, str]:
        lanes = json.dumps([[tp.topic, tp.partition, lane] for tp, lane in self.lanes.items()])
        return {"path": self.path, "lanes": lanes, "start": start.to_json(), "end": end.to_json()}


class _Range(InputPartition):
    """Offsets of a partition that a task reads."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        self.topic, self.partition, self.start, self.end = topic, partition, start, end


class _Place(NamedTuple):
    path: str
    lanes: Mapping[TopicPartition, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "_Place":
        lanes = {TopicPartition(topic, number): lane for topic, number, lane in json.loads(options["lanes"])}
        return cls(options["path"], lanes)

    def read(self, part: _Range) -> Iterator[pa.RecordBatch]:
        tp = TopicPartition(part.topic, part.partition)
        reader = ArchiveReader(Path(self.path), self.lanes[tp])
        messages = reader.read(part.topic, part.partition, part.start, part.end)
        while some := list(islice(messages, _BATCH)):
            yield _rows(some)


class _ArchiveSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given: dict[str, str] = dict(options)

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return KAFKA_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return _Batch(self._given)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        del schema
        return _Stream(self._given)


class _Batch(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._place = _Place.of(options)
        self._start, self._end = json.loads(options["start"]), json.loads(options["end"])

    def partitions(self) -> Sequence[InputPartition]:
        return _ranges(self._start, self._end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range), "as `partitions` made them"
        return self._place.read(partition)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets as Spark's Kafka source writes them: topic -> partition -> next offset."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._place, self._most = _Place.of(options), int(options["most"])
        self._start, self._end = json.loads(options["start"]), json.loads(options["end"])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return self._start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """The end is fixed."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        del limit
        each = max(1, self._most // max(1, sum(map(len, start.values()))))
        return {
            topic: {number: min(at + each, max(at, self._end[topic][number])) for number, at in parts.items()}
            for topic, parts in start.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return _ranges(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range), "as `partitions` made them"
        return self._place.read(partition)


def _ranges(start: Mapping[str, Any], end: Mapping[str, Any]) -> list[_Range]:
    return [
        _Range(topic, int(number), start[topic][number], until)
        for topic, parts in end.items()
        for number, until in parts.items()
        if start[topic][number] < until
    ]


def _rows(messages: Sequence[RawMessage]) -> pa.RecordBatch:
    times = [None if one.timestamp_ms is None else one.timestamp_ms * 1000 for one in messages]
    columns = [
        [one.key for one in messages],
        [one.value for one in messages],
        [one.position.topic for one in messages],
        [one.position.partition for one in messages],
        [one.position.offset for one in messages],
        times,
        [_TIMESTAMP_TYPE] * len(messages),
    ]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)], _ARROW
    )
