"""Messages that take the lane's own process with them, and what only looks like that: the supervisor starts another
worker each time, the guard narrows down to the message, and the lane goes on without it."""

import datetime
from collections.abc import Sequence

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message
from tests.oracle import Reader
from tests.poison import FLAT, Expected, check, row, send
from tests.transforms import can_eat

EPOCH_MESSAGES = 16
MAX_ATTEMPTS = 2
TIMEOUT_SECONDS = 900.0
#: seconds that a poison message may cost from the first death on, on a machine that is busy with other tests: three
#: deaths, each of which cost 12 s and more when it was a restart of Spark
MOST_SECONDS = 30.0

two_phase, ledger, at_least_once = CommitMode.TWO_PHASE, CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE
ALIGNED = {"align": "source-transaction"}
DEEDS = ("segfault", "exit", "kill", "hang", "eat")
#: what the message does, the lane's mode, its epochs
SAMPLE = [("segfault", ledger, ALIGNED), ("kill", at_least_once, {}), *((deed, two_phase, {}) for deed in DEEDS)]
ALL = [(deed, mode, epoch) for mode in CommitMode for deed in DEEDS for epoch in ({}, ALIGNED)]


@pytest.mark.costly(2)
@pytest.mark.parametrize(
    ("deed", "mode", "epoch"),
    [*SAMPLE, *(pytest.param(*case, marks=pytest.mark.full) for case in ALL if case not in SAMPLE)],
    ids=lambda value: getattr(value, "value", value) if not isinstance(value, dict) else "-".join(value) or "plain",
)
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_a_message_that_takes_a_stage_process_with_it(
    deed: str,
    mode: CommitMode,
    epoch: dict[str, str],
    lane: MakeLane,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
) -> None:
    """The lane's own process lives through it."""
    if deed == "eat" and not can_eat():
        pytest.skip("needs the right to bound a process' memory (cgroup)")
    target.execute("create table flat (id int primary key, v text)")
    made = lane(
        mode,
        epoch={"max_messages": 200 if deed == "hang" else 1000, **epoch},
        transform={"function": "tests.transforms:obey"},
        guard={"max_attempts": 3, "message_timeout": "5 seconds" if deed == "hang" else "1 minute"},
    )
    d, aligned = Debezium(), bool(epoch)
    with Reader(target, topic) as reader:
        process = lane_process(made).start()
        topic.send(_rows(d, [(number, "a") for number in range(1000)], whole=aligned))
        process.until(lambda: made.caught_up(topic), why="what is well")
        worker = process.worker
        before, after = [(number, "b") for number in range(600)], [(number, "c") for number in range(300, 700)]
        messages = _rows(d, [*before, (10_000, deed), *after], whole=aligned)
        bad = messages[len(before) + aligned]
        offsets = send(topic, messages, [bad])
        process.until(lambda: made.caught_up(topic), why="the rest")
        assert process.worker == worker, "the same process"
        assert process.events("worker died") == []
        assert process.stop() == ExitStatus.OK
        check(made, target, topic, dict.fromkeys(offsets, (bad, Expected(3))), reader)
    deaths = [
        *process.events("a stage process is lost"),
        *process.events("a task has died; it is asked of another one"),
    ]
    begin, end = (
        min(datetime.datetime.fromisoformat(one["timestamp"]) for one in events)
        for events in (deaths, process.events("quarantined"))
    )
    seconds = (end - begin).total_seconds()
    print(f"{deed}: {seconds:.1f} s from the first death to quarantine")  # shown with -s
    assert deed == "hang" or seconds < MOST_SECONDS


def _rows(d: Debezium, rows: Sequence[tuple[int, str]], *, whole: bool) -> list[Message]:
    """`whole`: as one source transaction, with its markers."""
    begin = [d.begin()] if whole else []
    changes = [d.create(FLAT, {"id": number, "v": v}) for number, v in rows]
    return [*begin, *changes, *([d.end()] if whole else [])]


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_an_epoch_that_does_not_fit_into_memory(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """A stage process is killed by the kernel: the epoch is staged in smaller parts, and the lane's process goes on."""
    if not can_eat():
        pytest.skip("needs the right to bound a process' memory (cgroup)")
    target.execute("create table flat (id int primary key, v text)")
    made = lane(
        two_phase,
        epoch={"max_messages": 400},
        transform={"function": "tests.transforms:obey"},
        guard={"max_attempts": MAX_ATTEMPTS},
    )
    topic.send([row(number, "inflate") for number in range(400)])
    topic.sent = []  # what the target has to have is asked below
    process = lane_process(made, until_caught_up=True).start()
    assert process.wait(TIMEOUT_SECONDS) == ExitStatus.OK, process.tail()
    assert target.execute("select count(*), count(distinct id), min(length(v)) from flat") == [(400, 400, 1 << 20)]
    assert target.execute("select from surelane.quarantine where lane = :lane", lane=target.lane) == []
    assert target.execute("select from surelane.suspect where lane = :lane", lane=target.lane) == []
    assert target.prepared() == []
    assert process.events("worker died") == []
    deaths = process.events("a stage process is lost")
    assert deaths, "the kernel killed one once at least, else this test shows nothing"
    assert {death["because"].partition(" (")[0] for death in deaths} == {"out of memory"}, deaths


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_poison_in_an_epoch_that_is_replayed(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Killed when it was skipped but not decided: the replay skips it once more, and it is kept once."""
    target.execute("create table flat (id int primary key, v text not null)")
    made = lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES})
    bad = row(1000, None)
    offsets = send(
        topic, [*(row(number) for number in range(20)), bad, *(row(number) for number in range(9, 40))], [bad]
    )
    with Reader(target, topic) as reader:
        process = lane_process(made, failpoint="after-pre-commit=kill@2").start()
        process.wait()
        assert target.prepared()
        made.run_until_caught_up()
        check(made, target, topic, dict.fromkeys(offsets, (bad, Expected(3, "23502", "apply"))), reader)
