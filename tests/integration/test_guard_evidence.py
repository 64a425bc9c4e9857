"""Only a message that fails alone is suspected: a death that no message causes puts none into quarantine, anywhere."""

from collections.abc import Callable
from typing import Any

import pytest

from app.config.on_skip import OnSkip
from app.epoch.epoch_batch import EpochBatch
from app.errors import OutOfMemory, Unattributed
from app.model.activity import Activity
from app.model.death import Cause
from app.model.death import Death as EndOfWorker
from app.poison.narrowing import FAN_OUT
from tests import messages as m
from tests.fix_bare_lane import LIMITS, BareLane, Death, MakeBareLane
from tests.fix_target import Target
from tests.messages import Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
DDL = "create table flat (id int primary key, v varchar(10))"
d = Debezium()
#: kills, far more than any limit of the guard
MANY = 4 * LIMITS.max_attempts


@pytest.fixture
def lane(target: Target, bare_lane: MakeBareLane) -> BareLane:
    """A lane that skips, and has applied something."""
    target.execute(DDL)
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    lane.apply([row(number) for number in range(1000, 1020)])
    return lane


def row(number: int, v: str = "x") -> Message:
    """A change of FLAT."""
    return d.create(FLAT, {"id": number, "v": v})


def skipped(lane: BareLane) -> dict[int, tuple[int, int]]:
    """What is in quarantine: attempts, and failures alone, by offset."""
    rows = lane.target.execute(
        'select "offset", attempts, alone from surelane.quarantine where lane = :lane', lane=lane.name
    )
    return {row.offset: (row.attempts, row.alone) for row in rows}


def suspects(lane: BareLane) -> list[Any]:
    """Rows of the guard's table."""
    return list(lane.target.execute("select * from surelane.suspect where lane = :lane", lane=lane.name))


def check(lane: BareLane, bad: set[int] = frozenset()) -> None:  # pyright: ignore[reportArgumentType]
    """All but the bad messages are applied, and nothing is left on record."""
    lane.sent = [one for one in lane.sent if one.position.offset not in bad]
    lane.check()
    assert set(skipped(lane)) == set(bad)
    assert suspects(lane) == []


def until_it_stops(lane: BareLane, messages: list[Message], death: EndOfWorker) -> Unattributed:
    """Apply one epoch, in process after process, until the lane stops."""
    for _ in range(MANY * LIMITS.max_attempts):
        try:
            lane.apply(messages)
        except (Death, OverflowError):
            lane.reopen(death)
        except Unattributed as error:
            return error
    raise AssertionError("no end in sight")


WAITING = (Activity.SERVER, Activity.FETCH)
EXTERNAL = ("SIGKILL", "SIGTERM", "SIGHUP")


@pytest.mark.parametrize("doing", WAITING)
@pytest.mark.parametrize("detail", ["SIGKILL", "SIGSEGV"])
def test_killed_while_it_waits_beside_one_message(doing: Activity, detail: str, lane: BareLane) -> None:
    """An idle lane: each epoch is one message."""
    lane.killers = {20}
    for _ in range(MANY):
        with pytest.raises(Death):
            lane.apply([row(1)])
        lane.reopen(lane.ended(Cause.SIGNAL, detail, doing))
        assert suspects(lane) == []
    lane.killers = ()
    lane.apply([row(1)])
    check(lane)


@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize("detail", [*EXTERNAL, None], ids=str)
def test_unexplained_deaths_condemn_nothing(detail: str | None, size: int, lane: BareLane) -> None:
    """SIGKILL from outside in the midst of decoding, or no report by a supervisor at all."""
    lane.killers = {20 + size // 2}
    for _ in range(MANY):
        with pytest.raises(Death):
            lane.apply([row(number) for number in range(size)])
        report = None if detail is None else lane.ended(Cause.SIGNAL, detail, Activity.DECODE)
        lane.reopen(report) if report else lane.reopen_without_report()
    (suspect,) = suspects(lane)
    assert (suspect.attempts, suspect.deaths) == (0, 0)
    assert suspect.unexplained > LIMITS.max_attempts
    lane.killers = ()
    lane.apply([row(number) for number in range(size)])
    check(lane)


def test_a_control_that_dies_clears_the_message(lane: BareLane) -> None:
    """The message, and what was decoded without it, too: the surroundings kill."""
    lane.killers = {10, 19, 20}  # the message, and those before it
    error = until_it_stops(lane, [row(1)], lane.ended())
    assert "no message" in error.message
    assert skipped(lane) == {}
    lane.killers = ()
    lane.apply([row(1)])
    check(lane)


def test_what_was_skipped_before_is_no_control(lane: BareLane) -> None:
    """Two killers in a row, each an epoch of its own: the second is compared with a message that is well."""
    for offset in (20, 21):
        lane.killers = {20, 21}
        deaths = 0
        for _ in range(10):
            try:
                lane.apply([row(offset)])
                break
            except Death:
                deaths += 1
                lane.reopen()
        assert deaths == LIMITS.max_attempts
    assert skipped(lane) == dict.fromkeys((20, 21), (LIMITS.max_attempts, LIMITS.max_attempts))
    check(lane, {20, 21})


def test_how_often_it_failed_alone_is_on_record(lane: BareLane) -> None:
    """Failures of the epoch that it is in are none of the message's own."""
    lane.killers = {50}
    for _ in range(10):
        try:
            lane.apply([row(number) for number in range(100)])
            break
        except Death:
            lane.reopen()
    assert skipped(lane) == {50: (LIMITS.max_attempts, LIMITS.max_attempts)}
    check(lane, {50})


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[EpochBatch], bool]], None]:
    """What is computed of an epoch raises where the condition holds: a fault of Surelane's own."""
    before = EpochBatch.source_times

    def fail(condition: Callable[[EpochBatch], bool]) -> None:
        def source_times(self: EpochBatch) -> Any:
            if condition(self):
                raise OverflowError("a date that no calendar has")
            return before(self)

        monkeypatch.setattr(EpochBatch, "source_times", source_times)

    return fail


def offsets(epoch: EpochBatch) -> set[int]:
    """Of its messages."""
    return set(epoch.rows["offset"].to_pylist())


@pytest.mark.parametrize("size", [2, 200])
def test_one_message_that_no_epoch_can_be_made_with(
    size: int, lane: BareLane, failing: Callable[[Callable[[EpochBatch], bool]], None]
) -> None:
    """That message goes, and neither the last of the epoch nor its neighbours."""
    bad = 20 + size // 3
    failing(lambda epoch: bad in offsets(epoch))
    for _ in range(10):
        try:
            lane.apply([row(number) for number in range(size)])
            break
        except OverflowError:
            lane.reopen(lane.ended(Cause.EXIT, "OverflowError"))
    check(lane, {bad})


def test_an_epoch_that_fails_only_as_a_whole_stops_the_lane(
    lane: BareLane, failing: Callable[[Callable[[EpochBatch], bool]], None]
) -> None:
    failing(lambda epoch: {20, 219} <= offsets(epoch))
    error = until_it_stops(lane, [row(number) for number in range(200)], lane.ended(Cause.EXIT, "OverflowError"))
    assert "a date that no calendar has" in error.message
    assert skipped(lane) == {}
    failing(lambda _: False)
    lane.reopen(lane.ended(Cause.EXIT, "Unattributed"))
    lane.apply([row(number) for number in range(200)])
    check(lane)


def test_too_little_memory_makes_epochs_smaller_and_suspects_no_message(lane: BareLane) -> None:
    """400 messages do not fit, 20 do: where the memory ran out says nothing."""
    fits = 20

    def read(sent: int) -> None:
        if sent > fits:
            raise MemoryError

    lane.on_read = read
    with pytest.raises(OutOfMemory):
        lane.apply([row(number) for number in range(400)])
    lane.reconnect()
    limit = lane.memory_limit
    assert limit is not None
    assert limit == -(-400 // FAN_OUT)
    with pytest.raises(OutOfMemory):
        lane.apply([row(number) for number in range(limit)])
    lane.reconnect()
    smaller = lane.memory_limit
    assert smaller is not None
    assert smaller <= fits
    for first in range(0, 400, smaller):
        lane.apply([row(number) for number in range(first, min(first + smaller, 400))])
    check(lane)


def test_a_message_that_does_not_fit_alone_is_skipped(lane: BareLane) -> None:
    lane.too_large = {25}
    messages = [row(number) for number in range(10)]
    failures = 0
    while messages:
        limit = lane.memory_limit or len(messages)
        try:
            lane.apply(messages[:limit])
            messages = messages[limit:]
        except OutOfMemory:
            failures += 1
            lane.reconnect()
    assert failures == 1 + LIMITS.max_attempts
    assert skipped(lane) == {25: (LIMITS.max_attempts, LIMITS.max_attempts)}
    assert lane.memory_limit is None, "epochs of any size fit again"
    check(lane, {25})


def test_a_claim_is_above_the_guards_generation(target: Target, bare_lane: MakeBareLane, elsewhere: Target) -> None:
    """The target was restored, the guard's database was not: no lane is fenced by a writer that is gone."""
    target.execute(DDL)
    lane = bare_lane(on_skip=OnSkip.CONTINUE, guard=elsewhere)
    for _ in range(3):
        lane.reopen()
    lane.apply([row(1)])
    target.execute("delete from surelane.generation where lane = :lane and generation > 1", lane=lane.name)
    target.execute("delete from surelane.ledger where lane = :lane and generation > 1", lane=lane.name)
    target.execute("update surelane.lane set generation = 1 where lane = :lane", lane=lane.name)
    lane.reopen()
    lane.sent = []
    lane.apply([row(1)])
    check(lane)
