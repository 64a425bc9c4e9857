"""Where a lane is in topics that it does not read any more. Every method works in the caller's transaction."""

from collections.abc import Iterable

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, Table, Text, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from app.model.offsets import Offsets, TopicPartition


class RemovedTopics:
    """Those of one lane, in the schema that `target.schema` names."""

    def __init__(self, schema: str, lane: str) -> None:
        self._lane = lane
        self._table = Table(
            "removed_topic",
            MetaData(schema=schema),
            Column("lane", Text, primary_key=True),
            Column("topic", Text, primary_key=True),
            Column("partition", Integer, primary_key=True),
            Column("next_offset", BigInteger),
        )

    def find(self, connection: Connection) -> Offsets:
        """The next offset to apply of each partition, if it is read again."""
        table = self._table.c
        columns = (table.topic, table.partition, table.next_offset)
        rows = connection.execute(select(*columns).where(table.lane == self._lane))
        return Offsets.of({TopicPartition(row.topic, row.partition): row.next_offset for row in rows})

    def keep(self, connection: Connection, position: Offsets) -> None:
        """These partitions are not read any more; `position` is the end of what is applied."""
        for tp, offset in position.items():
            values = {"next_offset": offset}
            statement = insert(self._table).values(lane=self._lane, topic=tp.topic, partition=tp.partition, **values)
            connection.execute(
                statement.on_conflict_do_update(index_elements=["lane", "topic", "partition"], set_=values)
            )

    def forget(self, connection: Connection, partitions: Iterable[TopicPartition]) -> None:
        """The ledger has the position of these partitions again."""
        table = self._table.c
        mine = tuple_(table.topic, table.partition).in_([tuple(tp) for tp in partitions])
        connection.execute(delete(self._table).where(table.lane == self._lane, mine))
