"""Applies quarantined messages after all, when an operator has requested it.

Releases run between two epochs, in transactions of their own. A message and its entry's state change together, without
Kafka's position or the checkpoint: so a release is exactly once in every commit mode, and needs no new message. No
epoch may be pending then: a release comes after the last epoch and before the next.

    requested -> decoded again from the stored bytes -> released      all requests in one transaction
                                                     -> refused       with the reason for the operator

The guard records the release in progress. A release during which the process ended, or lost the target, is not tried
again by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

import psycopg2
import pyarrow as pa
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app import failpoint
from app.apply.applier import Applier
from app.apply.table_plans import TablePlan
from app.db.sqlstate import describe, verdict_of
from app.epoch.epoch_batch import CHANGES, EpochBatch
from app.errors import SurelaneError, TargetMismatch, Verdict
from app.ledger.store import Ledger
from app.model.epoch import GENESIS
from app.model.message import RawMessage
from app.model.offsets import Offsets, Span, TopicPartition
from app.model.row_layout import RowKind
from app.poison.attempts import AttemptStage
from app.poison.epoch_rows import MALFORMED
from app.poison.guard import Guard
from app.poison.narrowing import contains, only_position, single
from app.quarantine.parked_keys import Key, key_of
from app.quarantine.quarantine import RELEASES_AT_ONCE, Quarantine, Release
from app.quarantine.quarantine_writer import QuarantineWriter
from app.quarantine.redacted_text import error_text

log = structlog.get_logger()

#: decodes stored messages to rows (`app.model.rows`)
Decode = Callable[[Sequence[RawMessage]], pa.Table]

_UNSURVIVED = "the process ended, or lost the target, while this message was being applied; ask again to try once more"
_UNKNOWN = (
    "it is unknown whether a newer change of its row was applied: its table and key were not known when it was skipped"
)
_NOT_KEPT = "nothing of the message is kept that could be applied: see its error, and discard it"
_NO_ROW = "decoded once more, the message gives no change; discard it if it is not wanted"
_BY_FORCE = "; --force releases it all the same"


@dataclass(frozen=True)
class _Ready:
    """A decoded message with its table plan."""

    #: has one row
    epoch: EpochBatch
    shapes: dict[int, TablePlan]

    @property
    def key(self) -> Key | None:
        """The key of its row; None if it has no valid one."""
        layout = self.epoch.layout(0)
        try:
            text = self.epoch.rows["key"][0].as_py()
        except UnicodeDecodeError:  # an upsert can be applied without its key
            return None
        return None if text is None else Key(layout.schema, layout.table, text)

    @property
    def is_change(self) -> bool:
        """Whether the message is a change of a row."""
        return self.epoch.layout(0).kind in CHANGES


class QuarantineReleases:
    """Runs the releases of one writer."""

    def __init__(
        self,
        generation: int,
        ledger: Ledger,
        quarantine: Quarantine,
        keeping: QuarantineWriter,
        applier: Applier,
        guard: Guard,
        decode: Decode,
        wanted: Event,
    ) -> None:
        """`wanted`: set by the thread that notices requests."""
        self.wanted = wanted
        self._generation, self._ledger, self._quarantine, self._keeping = generation, ledger, quarantine, keeping
        self._applier, self._guard, self._decode = applier, guard, decode

    def run(self, connection: Connection, before: Callable[[], None]) -> None:
        """Take up pauses of tables, and release at most RELEASES_AT_ONCE requested entries; of a table that is resumed
        all: from then on its changes are applied again. `before` is called where there is anything to decode."""
        self.wanted.clear()
        paused = self._keeping.paused
        if paused is not None:
            with connection.begin():
                self._ledger.hold(connection, self._generation)
                paused.take_up(connection)
                paused.request_releases(connection)
        self._some(connection, before)
        if paused is None or not paused.resumed:
            return
        while self._has_requests(connection):
            failpoint.reach("table-resume")
            self._some(connection, before)
        names = [one.name for one in paused.resumed]
        with connection.begin():
            self._ledger.hold(connection, self._generation)
            paused.end_resumed(connection)
        log.info("tables resumed", lane=self._ledger.lane, tables=names)

    def _has_requests(self, connection: Connection) -> bool:
        with connection.begin():
            return self._quarantine.has_requests(connection)

    def _some(self, connection: Connection, before: Callable[[], None]) -> None:
        with connection.begin():
            requests = self._quarantine.requested(connection)
        if not requests:
            return
        before()
        if len(requests) == RELEASES_AT_ONCE:
            self.wanted.set()  # there may be more
        self._applier.forget()  # the target may have been repaired
        decoded = self._decoded(requests)
        ready = {one.held.id: self._ready(rows) for one, rows in zip(requests, decoded, strict=True)}
        self._keeping.drop()
        with connection.begin():
            self._ledger.hold(connection, self._generation)
            for one in self._quarantine.requested(connection):
                if one.held.id in ready:
                    self._release(connection, one, ready[one.held.id])
        self._keeping.passed()

    def _decoded(self, requests: list[Release]) -> list[pa.Table | str]:
        """The row of each, or why there is none. Decodes one by one if a call for all fails, or one did not survive."""
        interrupted = self._guard.take_interrupted()
        suspicious = [one for one in requests if interrupted and contains(interrupted, _span([one]))]
        if not suspicious:
            self._guard.begin(GENESIS, _span(requests), AttemptStage.DECODE)
            try:
                rows = self._decode([one.message for one in requests])
            except SurelaneError as error:
                if error.verdict is not Verdict.POISON:
                    raise
            else:
                return [_row(rows, one) for one in requests]
        single_one = interrupted is not None and only_position(interrupted) is not None
        return [_UNSURVIVED if single_one and one in suspicious else self._one(one) for one in requests]

    def _one(self, release: Release) -> pa.Table | str:
        self._guard.begin(GENESIS, _span([release]), AttemptStage.DECODE)
        try:
            return _row(self._decode([release.message]), release)
        except SurelaneError as error:
            if error.verdict is not Verdict.POISON:
                raise
            return error.message

    def _ready(self, rows: pa.Table | str) -> _Ready | str:
        """The decoded message with its table plan, or why there is none."""
        if isinstance(rows, str):
            return rows
        epoch = EpochBatch.arrange(rows)
        kind = epoch.layout(0).kind
        if kind is RowKind.MALFORMED:
            return MALFORMED.cause
        if kind is RowKind.FAILED:
            return f"the transform raised {epoch.rows['line'][0].as_py()}"
        try:
            return _Ready(epoch, self._applier.prepare(epoch))
        except TargetMismatch as error:
            return error.message

    def _release(self, connection: Connection, release: Release, ready: _Ready | str) -> None:
        why = (
            self._paused(release)
            or (ready if isinstance(ready, str) else None)
            or _missing(release.message)
            or (None if isinstance(ready, str) else self._obstacle(connection, release, ready))
        )
        if why is None and not isinstance(ready, str):
            why = self._apply(connection, release, ready)
        entry = {"lane": self._ledger.lane, "entry": release.held.id, "position": str(release.held.position)}
        if why is None:
            is_truncate = isinstance(ready, _Ready) and ready.epoch.layout(0).kind is RowKind.TRUNCATE
            self._keeping.release(connection, release.held, is_truncate=is_truncate)
            log.info("released", forced=release.forced, **entry)
        else:
            columns = self._keeping.rules.redaction.columns(release.held.schema, release.held.table)
            why = error_text(why, columns, release.message.key, release.message.value)
            self._quarantine.refuse(connection, release.held.id, why)
            log.warning("release refused", because=why, **entry)

    def _paused(self, release: Release) -> str | None:
        """Why a message of a paused table is not released by itself."""
        paused = self._keeping.paused
        pause = None if paused is None else paused.of(release.held.schema, release.held.table)
        if pause is None or pause.resumed_by is not None:
            return None
        return f"table {pause.name} is paused: surelane resume --table {pause.name} applies what is parked, in order"

    def _is_in_order(self, release: Release) -> bool:
        """Whether its table is resumed: no newer change of any of its rows was applied."""
        paused = self._keeping.paused
        return paused is not None and paused.of(release.held.schema, release.held.table) is not None

    def _obstacle(self, connection: Connection, release: Release, ready: _Ready) -> str | None:
        """Why a release now would break the key's order; None if it would not."""
        if release.forced or not ready.is_change:
            return None
        key = key_of(release.held)
        if (key is None or key != ready.key) and not self._is_in_order(release):
            return _UNKNOWN + _BY_FORCE
        if earlier := self._keeping.earlier(connection, release.held):
            return f"entry {earlier[0]}, an earlier message of its key, is still open: release or discard it first"
        return None

    def _apply(self, connection: Connection, release: Release, ready: _Ready) -> str | None:
        """Apply the message in a savepoint. Returns why the target refuses it, or None."""
        self._guard.begin(GENESIS, _span([release]), AttemptStage.APPLY)
        try:
            with connection.begin_nested():
                self._applier.apply(connection, ready.epoch, ready.shapes)
        except (DBAPIError, psycopg2.Error) as error:
            if verdict_of(error) is Verdict.RETRY:
                raise
            return describe(error)
        except TargetMismatch as error:
            return error.message
        return None


def _row(rows: pa.Table, release: Release) -> pa.Table | str:
    """The release's row among the rows of several."""
    for index in range(rows.num_rows):
        if tuple(rows[name][index].as_py() for name in ("topic", "partition", "offset")) == release.held.position:
            return rows.slice(index, 1)
    return _NO_ROW


def _missing(message: RawMessage) -> str | None:
    return _NOT_KEPT if message.key is None and message.value is None else None


def _span(releases: Sequence[Release]) -> Span:
    """The smallest span that contains the messages of all releases."""
    spans = [single(one.held.position) for one in releases]
    start: dict[TopicPartition, int] = {}
    end: dict[TopicPartition, int] = {}
    for span in spans:
        for tp in span.end:
            start[tp] = min(start.get(tp, span.start[tp]), span.start[tp])
            end[tp] = max(end.get(tp, 0), span.end[tp])
    return Span(start=Offsets.of(start), end=Offsets.of(end))
