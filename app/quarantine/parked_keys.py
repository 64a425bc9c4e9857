"""Keys that have open entries in quarantine. Later changes of a key follow into quarantine or supersede the entries.

The lane reads them when it opens and updates them with its own entries: only the lane opens entries. When an epoch
contains such a key, the lane asks the database whether an operator has closed its entry.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
from sqlalchemy import Connection

from app.epoch.epoch_batch import CHANGES, EpochBatch
from app.model.arrow import compute
from app.model.offsets import Position
from app.quarantine.quarantine import OpenEntry, Quarantine


class Key(NamedTuple):
    """The identity of a row at the source."""

    schema: str
    table: str
    #: the message's key as decoded
    text: str


class ParkedKeys:
    """Open entries of one lane by key; entries without a known key are left out."""

    def __init__(self, quarantine: Quarantine) -> None:
        self._quarantine = quarantine
        #: id -> position, in order of position
        self._entries: dict[Key, dict[int, Position]] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, connection: Connection) -> None:
        """Read all open entries again."""
        self._entries = {}
        self.add(self._quarantine.held(connection))

    def add(self, opened: Iterable[OpenEntry]) -> None:
        """Add open entries."""
        for held in opened:
            if (key := key_of(held)) is not None:
                self._entries.setdefault(key, {})[held.id] = held.position

    def remove(self, closed: Iterable[int]) -> None:
        """Remove closed entries."""
        gone = set(closed)
        for key in [key for key, entries in self._entries.items() if gone & entries.keys()]:
            self._entries[key] = {one: at for one, at in self._entries[key].items() if one not in gone}
            if not self._entries[key]:
                del self._entries[key]

    def first(self, key: Key) -> Position | None:
        """The position of the key's first open entry; None if it has none."""
        return next(iter(self._entries.get(key, {}).values()), None)

    def entries(self, key: Key) -> int:
        """How many open entries the key has."""
        return len(self._entries.get(key, ()))

    def up_to(self, key: Key, change: Position) -> list[int]:
        """Ids of the key's open entries at or before this change."""
        return [entry for entry, position in self._entries.get(key, {}).items() if follows(change, position)]

    def confirm(self, connection: Connection, keys: Collection[Key]) -> None:
        """Check that these keys have open entries, and read all again if not. Locks the first entry of each key, which
        stays open until this transaction ends."""
        while firsts := {next(iter(self._entries[key])) for key in keys if key in self._entries}:
            if self._quarantine.still_open(connection, firsts) == firsts:
                return
            self.read(connection)


def key_of(held: OpenEntry) -> Key | None:
    """The entry's key; None if it is not known."""
    if held.schema is None or held.table is None or held.key_text is None:
        return None
    return Key(held.schema, held.table, held.key_text)


def follows(change: Position, entry: Position) -> bool:
    """Whether a change comes after an entry of the same key, or is that entry.

    A key's changes are in one partition; if they have moved to another, the change counts as the newer one.
    """
    return change[:2] != entry[:2] or change.offset >= entry.offset


def changes_of(epoch: EpochBatch, keys: Collection[Key]) -> dict[Key, list[int]]:
    """Ordinals of all changes of these keys, ascending, by key."""
    found: dict[Key, list[int]] = {}
    if not keys or not len(epoch):
        return found
    wanted = pa.array(list({key.text for key in keys}), pa.string())
    ordinals = compute.indices_nonzero(compute.is_in(epoch.rows["key"], value_set=wanted))
    for ordinal, text in zip(ordinals.to_pylist(), epoch.rows["key"].take(ordinals).to_pylist(), strict=True):
        layout = epoch.layout(ordinal)
        key = Key(layout.schema, layout.table, text)
        if layout.kind in CHANGES and key in keys:
            found.setdefault(key, []).append(ordinal)
    return found
