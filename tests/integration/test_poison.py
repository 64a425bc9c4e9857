"""Poison through the whole lane, in every mode: what the target refuses, what cannot be decoded, what code raises or
kills a Python worker. What kills the lane's own process is in tests/crash/test_deadly.py."""

from itertools import product

import pytest
from prometheus_client import REGISTRY

from app.config.settings import CommitMode
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Message
from tests.oracle import Reader
from tests.poison import Expected, check, row, send
from tests.transforms import can_eat

MODES = list(CommitMode)
#: what a transform does to its worker: these without `--full-matrix`
DEEDS = ((CommitMode.AT_LEAST_ONCE, "segfault"), (CommitMode.TWO_PHASE, "eat"))
MAX_ATTEMPTS = 3
#: its metrics
GUARD = ("suspects", "narrowing_messages", "narrowing_depth", "attempts_in_progress", "lost_seconds_total")
EPOCH_MESSAGES = 100
DDL = (
    "create table parent (id int primary key)",
    "create table flat (id int primary key, v varchar(12) not null check (v <> 'never'), parent int references parent)",
    "create unique index on flat (v) where v like 'one%'",
    "create function recurse() returns void language plpgsql as 'begin perform recurse(); end'",
    """
    create function obey() returns trigger language plpgsql security definer as $$ begin
        if new.v = 'raise' then raise 'not this one'; end if;
        if new.v = 'recurse' then perform recurse(); end if;
        if new.v = 'end' then perform pg_terminate_backend(pg_backend_pid()); end if;
        return new;
    end $$
    """,
    "create trigger obey before insert or update on flat for each row execute function obey()",
)
#: Kafka's own limit of a message, less what a batch needs around it
LARGEST = 999_000

KINDS: dict[str, tuple[Message, str | None, str]] = {
    "a value too long": (row(1001, "x" * 13), "22001", "apply"),
    "a number too large": (row(2**31), "22003", "apply"),
    "a NUL": (row(1002, "a\0b"), "22021", "apply"),
    "NOT NULL": (row(1003, None), "23502", "apply"),
    "CHECK": (row(1004, "never"), "23514", "apply"),
    "unique": (row(1005, "one"), "23505", "apply"),
    "a trigger that raises": (row(1006, "raise"), "P0001", "apply"),
    "a recursion without an end": (row(1007, "recurse"), "54001", "apply"),
    "malformed JSON": (Message(key=b'{"id":7}', value=b'{"op":"c","after":{"id":7'), None, "decode"),
    "invalid UTF-8": (Message(key=b'{"id":7}', value=b'{"op":"c","after":{"id":7,"v":"\xff"}}'), None, "decode"),
    "no JSON at all, of the largest size": (Message(key=b"\x00\xff", value=b"\x00" * LARGEST), None, "decode"),
}


@pytest.fixture
def poisoned(target: Target) -> Target:
    """A target that refuses much."""
    for statement in DDL:
        target.execute(statement)
    return target


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_everything_that_harms_no_process_in_one_topic(
    mode: CommitMode, lane: MakeLane, poisoned: Target, topic: Topic
) -> None:
    """First and last of an epoch, neighbours, and the same poison twice."""
    made = lane(mode, epoch={"max_messages": EPOCH_MESSAGES})
    bad = [message for message, _, _ in KINDS.values()]
    again = row(1003, None)
    messages = [
        bad[0],
        row(0, "one"),
        *(row(number) for number in range(1, 40)),
        *bad[1:6],
        *(row(number, "changed") for number in range(20, 73)),
        bad[6],
        *(row(number) for number in range(100, 150)),
        *bad[7:],
        again,
        *(row(number, "again") for number in range(140, 260)),
    ]
    with Reader(poisoned, topic) as reader:
        offsets = send(topic, messages, [*bad, again])
        made.run_until_caught_up()
        kinds = {id(message): (sqlstate, stage) for message, sqlstate, stage in KINDS.values()}
        kinds[id(again)] = ("23502", "apply")
        expected = {
            offset: (message, Expected(MAX_ATTEMPTS, *kinds[id(message)])) for offset, message in offsets.items()
        }
        check(made, poisoned, topic, expected, reader)
    numbers = {name: REGISTRY.get_sample_value(f"surelane_guard_{name}", {"lane": made.name}) for name in GUARD}
    assert (numbers.pop("lost_seconds_total") or 0) > 0
    assert numbers == dict.fromkeys(numbers, 0)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_row_that_ends_its_own_connection(mode: CommitMode, lane: MakeLane, poisoned: Target, topic: Topic) -> None:
    """Each time it looks like a server that went away."""
    made = lane(mode, epoch={"max_messages": 16}, guard={"max_losses": 2})
    bad = row(1000, "end")
    offsets = send(
        topic, [*(row(number) for number in range(20)), bad, *(row(number) for number in range(9, 40))], [bad]
    )
    with Reader(poisoned, topic) as reader:
        made.run_until_caught_up()
        check(made, poisoned, topic, {offset: (bad, Expected(2, None, "apply")) for offset in offsets}, reader)


@pytest.mark.parametrize(
    ("mode", "deed"),
    [
        pytest.param(mode, deed, id=f"{deed}-{mode.value}", marks=() if (mode, deed) in DEEDS else pytest.mark.full)
        for mode, deed in product(MODES, ("segfault", "exit", "eat"))
    ],
)
def test_a_transform_that_raises_or_kills_its_worker(
    mode: CommitMode, deed: str, lane: MakeLane, target: Target, topic: Topic
) -> None:
    target.execute("create table flat (id int primary key, v text)")
    made = lane(mode, epoch={"max_messages": 24}, transform="tests.transforms:obey")
    deed = "kill" if deed == "eat" and not can_eat() else deed
    bad = [(row(1000 + at, v), v) for at, v in enumerate(["raise", deed, "raise"])]
    messages = [row(number) for number in range(40)]
    for at, (message, _) in enumerate(bad):
        messages.insert(3 + at * 14, message)
    offsets = send(topic, messages, [message for message, _ in bad])
    stages = ["transform" if v == "raise" else "decode" for _, v in bad]
    with Reader(target, topic) as reader:
        made.run_until_caught_up()
        found = zip(offsets.items(), stages, strict=True)
        expected = {offset: (message, Expected(MAX_ATTEMPTS, None, stage)) for (offset, message), stage in found}
        check(made, target, topic, expected, reader)


def test_a_transform_alters_and_leaves_out(lane: MakeLane, target: Target, topic: Topic) -> None:
    target.execute("create table flat (id int primary key, v text)")
    topic.send([row(1), row(2, "shout"), row(3, "leave out")])
    lane("two-phase", transform="tests.transforms:obey").run_until_caught_up()
    assert target.execute("select id, v from flat order by id") == [(1, "good"), (2, "SHOUT\t\\N\n")]
    total = target.ledger_sum()
    assert (total.applied, total.filtered) == (2, 1)


def test_without_a_guard_what_the_target_refuses_is_skipped_and_nothing_is_recorded(
    lane: MakeLane, poisoned: Target, topic: Topic
) -> None:
    made = lane("two-phase", guard={"enabled": False})
    bad = row(1003, None)
    offsets = send(topic, [*(row(number) for number in range(20)), bad, row(5, "changed")], [bad])
    made.run_until_caught_up()
    check(made, poisoned, topic, {offset: (bad, Expected(MAX_ATTEMPTS, "23502", "apply")) for offset in offsets})
    assert poisoned.execute("select from surelane.attempt where lane = :lane", lane=poisoned.lane) == []
