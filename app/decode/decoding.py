"""Decodes messages in this process, then applies the user's SQL and function if there are any."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from app.decode.decoder import Decoder
from app.errors import JobFailed, SurelaneError
from app.kafka.batch import Batch
from app.kafka.spans import ListBatch
from app.model.message import RawMessage

#: the user's SQL: takes decoded rows, and the messages that they come from
Sql = Callable[[pa.Table, Sequence[Batch]], pa.Table]


class Decoding:
    """Turns batches into rows (`app.model.rows`). Not safe for several threads at once."""

    def __init__(
        self, decoder: Decoder, transform: Callable[[pa.Table], pa.Table] | None = None, sql: Sql | None = None
    ) -> None:
        self._decoder, self._transform, self._sql = decoder, transform, sql

    def decoded(self, batches: Sequence[Batch]) -> pa.Table:
        """Decode and apply the user's SQL, not the function; raises a SurelaneError of verdict POISON where a message
        may be the cause."""
        return _poison(lambda: self._rewritten(batches))

    def transformed(self, rows: pa.Table) -> pa.Table:
        """Apply the user's function to decoded rows; raises as `decoded`."""
        function = self._transform
        return rows if function is None else _poison(lambda: function(rows))

    def rows(self, batches: Sequence[Batch]) -> pa.Table:
        """Decode, then apply the user's function."""
        return self.transformed(self.decoded(batches))

    def _rewritten(self, batches: Sequence[Batch]) -> pa.Table:
        rows = self._decoder.decode(batches)
        return rows if self._sql is None else self._sql(rows, batches)

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """Rows of messages from the quarantine."""
        return self.rows(as_batches(messages))


def as_batches(messages: Sequence[RawMessage]) -> list[ListBatch]:
    """The messages in their order; neighbours of one partition share a batch."""
    batches: list[ListBatch] = []
    for one in messages:
        if not batches or batches[-1].tp != one.position.tp:
            batches.append(ListBatch(one.position.tp))
        batch = batches[-1]
        batch.offsets.append(one.position.offset)
        batch.keys.append(one.key)
        batch.values.append(one.value)
    return batches


def _poison(work: Callable[[], pa.Table]) -> pa.Table:
    """Turn errors into JobFailed: one of the messages may be the cause."""
    try:
        return work()
    except (SurelaneError, MemoryError):
        raise
    except Exception as error:
        raise JobFailed(f"could not be decoded: {type(error).__name__}: {error}") from error
