"""Messages decoded by this process, and sent through the user's SQL and function if there are any."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from app.decode.decoder import Decoder
from app.errors import JobFailed, SurelaneError
from app.kafka.spans import Batch
from app.model.message import RawMessage

#: the user's SQL: decoded rows, and the messages that they are of
Sql = Callable[[pa.Table, Sequence[Batch]], pa.Table]


class Decoding:
    """Batches become rows (`app.model.rows`). Not safe for several threads at once."""

    def __init__(
        self, decoder: Decoder, transform: Callable[[pa.Table], pa.Table] | None = None, sql: Sql | None = None
    ) -> None:
        self._decoder, self._transform, self._sql = decoder, transform, sql

    def decoded(self, batches: Sequence[Batch]) -> pa.Table:
        """Without the user's function; raises a SurelaneError of verdict POISON where a message may be the cause."""
        return _poison(lambda: self._rewritten(batches))

    def transformed(self, rows: pa.Table) -> pa.Table:
        """The user's function applied to decoded rows; raises the same."""
        function = self._transform
        return rows if function is None else _poison(lambda: function(rows))

    def rows(self, batches: Sequence[Batch]) -> pa.Table:
        """Decode, then apply the user's function."""
        return self.transformed(self.decoded(batches))

    def _rewritten(self, batches: Sequence[Batch]) -> pa.Table:
        rows = self._decoder.decode(batches)
        return rows if self._sql is None else self._sql(rows, batches)

    def stored(self, messages: Sequence[RawMessage]) -> pa.Table:
        """The rows of messages that the quarantine has kept."""
        return self.rows(as_batches(messages))


def as_batches(messages: Sequence[RawMessage]) -> list[Batch]:
    """In their order; one for neighbours of a partition."""
    batches: list[Batch] = []
    for one in messages:
        if not batches or batches[-1].tp != one.position.tp:
            batches.append(Batch(one.position.tp))
        batch = batches[-1]
        batch.offsets.append(one.position.offset)
        batch.keys.append(one.key)
        batch.values.append(one.value)
    return batches


def _poison(work: Callable[[], pa.Table]) -> pa.Table:
    """One of the messages may be the cause of whatever goes wrong."""
    try:
        return work()
    except (SurelaneError, MemoryError):
        raise
    except Exception as error:
        raise JobFailed(f"could not be decoded: {type(error).__name__}: {error}") from error
