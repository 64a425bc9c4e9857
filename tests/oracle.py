"""What the target has to look like: a plain fold of the messages, one after the other, in Python.

It knows nothing of epochs, compaction, staging or plans. `questions` asks what every run has to answer, however it
went; `Reader` watches a running lane from outside.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from app.archive.committed_files import Folder
from app.archive.names import PART
from app.archive.reader import ArchiveReader
from app.model.message import RawMessage
from tests.messages import Key, Row

if TYPE_CHECKING:
    from pathlib import Path

    from app.model.offsets import Offsets
    from tests.fix_target import Target
    from tests.fix_topic import Sent, Topic

#: seconds between two looks of a reader: it shares the processors with the lane it watches
PAUSE_SECONDS = 0.02

State = dict[str, dict[Key, dict[str, Any]]]


def fold(sent: "Iterable[Sent]", state: State | None = None) -> State:
    """Apply the changes in order; the rows of each table by key. A table whose rows are all gone stays, empty.

    A column that a change leaves out keeps its value.
    """
    result: State = state if state is not None else {}
    for one in sent:
        change = one.message.change
        if change is None:
            continue
        rows = result.setdefault(change.table, {})
        if change.row is None:
            rows.pop(change.key, None)
        else:
            rows[change.key] = {**rows.get(change.key, {}), **change.row}
    return result


def up_to(sent: "Iterable[Sent]", position: "Offsets") -> "list[Sent]":
    """The messages before a position."""
    return [one for one in sent if one.position.offset < position.get(one.tp, 0)]


class Cursor:
    """The fold at a position that only goes forward."""

    def __init__(self) -> None:
        self.state: State = {}
        self._done: set[Any] = set()

    def move(self, sent: "Sequence[Sent]", position: "Offsets") -> State:
        """The state when everything before `position` is applied."""
        new = [one for one in up_to(sent, position) if one.position not in self._done]
        self._done.update(one.position for one in new)
        return fold(new, self.state)


class Reader:
    """A reader of the target, in a thread: each look is one snapshot of all tables and of the ledger's end.

    Whatever it sees has to be the fold of exactly the messages before the ledger's end: part of an epoch, or data
    without its ledger row, is neither. Use as a context manager; a mismatch fails at its end.
    """

    def __init__(self, target: "Target", *topics: "Topic", lane: str | None = None) -> None:
        self._target, self._topics = target, topics
        self._lane = lane or target.lane
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="reader", daemon=True)
        self._cursor = Cursor()
        #: how many snapshots were taken, and at how many different positions
        self.looks = 0
        self.positions: set[str] = set()
        self.mismatch: str | None = None
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is None:
            self.check()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Fail if a look went wrong."""
        if self.failure is not None:
            raise self.failure
        assert self.mismatch is None, f"a reader saw what no epoch's end looks like: {self.mismatch}"
        assert self.looks, "the reader never looked"

    def _watch(self) -> None:
        while not self._stop.is_set() and self.mismatch is None:
            try:
                self.look()
                self._stop.wait(PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001  # handed to the test's own thread by `check`
                if self._target.is_away(error):
                    continue
                self.failure = error
                return

    def look(self) -> None:
        """Take one snapshot and compare it."""
        sent = [one for topic in self._topics for one in topic.sent]
        tables = sorted({one.message.change.table for one in sent if one.message.change})
        position, rows = self._target.snapshot(tables, self._lane)
        if position is None:
            return
        sent = [one for topic in self._topics for one in _delivered(topic)]  # sent meanwhile, and applied
        expected = self._cursor.move(sent, position)
        differing = [difference(table, rows[table], expected.get(table, {})) for table in tables]
        self.mismatch = next((f"at {position}: {text}" for text in differing if text), None)
        self.looks += 1
        self.positions.add(str(position))


def _delivered(topic: "Topic") -> "list[Sent]":
    """What was sent, with the messages that are on their way now."""
    with topic.sending:
        return list(topic.sent)


def difference(table: str, found: Mapping[Key, Row], expected: Mapping[Key, Row]) -> str | None:
    """What the first differing keys are, None for equal tables."""
    missing = [key for key in expected if key not in found]
    surplus = [key for key in found if key not in expected]
    other = [key for key, row in expected.items() if key in found and not _holds(found[key], row)]
    if not (missing or surplus or other):
        return None
    shown = [f"{key}: found {found.get(key)}, expected {expected.get(key)}" for key in [*missing, *surplus, *other][:3]]
    return f"{table}: {len(missing)} missing, {len(surplus)} too many, {len(other)} different; {'; '.join(shown)}"


def _holds(found: Row, expected: Row) -> bool:
    """Whether a row has these values; columns that only the target has are its own."""
    return all(name in found and found[name] == value for name, value in expected.items())


def equals_oracle(target: "Target", *topics: "Topic") -> None:
    """Every table that a message was sent for holds exactly the fold of all messages."""
    sent = sorted((one for topic in topics for one in topic.sent), key=lambda one: one.number)
    for table, expected in fold(sent).items():
        assert (text := difference(table, target.rows(table), expected)) is None, text


def questions(
    target: "Target",
    *topics: "Topic",
    lane: str | None = None,
    reader: Reader | None = None,
    exactly_once: bool = True,
    exact_end: bool = True,
    quarantined: int = 0,
    archive: "Path | None" = None,
) -> None:
    """What every run has to answer at its end, after whatever happened on the way.

    The target equals the oracle; the ledger ends where the topics end; no prepared transaction is left; the counts add
    up, and with exactly-once each message counts once; so many messages are in quarantine; a reader (if one watched)
    never saw part of an epoch; the archive (if there is one) has exactly what was consumed.
    """
    lane = lane or target.lane
    equals_oracle(target, *topics)
    if exact_end:
        ends = {tp: offset for topic in topics for tp, offset in topic.ends.items()}
        assert dict(target.position(lane)) == ends, "the ledger ends where the topics end"
    assert target.prepared() == []
    _counts_add_up(target, topics, lane, exactly_once=exactly_once)
    kept = target.execute("select from surelane.quarantine where lane ~ ('^' || :lane || '([.][0-9]+)?$')", lane=lane)
    assert len(kept) == quarantined, "messages in quarantine"
    counted = target.ledger_sum(lane).quarantined
    assert counted == quarantined if exactly_once else counted >= quarantined
    if archive is not None:
        archived(target, *topics, lane=lane, archive=archive)
    if reader is not None:
        reader.stop()
        reader.check()


def archived(target: "Target", *topics: "Topic", lane: str, archive: "Path") -> None:
    """The archive has exactly what the committed epochs consumed: every message as it was sent, once, whole, in order;
    only epochs that the ledger has, with the very offsets; and nothing that is not committed."""
    lanes = sorted(
        {row.lane for row in target.execute("select distinct lane from surelane.ledger") if _is_of(row, lane)}
    )
    found: list[RawMessage] = []
    for name in lanes:
        folder, reader = Folder(archive, name), ArchiveReader(archive, name)
        assert [path.name for path in folder.path.iterdir() if path.name.startswith(PART)] == []
        assert (reader.faults(), reader.gaps(), folder.superseded()) == ([], [], [])
        rows = {(row.generation, row.epoch): row for row in target.epochs(name)}
        for epoch in (epoch for file in folder.files() for epoch in file.head.epochs):
            row = rows[epoch.id]
            for tp, start, end in epoch.stretches:
                low, high = (side[tp.topic][str(tp.partition)] for side in (row.start_position, row.end_position))
                assert low <= start < end <= high, f"{epoch.id} has {tp} {start} to {end}, the ledger {low} to {high}"
        for tp, offset in target.position(name).items():
            if offset:
                assert reader.spans()[tp] == [(0, offset)], "all of it, from the beginning to the ledger's end"
            found += reader.read(tp.topic, tp.partition, 0, offset)
    wanted = {one.position: one.message for topic in topics for one in topic.sent}
    assert [one.position for one in found] == sorted(wanted), "every message once, in order"
    for one in found:
        sent = wanted[one.position]
        assert (one.key, one.value, one.headers) == (sent.key, sent.value, tuple(sent.headers))


def _is_of(row: Any, lane: str) -> bool:
    """Whether it is the lane, or that of one partition."""
    return row.lane == lane or row.lane.rpartition(".")[0] == lane


def _counts_add_up(target: "Target", topics: "Sequence[Topic]", lane: str, *, exactly_once: bool) -> None:
    total = target.ledger_sum(lane)
    assert total.adds_up, total
    sent = sum(len(topic.sent) for topic in topics)
    once = total.consumed - total.duplicate
    assert once == sent if exactly_once else once >= sent, f"{sent} messages were sent: {total}"
