"""The messages that one epoch does not apply: condemned ones, and later changes of their keys."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

import numpy as np

from app.config.on_skip import OnSkip, SkipPolicy
from app.config.redaction import Redaction
from app.epoch.epoch_batch import EpochBatch
from app.model.offsets import Position
from app.model.row_layout import RowKind
from app.poison.attempts import Suspect
from app.poison.epoch_rows import EpochRows
from app.quarantine.parked_keys import Key, changes_of, follows
from app.quarantine.quarantine import Entry, EntryState
from app.quarantine.skipped_message import COMPACTED, SkippedMessage, compacted

#: raises when too many messages are condemned
Limit = Callable[[list[SkippedMessage]], None]


class EpochSkips:
    """The skipped messages of one epoch."""

    def __init__(
        self, epoch: EpochBatch, source: EpochRows, unread: list[SkippedMessage], policy: SkipPolicy, limit: Limit
    ) -> None:
        """`unread`: messages that were condemned while they were read; `epoch` has no rows of them."""
        self.epoch = epoch
        self.condemned = list(unread)
        #: rows that follow an open entry of their key, so they are not applied
        self.parked = np.zeros(len(epoch), bool)
        #: rows that were condemned during the apply
        self.refused = np.zeros(len(epoch), bool)
        self._source, self._policy, self._limit = source, policy, limit
        limit(self.condemned)
        for one in unread:
            if (key := one.known_key) is not None:
                self.park(key, changes_of(epoch, {key}).get(key, ()), one.message.position)

    def holds(self, key: Key) -> bool:
        """Whether the policy parks later changes of this key."""
        return self._policy.of(key.schema, key.table) is OnSkip.PARK

    def park_layouts(self, indices: Sequence[int]) -> None:
        """Leave out all rows of these layouts."""
        self.parked |= np.isin(self.epoch.codes, indices)

    def park(self, key: Key, ordinals: Iterable[int], entry: Position) -> None:
        """Leave out the changes of the key that have to follow the entry."""
        after = [ordinal for ordinal in ordinals if follows(self.epoch.position(ordinal), entry)]
        self.parked[self._following(key, after)] = True

    def _following(self, key: Key, after: Sequence[int]) -> list[int]:
        """The changes after an entry that follow it: all if the key is held, else the patches before the first change
        that has the whole row."""
        if self.holds(key):
            return list(after)
        return list(takewhile(lambda ordinal: self.epoch.layout(ordinal).kind is RowKind.PATCH, after))

    def condemn(self, ordinal: int, suspect: Suspect) -> None:
        """Leave out this message, and the later changes of its key that have to follow it."""
        one = SkippedMessage.of_row(self.epoch, ordinal, suspect, self._source.message(self.epoch.position(ordinal)))
        self.condemned.append(one)
        self.refused[ordinal] = True
        self._limit(self.condemned)
        if (key := one.known_key) is not None:
            same = np.flatnonzero(self.epoch.identities == self.epoch.identities[ordinal])
            after = same[(same > ordinal) & ~self.refused[same]].tolist()
            self.parked[self._following(key, after)] = True

    @property
    def left_out(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return self.parked | self.refused

    def rest(self, first: int, end: int) -> EpochBatch:
        """The rows to apply from ordinal `first` (inclusive) to `end` (exclusive)."""
        part, skipped = self.epoch.part(first, end), np.flatnonzero(self.left_out[first:end])
        return part.without(skipped) if len(skipped) else part

    def entries(self, redaction: Redaction) -> list[Entry]:
        """The entries for the quarantine, in order of position."""
        found = [one.entry(redaction) for one in self.condemned] + list(self._parked_entries())
        return sorted(found, key=lambda entry: entry.message.position)

    def reasons(self) -> list[str]:
        """The reason for each skipped message, one word, for counters."""
        return [one.reason for one in self.condemned] + [EntryState.PARKED.value] * int(self.parked.sum())

    def _key_text(self, ordinal: int) -> str | None:
        try:
            return self.epoch.rows["key"][ordinal].as_py()
        except UnicodeDecodeError:  # an upsert can be applied without its key
            return None

    def _parked_entries(self) -> Iterator[Entry]:
        ordinals = np.flatnonzero(self.parked).tolist()
        messages = self._source.messages([self.epoch.position(ordinal) for ordinal in ordinals])
        for ordinal, message in zip(ordinals, messages, strict=True):
            layout = self.epoch.layout(ordinal)
            position = self.epoch.position(ordinal)
            yield Entry(
                message=compacted(position) if message is None else message,
                state=EntryState.PARKED,
                schema=layout.schema,
                table=layout.table,
                key_text=self._key_text(ordinal),
                error=COMPACTED if message is None else None,
            )
