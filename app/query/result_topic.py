"""A query's rows as messages of a topic, by a transactional outbox.

Clients of Kafka cannot prepare a transaction: one that its process does not commit is aborted. So the rows of an epoch
are written to a table in the epoch's own transaction, as one batch, and sent when that has committed
(`app.worker.result_sender`): a batch is one transaction of Kafka, in the order of the epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from sqlalchemy import Connection

from app.config.queries import QuerySettings
from app.db.sql import run
from app.errors import TargetMismatch, Unreachable
from app.model.gid import Gid
from app.query.result_outbox import ResultOutbox
from app.query.result_sink import Written, as_json, column
from app.query.staged_results import PART, PLACE, StagedPart
from app.query.staging_table import StagingAccess, StagingTable, among

#: batches that may wait for Kafka; then epochs wait, too
MOST_BATCHES = 100


@dataclass
class ResultTopic:
    """The topic of one query; a ResultSink."""

    query: str
    topic: str
    key: tuple[str, ...]
    #: of the value
    columns: tuple[str, ...]
    deleted: str | None
    staging: StagingTable
    outbox: ResultOutbox
    #: number of the next batch; set by `open`
    next_batch: int = 0

    @classmethod
    def of(
        cls, query: str, config: QuerySettings, columns: Sequence[str], schema: str, access: StagingAccess
    ) -> "ResultTopic":
        """Raises TargetMismatch for a result without the columns that the configuration names."""
        assert config.kafka is not None, "the query has a topic"
        wanted = [*config.key, *([config.deleted] if config.deleted is not None else ())]
        if lost := [name for name in wanted if name not in columns]:
            raise TargetMismatch(
                f"lane {query}: the result has no column {', '.join(lost)}, which key or deleted names",
                hint="name columns of the result",
            )
        written = tuple(name for name in columns if name != config.deleted)
        staging = StagingTable(query, schema, {"key": "text", "value": "text"}, access)
        return cls(query, config.kafka.topic, config.key, written, config.deleted, staging, ResultOutbox(schema, query))

    def __str__(self) -> str:
        return f"topic {self.topic}"

    def open(self, connection: Connection, sent: int) -> None:
        """`sent`: number of the last batch that Kafka has, 0 for none. In the caller's transaction."""
        self.outbox.make(connection)
        self.outbox.forget(connection, sent)
        self.next_batch = max(sent, self.outbox.newest(connection)) + 1

    def make_room(self, connection: Connection, gid: Gid) -> None:
        """Raises Unreachable while too much waits for Kafka."""
        del gid
        if (waiting := self.outbox.batches(connection)) > MOST_BATCHES:
            raise Unreachable(
                f"lane {self.query}: {waiting} epochs of rows wait for topic {self.topic}",
                hint="see what the query logs about the topic; it goes on by itself",
            )
        self.staging.empty(connection)

    def staged(self, rows: DataFrame) -> list[StagedPart]:
        key = as_json(self.key) if self.key else sf.lit(None).cast("string")
        value = as_json(self.columns)
        if self.deleted is not None:
            value = sf.when(column(self.deleted), None).otherwise(value)
        return self.staging.staged(rows.select(key.alias("key"), value.alias("value")))

    def check(self, receipts: Sequence[StagedPart]) -> None:
        self.staging.check(receipts)

    def write(self, connection: Connection, gid: Gid, receipts: Sequence[StagedPart]) -> Written:
        """Put the epoch's rows into the outbox."""
        del gid
        if not sum(one.rows for one in receipts):
            return Written(0, 0)
        batch, self.next_batch = self.next_batch, self.next_batch + 1
        rows = run(
            connection,
            f"insert into {self.outbox.name} (batch, number, key, value)"  # noqa: S608  # names are quoted
            f" select {batch}, row_number() over (order by {PART}, {PLACE}), key, value"
            f" from {self.staging.name} where {among(receipts)}",
        ).rowcount
        deleted = self.outbox.deletes(connection, batch) if self.deleted is not None else 0
        return Written(rows - deleted, deleted)
