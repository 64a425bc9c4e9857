"""Writes one lane's quarantine: the entries of each epoch, and the entries that a newer change supersedes.

It writes in the epoch's transaction; the copy in memory changes once that transaction has passed.

    begin   leave rows of held keys out of the epoch (park)
    end     keep condemned and parked messages, supersede entries whose key has a newer change;
            raise an error beyond the limits
    passed  update the copy in memory
"""

from dataclasses import dataclass

import numpy as np
import structlog
from sqlalchemy import Connection

from app.apply.table_plans import TablePlan
from app.config.on_skip import OnSkip, SkipPolicy
from app.config.redaction import Redaction
from app.config.settings import BreakerSettings
from app.epoch.epoch_batch import EpochBatch
from app.errors import BreakerTripped
from app.model.offsets import Position, TopicPartition
from app.model.row_layout import RowKind
from app.poison.epoch_rows import EpochRows
from app.poison.guard import Guard
from app.quarantine.epoch_skips import EpochSkips
from app.quarantine.parked_keys import Key, ParkedKeys, changes_of, follows, key_of
from app.quarantine.paused_tables import PausedTables
from app.quarantine.quarantine import OpenEntry, Quarantine
from app.quarantine.skipped_message import SkippedMessage

log = structlog.get_logger()

RUNBOOK = "ops/runbooks/quarantined-message.md"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The configuration for skipped messages."""

    policy: SkipPolicy
    redaction: Redaction
    max_parked_keys: int
    breaker: BreakerSettings | None


class QuarantineWriter:
    def __init__(
        self,
        lane: str,
        generation: int,
        quarantine: Quarantine,
        guard: Guard,
        rules: Rules,
        paused: PausedTables | None = None,
    ) -> None:
        """`paused`: tables whose changes are parked; None: there are none."""
        self.rules, self.paused = rules, paused
        self._lane, self._generation = lane, generation
        self._quarantine, self._guard = quarantine, guard
        self.keys = ParkedKeys(quarantine)
        self._opened: list[OpenEntry] = []
        self._closed: list[int] = []

    def open(self, connection: Connection) -> None:
        """Read what waits, and the paused tables."""
        self.keys.read(connection)
        if self.paused is not None:
            self.paused.read(connection)

    def paused_layouts(self, epoch: EpochBatch) -> list[int]:
        """Indices of the layouts whose rows are parked because their table is paused."""
        return [] if self.paused is None else self.paused.layouts(epoch)

    def begin(
        self, connection: Connection, epoch: EpochBatch, source: EpochRows, unread: list[SkippedMessage]
    ) -> EpochSkips:
        """The initial skips of this epoch: messages that could not be read, and rows of held keys."""
        self.drop()
        skips = EpochSkips(epoch, source, unread, self.rules.policy, self._limit)
        skips.park_layouts(self.paused_layouts(epoch))
        has_patches = any(layout.kind is RowKind.PATCH for layout in epoch.layouts)
        touched = changes_of(epoch, {key for key in self.keys if has_patches or skips.holds(key)})
        self.keys.confirm(connection, touched)
        for key, ordinals in touched.items():
            if (entry := self.keys.first(key)) is not None:
                skips.park(key, ordinals, entry)
        return skips

    def end(self, connection: Connection, number: int, skips: EpochSkips, shapes: dict[int, TablePlan]) -> None:
        """Keep skipped messages and supersede older entries, in the epoch's transaction.

        Raises BadMessage if the policy is to stop, BreakerTripped beyond `guard.breaker` or `guard.max_parked_keys`,
        TooManyParked beyond `limits.parked_messages`.
        """
        stops = [one for one in skips.condemned if self.rules.policy.of(*one.table) is OnSkip.STOP]
        if stops:
            self._clear_suspects(stops)
            raise stops[0].error(self._lane, self.rules.redaction)
        if entries := skips.entries(self.rules.redaction):
            self._opened = self._quarantine.add(connection, self._generation, number, entries)
            self._check_breaker(connection, skips.condemned)
            self._check_keys(connection, skips)
            if self.paused and skips.parked.any():
                self.paused.check(connection, self._lane)
            self._log_skips(skips)
        self._closed = [*self._superseded(skips, shapes), *self._truncated(connection, skips, shapes)]
        if self._closed:
            self._quarantine.supersede(connection, self._closed)

    def passed(self) -> None:
        """Update the copy in memory: the transaction has passed."""
        self.keys.add(self._opened)
        if self._closed:
            self.keys.remove(self._closed)
        self.drop()

    def drop(self) -> None:
        """Discard the notes of a transaction that failed, before another one begins."""
        self._opened, self._closed = [], []

    def release(self, connection: Connection, held: OpenEntry, *, is_truncate: bool = False) -> None:
        """Mark an entry as released by this transaction; supersede older open entries of its key, for a truncate of its
        table."""
        self._quarantine.released(connection, held.id)
        key = key_of(held)
        older = [entry for entry in self.keys.up_to(key, held.position) if entry != held.id] if key else []
        if is_truncate:
            place = held.schema, held.table
            same = [one for one in self._quarantine.held(connection) if (one.schema, one.table) == place]
            older = [one.id for one in same if one.id != held.id and follows(held.position, one.position)]
        if older:
            self._quarantine.supersede(connection, older)
        self._closed += [held.id, *older]

    def skipped_between(self, connection: Connection, tp: TopicPartition, first: int, end: int) -> set[int]:
        """Offsets from `first` (inclusive) to `end` (exclusive) that have an entry in any state."""
        return self._quarantine.offsets_between(connection, tp, first, end)

    def earlier(self, connection: Connection, held: OpenEntry) -> list[int]:
        """Ids of older entries of the same key that are still open."""
        key = key_of(held)
        known = [entry for entry in self.keys.up_to(key, held.position) if entry != held.id] if key else []
        return sorted(self._quarantine.still_open(connection, known)) if known else []

    def _superseded(self, skips: EpochSkips, shapes: dict[int, TablePlan]) -> list[int]:
        """Ids of open entries, this epoch's included, of keys for which this epoch applies a later change."""
        if not self.keys and not self._opened:
            return []
        known = ParkedKeys(self._quarantine)
        known.add(self._opened)
        wanted = {key for key in (*self.keys, *known) if not skips.holds(key)}
        closed: list[int] = []
        # a patch has only a part of the row: older changes of the rest are still needed
        whole = {index for index, shape in shapes.items() if shape.kind is not RowKind.PATCH}
        for key, ordinals in changes_of(skips.epoch, wanted).items():
            sent = [one for one in ordinals if not skips.left_out[one]]
            applied = [one for one in sent if int(skips.epoch.codes[one]) in whole]
            if applied:
                last = skips.epoch.position(applied[-1])
                closed += [*self.keys.up_to(key, last), *known.up_to(key, last)]
        return closed

    def _truncated(self, connection: Connection, skips: EpochSkips, shapes: dict[int, TablePlan]) -> list[int]:
        """Ids of open entries that come before a truncate of their table which this epoch applies."""
        epoch, ends = skips.epoch, dict[tuple[str | None, str | None], Position]()
        for index, shape in shapes.items():
            applied = np.flatnonzero((epoch.codes == index) & ~skips.left_out)
            if shape.kind is RowKind.TRUNCATE and len(applied):
                ends[epoch.layouts[index].schema, epoch.layouts[index].table] = epoch.position(int(applied[-1]))
        held = self._quarantine.held(connection) if ends else ()
        return [one.id for one in held if (end := ends.get((one.schema, one.table))) and follows(end, one.position)]

    def _limit(self, condemned: list[SkippedMessage]) -> None:
        """Raise BreakerTripped as soon as this epoch alone condemns too many messages."""
        if self.rules.breaker is not None and len(condemned) > self.rules.breaker.messages:
            raise self._tripped(self.rules.breaker, condemned)

    def _check_breaker(self, connection: Connection, condemned: list[SkippedMessage]) -> None:
        breaker = self.rules.breaker
        if breaker and condemned and self._quarantine.since(connection, breaker.minutes) > breaker.messages:
            raise self._tripped(breaker, condemned)

    def _tripped(self, breaker: BreakerSettings, condemned: list[SkippedMessage]) -> BreakerTripped:
        """The error, after clearing the suspects: the next start tries the messages again, perhaps after a repair."""
        self._clear_suspects(condemned)
        last = condemned[-1]
        return BreakerTripped(
            f"lane {self._lane}: more than {breaker.messages} messages would be in quarantine within "
            f"{breaker.minutes:g} minutes (guard.breaker), the last one {last.message.position}: "
            f"{last.words(self.rules.redaction)}. Nothing of this epoch was applied",
            hint=f"see {RUNBOOK}; `surelane quarantine list --since 1h` shows what they have in common. Mend that and "
            "start again, or raise guard.breaker.messages if they are meant to be skipped",
        )

    def _check_keys(self, connection: Connection, skips: EpochSkips) -> None:
        added = {key for held in self._opened if (key := key_of(held)) is not None}
        if added <= set(self.keys) or len(added.union(self.keys)) <= self.rules.max_parked_keys:
            return
        now = ParkedKeys(self._quarantine)
        now.read(connection)  # operators may have closed entries whose keys no epoch contained since
        held = [key for key in now if skips.holds(key) and not self._is_paused(key)]
        if len(held) > self.rules.max_parked_keys:
            self._clear_suspects(skips.condemned)
            raise BreakerTripped(
                f"lane {self._lane}: changes of {len(held)} keys would wait in quarantine, "
                f"{self.rules.max_parked_keys} may (guard.max_parked_keys). Nothing of this epoch was applied",
                hint=f"see {RUNBOOK}; `surelane quarantine list --state quarantined`, then "
                "`surelane quarantine release --all` or `surelane quarantine discard --all --reason ...`, with --table "
                "for one table; or raise guard.max_parked_keys",
            )

    def _is_paused(self, key: Key) -> bool:
        return self.paused is not None and self.paused.of(key.schema, key.table) is not None

    def _clear_suspects(self, condemned: list[SkippedMessage]) -> None:
        for one in condemned:
            self._guard.clear_suspect(one.suspect)

    def _log_skips(self, skips: EpochSkips) -> None:
        for one in skips.condemned:
            log.warning("quarantined", lane=self._lane, **one.described())
        if parked := int(skips.parked.sum()):
            log.warning("parked", lane=self._lane, messages=parked)
