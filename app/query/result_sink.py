"""Where the rows of a query go: a table, a folder of files, or a topic of Kafka."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from sqlalchemy import Connection

from app.model.gid import Gid
from app.query.staged_results import StagedPart

_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True)
class Written:
    """Rows of an epoch by what became of them."""

    upserted: int
    deleted: int


class ResultSink(Protocol):
    """The sink of one query. In the order of an epoch: `make_room`, `staged`, `check`, `write`."""

    def make_room(self, connection: Connection, gid: Gid) -> None:
        """Make room for the epoch's rows, in a transaction of its own. No earlier epoch is undecided."""
        ...

    def staged(self, rows: DataFrame) -> list[StagedPart]:
        """Have Spark compute the epoch, and tasks write its rows to where no reader looks. Raises what Spark raises; an
        error of the place that is written to is in the receipt of its task."""
        ...

    def check(self, receipts: Sequence[StagedPart]) -> None:
        """Raise the error that a task met."""
        ...

    def write(self, connection: Connection, gid: Gid, receipts: Sequence[StagedPart]) -> Written:
        """Write what the tasks of the receipts staged, in the epoch's transaction."""
        ...


def column(name: str) -> Column:
    """The column of this name, also where the name has dots."""
    return sf.col("`" + name.replace("`", "``") + "`")


def as_json(names: Sequence[str]) -> Column:
    """An object of these columns: NULL as null, times in ISO 8601 with microseconds, binary as base64."""
    return sf.to_json(sf.struct(*map(column, names)), _JSON)
