"""A query whose rows go to files or to a topic, killed at places of its epochs and of its sink: each row once, in
order, and a reader sees epochs as a whole."""

from pathlib import Path
from typing import Any

import pytest

from app.config.queries import FileFormat
from app.config.settings import CommitMode
from app.failpoint import FILES_NAMES, TOPIC_NAMES
from tests.crash.killing import (
    EPOCH_MESSAGES,
    MODES,
    TIMEOUT_SECONDS,
    Kills,
    Looks,
    places_of,
    three_epochs,
)
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.queries import LINES, Shop
from tests.query_sinks import epochs, messages_of, offsets_of, read_by_epoch, rows_of


def in_order(found: list[int], mode: CommitMode) -> list[int]:
    """At-least-once writes an epoch again that a crash has left undecided: without the repeated rows."""
    return list(dict.fromkeys(found)) if mode is CommitMode.AT_LEAST_ONCE else found


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", MODES)
def test_files(
    mode: CommitMode,
    kills: Kills,
    seed: int,
    lane: MakeLane,
    target: Target,
    topic: Topic,
    tmp_path: Path,
) -> None:
    shop, known = Shop(target, topic, seed), dict[str, list[dict[str, Any]]]()
    shop.prepare()
    form = list(FileFormat)[seed % 2]
    place = {"files": {"path": str(tmp_path), "format": form.value}, "max_messages": EPOCH_MESSAGES}
    made = lane(mode, queries={"lines": {**LINES, **place}})
    name = made.of_query("lines").name
    folder = tmp_path / name

    def half_an_epoch() -> Any:
        """A folder that was seen never changes, and has the rows of its epoch in the ledger; folders have the order of
        the topic."""
        for one in epochs(folder):
            rows = rows_of(one)
            if not rows or known.setdefault(one.name, rows) != rows:
                return one.name, rows
        read = read_by_epoch(target, name, topic)
        for epoch, rows in known.items():
            if [row["offset"] for row in rows] != read.get(epoch):
                return epoch, rows, read.get(epoch)
        found = in_order([row["offset"] for name in sorted(known) for row in known[name]], mode)
        return None if found == offsets_of(topic)[: len(found)] else found

    reader = Looks(half_an_epoch)
    places, number = places_of(mode, *FILES_NAMES), 1 + len(FILES_NAMES)
    kills.at(made, places, number, three_epochs(shop, name), "--query", "lines")
    reader.stop()
    found = in_order([row["offset"] for one in epochs(folder) for row in rows_of(one)], mode)
    assert found == offsets_of(topic)
    assert list((folder / ".pending").iterdir()) == []
    assert target.prepared() == []


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("mode", MODES)
def test_a_topic(
    mode: CommitMode,
    kills: Kills,
    seed: int,
    lane: MakeLane,
    target: Target,
    topic: Topic,
    new_topic: NewTopic,
) -> None:
    shop, out = Shop(target, topic, seed), new_topic()
    shop.prepare()
    place = {"kafka": {"topic": out.name}, "max_messages": EPOCH_MESSAGES}
    made = lane(mode, queries={"lines": {**LINES, **place}})
    name = made.of_query("lines").name

    def sent() -> list[int]:
        return in_order([value["offset"] for _, value in messages_of(out) if value is not None], mode)

    def half_an_epoch() -> Any:
        """Every message once, in the order of the topic, up to the end of an epoch: each is one transaction, in the
        ledger before it is sent, and nothing is visible behind the first message of an open one."""
        found = sent()
        ends = {offsets[-1] for offsets in read_by_epoch(target, name, topic).values() if offsets}
        is_whole = not found or (offsets_of(topic)[: len(found)] == found and found[-1] in ends)
        return None if is_whole else found

    reader = Looks(half_an_epoch)
    places, number = places_of(mode, *TOPIC_NAMES), 1 + len(TOPIC_NAMES)
    kills.at(made, places, number, three_epochs(shop, name), "--query", "lines")
    reader.stop()
    assert sent() == offsets_of(topic)
    assert target.prepared() == []
