"""Protocol of a message format: one class a format, registered in `app.decode.formats`."""

from collections.abc import Sequence
from typing import Protocol, Self

import pyarrow as pa

from app.config.settings import SourceSettings
from app.kafka.batch import Batch
from app.model.row_layout import RowKind


class Decoder(Protocol):
    """Turns the bytes of messages into rows. Used by one thread."""

    @classmethod
    def of(cls, source: SourceSettings, *, transactions: bool) -> Self:
        """A decoder with the settings of the source. `transactions`: whether rows name their source transaction."""
        ...

    def expect(self, messages: int) -> None:
        """So many messages follow: prepare what is worth it for them."""
        ...

    def decode(self, batches: Sequence[Batch]) -> pa.Table:
        """One row for each message, as in `app.model.rows`; never raises for what a message contains."""
        ...

    def gone(self, key: bytes | None, value: bytes | None, *, enveloped: bool) -> tuple[RowKind, tuple[str, ...], str]:
        """The delete of the row that a change wrote: kind, columns, COPY line. FILTERED: the row was new."""
        ...
