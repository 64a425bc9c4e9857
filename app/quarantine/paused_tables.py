"""The paused target tables of one lane: their changes are parked, until a resume applies them in order."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from app.config.routes import Routes
from app.errors import TooManyParked
from app.ledger.table_pauses import TablePause, TablePauses
from app.model.row_layout import RowKind
from app.quarantine.quarantine import Quarantine

if TYPE_CHECKING:
    from app.epoch.epoch_batch import EpochBatch  # Arrow and numpy: commands need neither

#: schema, table
TableName = tuple[str, str]
#: rows that are no change of a table, or have no row to apply
_NO_CHANGE = (RowKind.FILTERED, RowKind.MALFORMED, RowKind.FAILED)


def parked_messages(connection: Connection, quarantine: Quarantine, routes: Routes) -> Counter[TableName]:
    """Numbers of parked messages by target table."""
    found: Counter[TableName] = Counter()
    for one in quarantine.waiting(connection):
        place = None if one.schema is None or one.table is None else routes.target(one.schema, one.table)
        if place is not None:
            found[place] += one.parked
    return found


class PausedTables:
    """As the lane has taken them up. Used by the lane's thread only."""

    def __init__(self, pauses: TablePauses, routes: Routes, quarantine: Quarantine, limit: int) -> None:
        """`limit`: messages that may be parked, of all paused tables together."""
        self._pauses, self._routes, self._quarantine, self._limit = pauses, routes, quarantine, limit
        self._found: dict[tuple[str, str], TablePause] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def read(self, connection: Connection) -> None:
        self._found = {(one.schema, one.table): one for one in self._pauses.find(connection)}

    def take_up(self, connection: Connection) -> None:
        """Read them again; from here on the lane parks the changes of all of them. Between two epochs only."""
        self._pauses.take_up(connection)
        self.read(connection)

    def of(self, schema: str | None, table: str | None) -> TablePause | None:
        """The pause of a source table's target."""
        if schema is None or table is None or not self._found:
            return None
        place = self._routes.target(schema, table)
        return None if place is None else self._found.get(place)

    def layouts(self, epoch: "EpochBatch") -> list[int]:
        """Indices of the layouts whose rows are parked."""
        return [
            index
            for index, layout in enumerate(epoch.layouts if self._found else ())
            if layout.kind not in _NO_CHANGE and self.of(layout.schema, layout.table) is not None
        ]

    def check(self, connection: Connection, lane: str) -> None:
        """Raises TooManyParked beyond the limit."""
        parked = parked_messages(connection, self._quarantine, self._routes)
        counts = {pause.name: parked[place] for place, pause in self._found.items() if parked[place]}
        if sum(counts.values()) > self._limit:
            tables = ", ".join(sorted(counts))
            raise TooManyParked(
                f"lane {lane}: {sum(counts.values()):,} messages of paused tables would be parked, {self._limit:,} may "
                f"(limits.parked_messages): {tables}",
                hint=f"surelane resume --table {min(counts)} applies them, and the lane goes on",
            )

    @property
    def resumed(self) -> Sequence[TablePause]:
        """Those whose parked messages are to be applied."""
        return [one for one in self._found.values() if one.resumed_by is not None]

    def request_releases(self, connection: Connection) -> None:
        """Request the release of all parked messages of the resumed tables."""
        for one in self._quarantine.waiting(connection):
            pause = self.of(one.schema, one.table)
            if pause is not None and pause.resumed_by is not None and one.schema is not None and one.table is not None:
                self._quarantine.request_parked(connection, one.schema, one.table, pause.resumed_by)

    def end_resumed(self, connection: Connection) -> None:
        """Their later changes are applied again."""
        for one in self.resumed:
            self._pauses.end(connection, one.schema, one.table)
        self.read(connection)
