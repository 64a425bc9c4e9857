"""Updates that leave an unchanged large value out: the target keeps its own, wherever the epochs are cut."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.config.on_skip import OnSkip
from app.config.settings import CommitMode
from app.errors import BadMessage
from tests import messages as m
from tests.fix_bare_lane import MakeBareLane
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import LEFT_OUT, Debezium, Message, Table
from tests.oracle import questions

BIG = Table("big", {"id": m.INT, "v": m.TEXT, "t": m.TEXT, "b": m.BYTEA, "a": m.TEXTS, "n": m.INTS})
d = Debezium()


def row(number: int, v: str, large: object = LEFT_OUT) -> dict[str, object]:
    """A row; `large` False: with values of its own."""
    if large is LEFT_OUT:
        return {"id": number, "v": v, **dict.fromkeys("tban", LEFT_OUT)}
    return {
        "id": number,
        "v": v,
        "t": f"{large}\t\\N",
        "b": f"{large}".encode(),
        "a": [f"{large}", None],
        "n": [1, None],
    }


def test_the_targets_value_stays(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(BIG)
    lane = bare_lane()
    lane.apply([d.create(BIG, row(1, "a", "one")), d.create(BIG, row(2, "a", "two"))])
    lane.apply([d.update(BIG, row(1, "b")), d.update(BIG, {**row(2, "b", "zwei"), "t": LEFT_OUT})])
    lane.check()
    assert target.rows("public.big")[1,]["t"] == "one\t\\N"
    assert target.rows("public.big")[2,]["b"] == b"zwei"


def test_changes_of_one_row_in_one_epoch(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(BIG)
    lane = bare_lane()
    lane.apply([d.create(BIG, row(number, "a", "old")) for number in range(1, 6)])
    lane.apply(
        [
            d.create(BIG, row(10, "a", "new")),
            d.update(BIG, row(10, "b")),
            d.update(BIG, row(1, "c")),
            d.update(BIG, {**row(1, "d", "d"), "v": "x", "t": LEFT_OUT}),
            d.update(BIG, row(2, "e", "full")),
            d.update(BIG, row(2, "f")),
            d.update(BIG, row(2, "g")),
            d.update(BIG, row(3, "h")),
            d.delete(BIG, row(3, "h")),
            d.delete(BIG, row(4, "a", "old")),
            d.create(BIG, row(4, "i", "again")),
            d.update(BIG, row(4, "j")),
            *d.rekey(BIG, row(5, "a", "old"), row(6, "k", "moved")),
            d.update(BIG, row(6, "l")),
        ]
    )
    lane.check()
    assert target.rows("public.big")[2,] == row(2, "g", "full")


def test_what_looks_like_it_in_a_snapshot_is_a_value(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(BIG)
    lane = bare_lane()
    text = "__debezium_unavailable_value"
    lane.apply([d.read(BIG, {**row(1, "a", "x"), "t": text}), d.read(BIG, {**row(2, "a", "x"), "v": text})])
    lane.apply([d.update(BIG, row(1, f"talks of {text}"))])
    lane.check()
    assert target.rows("public.big")[1,]["t"] == text


@pytest.mark.parametrize("cut", [None, 1, 2])
def test_a_key_that_changes_without_its_large_values(cut: int | None, target: Target, bare_lane: MakeBareLane) -> None:
    """The row keeps them, also where an epoch ends in the midst of the change."""
    target.create(BIG)
    lane = bare_lane()
    lane.apply([d.create(BIG, row(1, "a", "x")), d.create(BIG, row(3, "c", "y"))])
    changes = [d.delete(BIG, row(3, "c")), *d.rekey(BIG, row(1, "a"), row(2, "b"))]
    if cut is None:
        lane.apply(changes)
    else:
        record = lane.apply(changes[: 1 + cut])
        assert (record.counts.consumed, record.counts.applied) == (1, 1)
        assert target.rows("public.big") == {(1,): row(1, "a", "x")}
        lane.reopen()
        record = lane.apply(changes[1 + cut :])
        assert (record.counts.consumed, record.counts.applied) == (3, 2)
    assert target.rows("public.big") == {(2,): row(2, "b", "x")}


def test_patches_behind_a_refused_change_wait_with_it(target: Target, bare_lane: MakeBareLane) -> None:
    """What the refused one says of the large value is not lost, and a release does not turn newer values back."""
    target.create(replace(BIG, constraints=("check (v <> 'bad')",)))
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    lane.apply([d.create(BIG, row(1, "a", "t1")), d.create(BIG, row(2, "a", "t1"))])
    lane.apply([d.update(BIG, row(1, "bad", "t2")), d.update(BIG, row(1, "newer")), d.update(BIG, row(2, "bad", "t2"))])
    lane.apply([d.update(BIG, row(1, "newest")), d.update(BIG, row(2, "whole", "t3")), d.update(BIG, row(2, "more"))])
    states = target.execute("select state from surelane.quarantine order by id")
    assert [one.state for one in states] == ["quarantined", "parked", "superseded", "parked"]
    assert target.rows("public.big") == {(1,): row(1, "a", "t1"), (2,): row(2, "more", "t3")}


def test_a_patch_is_not_refused_for_what_the_change_before_it_says(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(replace(BIG, constraints=("check (left(t, 3) <> 'bad')",)))
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    lane.apply([d.create(BIG, row(1, "a", "t1"))])
    lane.apply([d.update(BIG, row(1, "b", "bad")), d.update(BIG, row(1, "c")), d.update(BIG, row(1, "d"))])
    kept = target.execute("select state, attempts from surelane.quarantine order by id")
    assert [tuple(one) for one in kept] == [("quarantined", 3), ("parked", 0), ("parked", 0)]
    assert target.rows("public.big") == {(1,): row(1, "a", "t1")}


def test_a_patch_of_nothing_but_the_key(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table doc (id int generated always as identity primary key, t text)")
    doc = Table("doc", {"id": m.INT, "t": m.TEXT})
    lane = bare_lane()
    lane.apply([d.create(doc, {"id": 1, "t": "large"})])
    lane.apply([d.update(doc, {"id": 1, "t": LEFT_OUT})])
    lane.check()


def test_a_row_that_is_not_there_cannot_be_made_of_it(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(BIG)
    with pytest.raises(BadMessage, match=r"1 of 1 rows of .*big.* are not there"):
        bare_lane(on_skip=OnSkip.STOP).apply([d.update(BIG, row(1, "a"))])
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    bad = d.update(BIG, row(1, "a"))
    record = lane.apply([d.create(BIG, row(2, "a", "x")), bad, d.update(BIG, row(2, "b"))])
    assert record.counts.quarantined == 1
    assert target.rows("public.big") == {(2,): row(2, "b", "x")}
    assert [one.sqlstate for one in target.execute("select sqlstate from surelane.quarantine")] == ["P0002"]


@pytest.mark.costly(3)
@pytest.mark.parametrize("seed", range(8))
def test_anything_in_any_epochs(seed: int, target: Target, bare_lane: MakeBareLane) -> None:
    target.create(BIG)
    lane = bare_lane(mode=list(CommitMode)[seed % 3])
    messages = list(_history(random.Random(seed), 400))
    dice = random.Random(seed + 100)
    while messages:
        size = dice.choice([1, 3, 20, 60])
        lane.apply(messages[:size])
        del messages[:size]
        lane.check()


def _history(dice: random.Random, count: int) -> Iterator[Message]:
    there: set[int] = set()
    for at in range(count):
        number = dice.randrange(12)
        if number not in there:
            there.add(number)
            yield d.create(BIG, row(number, f"c{at}", f"large {at}"))
        elif dice.random() < 0.15:
            there.remove(number)
            yield d.delete(BIG, row(number, ""))
        else:
            whole = row(number, f"u{at}", f"large {at}")
            yield d.update(
                BIG,
                {name: LEFT_OUT if name in "tban" and dice.random() < 0.5 else value for name, value in whole.items()},
            )


@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
def test_through_the_whole_lane(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """With envelope and without, decoded by Spark."""
    target.create(BIG)
    source = Debezium(envelope=mode is not CommitMode.LEDGER)
    messages = [source.create(BIG, row(number, "a", f"large {number}")) for number in range(40)]
    messages += [source.update(BIG, row(number % 40, f"b{number}")) for number in range(0, 200, 3)]
    messages += [source.update(BIG, {**row(number, "c", "new"), "a": LEFT_OUT}) for number in range(0, 40, 5)]
    topic.send(messages)
    topic.send([Message(key=b"\xff\xfe", value=None)])  # of another producer, beside patches
    topic.send([source.update(BIG, row(number, "d")) for number in range(5)])
    made = lane(mode, epoch={"max_messages": 25})
    made.run_until_caught_up()
    questions(target, topic, exactly_once=made.exactly_once)
