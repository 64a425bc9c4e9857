"""Entries of a checkpoint are reported as soon as Spark has renamed them, and a wait can be ended."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.spark.entry_events import LOOK_SECONDS, EntryEvents

#: far longer than any wait here lasts
LONG_SECONDS = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a checkpoint's entries; it is not there yet."""
    return tmp_path / "offsets"


@pytest.fixture
def events(folder: Path) -> Iterator[EntryEvents]:
    made = EntryEvents(folder)
    yield made
    made.close()


def write(folder: Path, name: str) -> None:
    """As Spark does: under another name first."""
    temporary = folder / f".{name}.tmp"
    temporary.write_text("v1")
    temporary.rename(folder / name)


def test_nothing_is_reported_before_the_folder_is_there(events: EntryEvents, folder: Path) -> None:
    assert not events.are_reported
    assert events.wait(0.01) == []
    folder.mkdir()
    assert events.are_reported


def test_an_entry_ends_the_wait(events: EntryEvents, folder: Path) -> None:
    folder.mkdir()
    assert events.are_reported
    write(folder, "7")
    write(folder, "8")
    assert events.wait(LONG_SECONDS) == ["7", "8"]


def test_a_wait_without_entries_ends(events: EntryEvents, folder: Path) -> None:
    """The kernel may have missed one."""
    folder.mkdir()
    begin = time.monotonic()
    assert events.wait(LONG_SECONDS) == []
    assert LOOK_SECONDS * 0.9 <= time.monotonic() - begin < LONG_SECONDS


def test_another_thread_ends_the_wait(folder: Path) -> None:
    events = EntryEvents(None)
    waiting = threading.Thread(target=events.wait, args=(LONG_SECONDS,))
    waiting.start()
    events.wake()
    waiting.join(LONG_SECONDS / 2)
    assert not waiting.is_alive()
    assert not folder.exists()
    events.close()
