"""Messages that take the lane's own process with them, and what only looks like that: the supervisor starts another
worker each time, the guard narrows down to the message, and the lane goes on without it."""

import datetime

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader
from tests.poison import Expected, check, row, send
from tests.transforms import can_eat

#: a death costs a start of Spark, a hang its time besides, which has to be long enough for a first decoding:
#: an epoch as wide as the fan-out is narrowed in one step, and two attempts are enough
EPOCH_MESSAGES = 16
MAX_ATTEMPTS = 2
TIMEOUT_SECONDS = 900.0

two_phase, ledger = CommitMode.TWO_PHASE, CommitMode.LEDGER
#: what the message does, to whom, mode
SAMPLE = [("segfault", "driver", two_phase), ("kill", "driver", ledger)]
ALL = [
    (deed, where, mode)
    for mode in CommitMode
    for deed, where in [
        ("segfault", "driver"),
        ("exit", "driver"),
        ("kill", "driver"),
        ("eat", "driver"),
        ("hang", "driver"),
    ]
]


@pytest.mark.parametrize(
    ("deed", "where", "mode"),
    [*SAMPLE, *(pytest.param(*case, marks=pytest.mark.full) for case in ALL if case not in SAMPLE)],
    ids=lambda value: getattr(value, "value", value),
)
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_a_message_that_takes_the_worker_with_it(
    deed: str, where: str, mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    if deed == "eat" and not can_eat():
        pytest.skip("needs the right to bound a process' memory (cgroup)")
    target.execute("create table flat (id int primary key, v text)")
    made = lane(
        mode,
        epoch={"max_messages": EPOCH_MESSAGES},
        transform={"function": "tests.transforms:obey", "where": where},
        guard={"max_attempts": MAX_ATTEMPTS, "message_timeout": "25 seconds" if deed == "hang" else "1 minute"},
    )
    bad = row(1000, deed)
    messages = [*(row(number) for number in range(30)), bad, *(row(number, "after") for number in range(20, 60))]
    offsets = send(topic, messages, [bad])
    with Reader(target, topic) as reader:
        process = lane_process(made, until_caught_up=True).start()
        assert process.wait(TIMEOUT_SECONDS) == ExitStatus.OK, process.tail()
        check(made, target, topic, dict.fromkeys(offsets, (bad, Expected(MAX_ATTEMPTS))), reader)
    assert len(process.events("worker died")) == 2 + MAX_ATTEMPTS, "two for the epoch, then the message's own"


@pytest.mark.parametrize("deed", ["segfault", "exit", "kill", "hang"])
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_a_message_that_takes_a_task_with_it(
    deed: str, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """The lane's own process lives through it."""
    target.execute("create table flat (id int primary key, v text)")
    made = lane(
        two_phase,
        epoch={"max_messages": 200 if deed == "hang" else 1000},
        transform={"function": "tests.transforms:obey"},
        guard={"max_attempts": 3, "message_timeout": "5 seconds" if deed == "hang" else "1 minute"},
    )
    bad = row(10_000, deed)
    with Reader(target, topic) as reader:
        process = lane_process(made).start()
        sent = [row(number) for number in range(1000)]
        topic.send(sent)
        process.until(lambda: made.caught_up(topic), why="what is well")
        worker = process.worker
        before, after = (row(number, "b") for number in range(600)), (row(number, "c") for number in range(300, 700))
        offsets = send(topic, [*before, bad, *after], [bad])
        process.until(lambda: made.caught_up(topic), why="the rest")
        assert process.worker == worker, "the same process"
        assert process.events("worker died") == []
        assert process.stop() == ExitStatus.OK
        check(made, target, topic, dict.fromkeys(offsets, (bad, Expected(3))), reader)
    begin, end = (
        datetime.datetime.fromisoformat(process.events(name)[0]["timestamp"])
        for name in ("a stage process is lost", "quarantined")
    )
    print(f"{deed}: {(end - begin).total_seconds():.1f} s from the first death to quarantine")  # shown with -s


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_an_epoch_that_does_not_fit_into_memory(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Killed by the kernel: the epoch is read again in smaller ones, also the one that was planned already."""
    if not can_eat():
        pytest.skip("needs the right to bound a process' memory (cgroup)")
    target.execute("create table flat (id int primary key, v text)")
    made = lane(
        two_phase,
        epoch={"max_messages": 400},
        transform={"function": "tests.transforms:obey", "where": "driver"},
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
    deaths = process.events("worker died")
    assert deaths, "the kernel killed it once at least, else this test shows nothing"
    assert {death["cause"] for death in deaths} == {"oom"}


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
