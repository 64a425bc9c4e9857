"""What a format of messages has to give: one class a format, registered in `app.decode.formats`."""

from collections.abc import Sequence
from typing import Protocol, Self

import pyarrow as pa

from app.config.settings import SourceSettings
from app.kafka.spans import Batch
from app.model.rows import RowKind


class Decoder(Protocol):
    """Bytes of messages become rows. Used by one thread."""

    @classmethod
    def of(cls, source: SourceSettings, *, transactions: bool) -> Self:
        """With the settings of the source. `transactions`: whether rows say which source transaction they are of."""
        ...

    def decode(self, batches: Sequence[Batch]) -> pa.Table:
        """One row for each message, as `app.model.rows` says; never raises for what a message contains."""
        ...

    def gone(self, key: bytes | None, value: bytes | None, *, enveloped: bool) -> tuple[RowKind, tuple[str, ...], str]:
        """The delete of the row that a change has written: kind, columns, COPY line. FILTERED: the row was new."""
        ...
