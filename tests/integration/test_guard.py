"""The guard on a real database: what it records survives, deaths narrow down to one message, and only that is skipped.

A death is an exception here that nothing catches; that real deaths behave alike is shown with real processes elsewhere.
"""

import math
import threading
from collections.abc import Callable, Collection
from typing import Any

import psycopg2
import pytest
from sqlalchemy import Connection, event, make_url

from app import errors
from app.config.on_skip import OnSkip
from app.db.engine import SESSION, make_engine
from app.db.sqlstate import may_blame
from app.errors import Contended, Fenced, JobFailed, SparkGone, SurelaneError, Unreachable
from app.model.activity import Activity
from app.model.offsets import Offsets, Position, Span
from app.poison.attempts import Attempt, Attempts, AttemptStage, Suspect
from app.poison.guard import Guard
from app.poison.narrowing import FAN_OUT, single
from tests import messages as m
from tests.fix_bare_lane import LIMITS, TOPIC, BareLane, Death, MakeBareLane
from tests.fix_target import SCHEMA, Target
from tests.messages import Debezium, Message, Table
from tests.verdicts import SURELANE
from tests.waiting import eventually

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
DDL = "create table flat (id int primary key, v varchar(10) not null check (v <> 'never'))"
d = Debezium()

Open = Callable[[], Attempts]


@pytest.fixture
def open_attempts(target: Target) -> Open:
    """The guard's tables of one lane, as a process that has just started opens them."""
    return lambda: Attempts(target.as_lane, SCHEMA, target.lane)


@pytest.fixture
def lane(target: Target, bare_lane: MakeBareLane) -> BareLane:
    """A lane that skips."""
    target.execute(DDL)
    return bare_lane(on_skip=OnSkip.CONTINUE)


def span(first: int, end: int) -> Span:
    """Offsets of one topic."""
    return Span(start=Offsets.of({TOPIC: first}), end=Offsets.of({TOPIC: end}))


def attempt(generation: int, first: int, end: int) -> Attempt:
    """A span that is begun."""
    return Attempt(generation=generation, epoch=1, stage=AttemptStage.EPOCH, span=span(first, end), finished=False)


def row(number: int, v: str | None = "x") -> Message:
    """A change of FLAT."""
    return d.create(FLAT, {"id": number, "v": v})


def kept(lane: BareLane) -> dict[int, tuple[int, str | None]]:
    """What is in quarantine: (attempts, SQLSTATE) by offset."""
    rows = lane.target.execute(
        'select "offset", attempts, sqlstate from surelane.quarantine where lane = :lane', lane=lane.name
    )
    return {row.offset: (row.attempts, row.sqlstate) for row in rows}


def suspects(lane: BareLane) -> int:
    """How many spans are suspected."""
    ((count,),) = lane.target.execute("select count(*) from surelane.suspect where lane = :lane", lane=lane.name)
    return count


def until_over(lane: BareLane) -> None:
    """Wait for the record that the epoch is over, which waits for the next one's."""
    eventually(lambda: not in_progress(lane), why="the record that the epoch is over")


def in_progress(lane: BareLane) -> bool:
    """Whether the guard's record says that something is being processed."""
    ((finished,),) = lane.target.execute("select finished from surelane.attempt where lane = :lane", lane=lane.name)
    return not finished


def check(lane: BareLane, bad: Collection[int]) -> None:
    """Everything but the bad messages is applied, in order, and the books balance."""
    for one in [one for one in lane.sent if one.position.offset in bad]:
        lane.sent.remove(one)
    lane.check()
    record = lane.target.ledger(lane.name)
    assert record is not None
    assert record.counts.adds_up
    assert record.counts.quarantined == len(bad)
    assert suspects(lane) == 0
    until_over(lane)


def deaths_until_done(lane: BareLane, messages: list[Message]) -> int:
    """Apply one epoch whatever it takes; how often a process died over it."""
    for deaths in range(300):
        try:
            lane.apply(messages)
        except Death:
            lane.reopen()
        else:
            return deaths
    raise AssertionError("no end in sight")


REFUSED = {
    "a number too large": (row(2**31), "22003"),
    "a value too long": (row(1, "x" * 11), "22001"),
    "NOT NULL": (row(1, None), "23502"),
    "CHECK": (row(1, "never"), "23514"),
    "NUL in a text": (row(1, "a\0b"), "22021"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_target_refuses_is_kept_and_the_rest_applied(name: str, lane: BareLane) -> None:
    message, sqlstate = REFUSED[name]
    lane.apply([row(number) for number in range(2, 60)] + [message] + [row(number, "y") for number in range(30, 99)])
    assert kept(lane) == {58: (LIMITS.max_attempts, sqlstate)}
    check(lane, [58])


@pytest.mark.costly(3)
@pytest.mark.parametrize(
    "bad", [(0,), (199,), (0, 199), (50, 51, 52), tuple(range(0, 200, 9)), tuple(range(200))], ids=lambda bad: len(bad)
)
def test_several_refused_messages_in_one_epoch(bad: tuple[int, ...], lane: BareLane) -> None:
    """First, last, neighbours, many, all."""
    lane.apply([row(number, None if number in bad else f"v{number}") for number in range(200)])
    assert kept(lane) == dict.fromkeys(bad, (LIMITS.max_attempts, "23502"))
    check(lane, bad)


def test_a_bad_row_that_a_later_one_of_its_key_mends_is_not_noticed(lane: BareLane) -> None:
    """Only the last change of a key is sent."""
    lane.apply([row(1, None), row(1, "good"), row(2)])
    assert kept(lane) == {}
    check(lane, [])


def test_the_message_is_kept_whole(lane: BareLane) -> None:
    message = row(2**31)
    lane.apply([row(1), message, row(2)])
    (found,) = lane.target.execute("select * from surelane.quarantine where lane = :lane", lane=lane.name)
    assert (bytes(found.key), bytes(found.value)) == (message.key, message.value)
    assert (found.topic, found.source_table, found.stage) == (TOPIC.topic, "flat", "apply")
    assert found.state == "quarantined"


def test_a_later_epoch_knows_nothing_of_it(lane: BareLane) -> None:
    lane.apply([row(1), row(2, None)])
    lane.apply([row(2), row(3)])
    assert list(kept(lane)) == [1]
    record = lane.target.ledger(lane.name)
    assert record is not None
    assert (record.counts.applied, record.plan) == (2, "deletes-first")


@pytest.mark.costly(7)
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 400, 5000])
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_killer_is_found_in_few_deaths(size: int, where: str, lane: BareLane) -> None:
    killer = {"first": 0, "middle": size // 2, "last": size - 1}[where]
    lane.killers = {killer}
    deaths = deaths_until_done(lane, [row(number % 300) for number in range(size)])
    assert deaths <= LIMITS.max_attempts + 2 + math.log(size, FAN_OUT)
    assert kept(lane) == {killer: (LIMITS.max_attempts, None)}
    check(lane, [killer])


@pytest.mark.parametrize("killers", [{7, 8}, {0, 399}, {10, 150, 151, 390}], ids=len)
def test_several_killers_in_one_epoch(killers: set[int], lane: BareLane) -> None:
    lane.killers = killers
    deaths = deaths_until_done(lane, [row(number % 50) for number in range(400)])
    assert deaths <= len(killers) * (LIMITS.max_attempts + 2 + math.log(400, FAN_OUT))
    assert kept(lane) == dict.fromkeys(killers, (LIMITS.max_attempts, None))
    check(lane, killers)


def test_a_killer_beside_a_message_that_is_refused(lane: BareLane) -> None:
    lane.killers = {100}
    deaths_until_done(lane, [row(number, None if number in (99, 101) else "x") for number in range(200)])
    assert sorted(kept(lane)) == [99, 100, 101]
    check(lane, [99, 100, 101])


def gauges(lane: BareLane) -> tuple[float | None, float | None]:
    """Suspects, and the size of the part in progress."""
    names = ("surelane_guard_suspects", "surelane_guard_narrowing_messages")
    suspected, narrowing = (lane.metrics.get_sample_value(name, {"lane": lane.name}) for name in names)
    return suspected, narrowing


def test_the_metrics_show_how_it_narrows(lane: BareLane) -> None:
    lane.killers = {200}
    messages = [row(number) for number in range(400)]
    narrowed, first = [gauges(lane)], set[int]()
    for _ in range(8):
        try:
            lane.apply(messages)
        except Death:
            narrowed.append(gauges(lane))
            lane.reopen()
            first |= {number for (number,) in lane.target.execute("select first_messages from surelane.suspect")}
    assert first == {400}
    assert narrowed == [(0, 0), (0, 0), (1, 0), (1, math.ceil(400 / FAN_OUT)), (1, 2), (1, 1), (1, 1), (1, 1)]
    assert gauges(lane) == (0, 0)


def metric(lane: BareLane, name: str) -> float:
    """One of the guard's numbers."""
    value = lane.metrics.get_sample_value(f"surelane_guard_{name}", {"lane": lane.name})
    assert value is not None, name
    return value


def test_the_metrics_show_the_attempt_in_progress(lane: BareLane) -> None:
    assert (metric(lane, "attempts_in_progress"), metric(lane, "attempt_seconds")) == (0, 0)
    lane.killers = {200}
    messages = [row(number) for number in range(400)]
    depths: list[float] = []
    for _ in range(7):
        with pytest.raises(Death):
            lane.apply(messages)
        assert metric(lane, "attempts_in_progress") == 1
        assert 0 < metric(lane, "attempt_seconds") < 60
        depths.append(metric(lane, "narrowing_depth"))
        lane.reopen()
    assert depths == [0, 0, 1, 2, 3, 3, 3]
    lane.apply(messages)
    names = ("attempts_in_progress", "attempt_seconds", "narrowing_depth")
    assert [metric(lane, name) for name in names] == [0, 0, 0]


def an_hour_ago(lane: BareLane) -> None:
    """What is in progress, and what is suspected, began an hour earlier."""
    lane.target.execute("update surelane.attempt set begun_at = begun_at - interval '1 hour'")
    lane.target.execute("update surelane.suspect set trouble_at = trouble_at - interval '1 hour'")


def hours_lost(lane: BareLane) -> float:
    """Whole hours: what the test itself takes does not count."""
    return metric(lane, "lost_seconds_total") // 3600


def test_no_time_is_lost_without_a_failure(lane: BareLane) -> None:
    lane.apply([row(number) for number in range(100)])
    assert metric(lane, "lost_seconds_total") == 0


def test_time_is_lost_to_what_is_refused(lane: BareLane) -> None:
    lane.apply([row(1), row(2, None), row(3)])
    lost = metric(lane, "lost_seconds_total")
    assert 0 < lost < 60
    lane.apply([row(4)])
    assert metric(lane, "lost_seconds_total") == lost, "and to nothing after it"


def test_time_is_lost_over_all_the_deaths(lane: BareLane) -> None:
    """From the first attempt on, counted once: by the process that is past it."""
    lane.killers = {20}
    deaths = LIMITS.max_attempts + 3
    for _ in range(deaths):
        with pytest.raises(Death):
            lane.apply([row(number) for number in range(40)])
        an_hour_ago(lane)
        lane.reopen()
        assert hours_lost(lane) == 0
    lane.apply([row(number) for number in range(40)])
    assert hours_lost(lane) == deaths
    lane.reopen()
    lane.apply([row(100)])
    assert hours_lost(lane) == deaths


def test_a_death_after_the_commit_has_lost_nothing(lane: BareLane) -> None:
    lane.apply([row(1)])
    until_over(lane)
    lane.target.execute("update surelane.attempt set finished = false")
    an_hour_ago(lane)
    lane.reopen()
    lane.apply([row(2)])
    assert metric(lane, "lost_seconds_total") == 0


def test_the_metrics_count_what_is_skipped(lane: BareLane) -> None:
    """By the class of what was wrong, once the epoch is there."""
    lane.killers = {0}
    deaths_until_done(lane, [row(1), row(2, None), row(3, "never"), row(4, "x" * 11)])
    found = {
        reason: lane.metrics.get_sample_value("surelane_quarantined_total", {"lane": lane.name, "reason": reason})
        for reason in ("23", "22", "status 3")
    }
    assert found == {"23": 2, "22": 1, "status 3": 1}


def test_one_death_costs_nothing(lane: BareLane) -> None:
    """The epoch is tried as a whole once more."""
    lane.killers = {7}
    with pytest.raises(Death):
        lane.apply([row(number) for number in range(20)])
    lane.reopen()
    lane.killers = ()
    assert lane.apply([row(number) for number in range(20)]).plan == "deletes-first"
    check(lane, [])


def test_a_killer_between_two_malformed_messages(lane: BareLane) -> None:
    """Reading those once more must not read it."""
    lane.killers = {40}
    bad = Message(key=b"{}", value=b"not JSON")
    messages = [bad if number in (30, 50) else row(number) for number in range(80)]
    deaths = deaths_until_done(lane, messages)
    assert deaths <= LIMITS.max_attempts + 2 + math.log(80, FAN_OUT)
    assert sorted(kept(lane)) == [30, 40, 50]
    check(lane, [30, 40, 50])


def test_deaths_that_no_message_causes_skip_nothing(lane: BareLane) -> None:
    """Killed anywhere, again and again: each time another part is in progress."""
    messages = [row(number % 50) for number in range(400)]
    for at in range(0, 400, 23):
        lane.killers = {at}
        with pytest.raises(Death):
            lane.apply(messages)
        lane.reopen()
    lane.killers = ()
    lane.apply(messages)
    assert kept(lane) == {}
    check(lane, [])


def test_what_was_begun_survives_the_process(open_attempts: Open) -> None:
    first = open_attempts()
    first.begin(attempt(1, 0, 10))
    assert open_attempts().last() == attempt(1, 0, 10)
    first.finish(1)
    last = open_attempts().last()
    assert last is not None
    assert last.finished


def test_an_older_writer_records_nothing(open_attempts: Open) -> None:
    open_attempts().begin(attempt(2, 0, 10))
    with pytest.raises(Fenced):
        open_attempts().begin(attempt(1, 0, 10))
    assert open_attempts().last() == attempt(2, 0, 10)


def test_a_span_that_the_lane_is_past_is_not_suspected(open_attempts: Open) -> None:
    """Killed after the target had it, before the guard could say so."""
    open_attempts().begin(attempt(1, 0, 10))
    guard = Guard(open_attempts(), LIMITS)
    guard.open(2, Offsets.of({TOPIC: 10}), None)
    assert guard.spans(AttemptStage.DECODE, AttemptStage.APPLY) == []
    assert open_attempts().suspects() == []


def test_a_lost_connection_counts_by_itself(open_attempts: Open) -> None:
    """More of them are needed: the server is to blame more often than the message."""
    guard, message = Guard(open_attempts(), LIMITS), single(Position(*TOPIC, 3))
    guard.open(1, Offsets(), None)

    def lose() -> Suspect:
        guard.begin(1, message, AttemptStage.APPLY)
        guard.epoch_failed(Unreachable("gone"), lost_target=True)
        guard.open(1, Offsets(), None)
        suspect = guard.suspect(message, AttemptStage.APPLY)
        assert suspect is not None
        return suspect

    for losses in range(1, LIMITS.max_losses + 1):
        suspect = lose()
        assert (suspect.attempts, suspect.losses) == (0, losses)
        assert guard.wants_control(suspect) == (losses >= LIMITS.max_losses - 1)
        assert not guard.condemns(suspect), "the same connection has to hold without the message first"
    assert not guard.condemns(guard.control_passed(lose())), "and the message has to fail after that"
    suspect = lose()
    assert (suspect.losses, suspect.alone) == (LIMITS.max_losses, LIMITS.max_losses + 2)
    assert guard.condemns(suspect)


def test_a_control_that_loses_the_connection_clears_the_message(open_attempts: Open) -> None:
    """A target whose sessions are ended again and again, under an idle lane."""
    guard, message = Guard(open_attempts(), LIMITS), single(Position(*TOPIC, 3))
    guard.open(1, Offsets(), None)
    for _ in range(10 * LIMITS.max_losses):
        suspect = guard.suspect(message, AttemptStage.APPLY)
        stage = AttemptStage.CONTROL if suspect is not None and guard.wants_control(suspect) else AttemptStage.APPLY
        guard.begin(1, message, stage)
        guard.epoch_failed(Unreachable("gone"), lost_target=True)
        guard.open(1, Offsets(), None)
    suspect = guard.suspect(message, AttemptStage.APPLY)
    assert suspect is not None
    assert suspect.losses < LIMITS.max_losses
    assert not guard.condemns(suspect)
    assert suspect.control_failures == 0, "servers that go away are waited for without an end"


def test_a_connection_lost_before_it_was_used_is_counted_against_no_span(open_attempts: Open) -> None:
    guard = Guard(open_attempts(), LIMITS)
    for contacted, suspected in (False, 0), (True, 1):
        guard.open(1, Offsets(), None)
        guard.enter(span(0, 10))
        guard.begin(1, span(0, 10), AttemptStage.EPOCH)
        if contacted:
            guard.record_target_contact()
        guard.epoch_failed(Unreachable("gone"), lost_target=True)
        guard.open(1, Offsets(), None)
        assert len(open_attempts().suspects()) == suspected


@pytest.mark.parametrize("error", [Unreachable("Kafka is away"), SurelaneError("stop")])
def test_a_fault_of_the_surroundings_is_counted_against_no_span(error: SurelaneError, open_attempts: Open) -> None:
    guard = Guard(open_attempts(), LIMITS)
    guard.open(1, Offsets(), None)
    guard.begin(1, span(0, 10), AttemptStage.EPOCH)
    guard.epoch_failed(error, lost_target=False)
    guard.open(1, Offsets(), None)
    assert guard.spans(AttemptStage.DECODE, AttemptStage.APPLY) == []


def test_what_a_process_that_lives_could_not_finish_does_not_count(
    target: Target, open_attempts: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard's own table is locked; another process would have to take it for a death."""
    monkeypatch.setitem(SESSION, "lock_timeout", "300ms")
    guard = Guard(open_attempts(), LIMITS)
    guard.open(1, Offsets(), None)
    guard.begin(1, span(0, 10), AttemptStage.EPOCH)
    with target.engine.connect() as other:
        other.exec_driver_sql("lock table surelane.attempt in exclusive mode")
        with pytest.raises(Contended):
            guard.epoch_failed(Unreachable("Kafka is away"), lost_target=False)
        other.rollback()
    dead = Guard(open_attempts(), LIMITS)
    guard.open(2, Offsets(), None)
    assert open_attempts().suspects() == []
    guard.begin(1, span(0, 10), AttemptStage.EPOCH)
    dead.open(3, Offsets(), None)
    assert len(open_attempts().suspects()) == 1


class Waited:
    """A watch of which the span was seen to wait for a lock."""

    def begin(self, messages: int, lane: str) -> None: ...

    def doing(self, activity: Activity) -> None: ...

    def waited(self) -> bool:
        return True

    def end(self) -> None: ...


def test_a_connection_lost_while_a_lock_was_waited_for_does_not_count(open_attempts: Open) -> None:
    for watch, suspected in (Waited(), 0), (None, 1):
        guard = Guard(open_attempts(), LIMITS, watch)
        guard.open(1, Offsets(), None)
        guard.begin(1, single(Position(*TOPIC, 3)), AttemptStage.APPLY)
        guard.epoch_failed(Unreachable("gone"), lost_target=True)
        guard.open(1, Offsets(), None)
        assert len(open_attempts().suspects()) == suspected


#: a failed job is counted by its reader, and fails no epoch
FAILS_EPOCHS = [row for row in SURELANE if row["error"] != JobFailed.__name__]


@pytest.mark.costly(9)
@pytest.mark.parametrize("row", FAILS_EPOCHS, ids=lambda row: row["error"])
def test_what_counts_is_what_the_table_says(row: dict[str, str], open_attempts: Open) -> None:
    """docs/VERDICTS.md."""
    kind: type[SurelaneError] = getattr(errors, row["error"])
    error, guard, message = kind("x"), Guard(open_attempts(), LIMITS), single(Position(*TOPIC, 3))
    error.__cause__ = psycopg2.OperationalError() if kind is Unreachable else None
    guard.open(1, Offsets(), None)
    guard.begin(1, message, AttemptStage.APPLY)
    guard.epoch_failed(error, lost_target=may_blame(error))
    after = Guard(open_attempts(), LIMITS) if kind is SparkGone else guard
    after.open(2, Offsets(), None)
    suspect = after.suspect(message, AttemptStage.APPLY)
    found = "no" if suspect is None else next(name for name, count in _counts(suspect).items() if count)
    assert found == row["counts"].partition(",")[0]


def _counts(suspect: Suspect) -> dict[str, int]:
    return {"memory" if suspect.stage is AttemptStage.MEMORY else "attempt": suspect.attempts} | {
        "loss": suspect.losses,
        "unexplained": suspect.unexplained,
    }


def test_without_its_database_nothing_is_begun(target: Target) -> None:
    url = make_url(target.url).set(port=1)
    guard = Guard(Attempts(make_engine(url), SCHEMA, target.lane), LIMITS)
    with pytest.raises(Unreachable):
        guard.open(1, Offsets(), None)
    with pytest.raises(Unreachable):
        guard.begin(1, span(0, 1), AttemptStage.EPOCH)


@pytest.mark.parametrize("soon", [False, True], ids=["at once", "soon"])
def test_a_connection_that_dies_again_and_again(soon: bool, target: Target) -> None:
    """Also the new one, after its first looks. Each call raises Unreachable meanwhile, and the next one is executed."""
    engine, dying = target.as_lane, threading.Event()

    def end(_: Connection, cursor: Any, statement: str, *__: object) -> None:
        if dying.is_set() and "attempt" in statement:
            target.execute("select pg_terminate_backend(:pid, 30000)", pid=cursor.connection.info.backend_pid)

    event.listen(engine, "before_cursor_execute", end)
    attempts = Attempts(engine, SCHEMA, target.lane)
    attempts.begin(attempt(1, 0, 10))
    dying.set()
    if soon:
        attempts.finish_soon(1)
    for _ in range(3):
        with pytest.raises(Unreachable):
            attempts.finish(1)
    dying.clear()
    attempts.begin(attempt(1, 10, 20))
    last = attempts.last()
    assert last is not None
    assert last.span == span(10, 20)
    attempts.close()


@pytest.mark.parametrize("replaced", [True, False])
def test_the_end_of_an_attempt_that_may_wait(replaced: bool, target: Target) -> None:
    """The next attempt takes its place; whatever else is asked waits for it."""
    engine, updates = target.as_lane, list[str]()

    def note(_: Connection, __: Any, statement: str, *___: object) -> None:
        updates.extend([statement] if statement.startswith("UPDATE") else [])

    event.listen(engine, "before_cursor_execute", note)
    attempts = Attempts(engine, SCHEMA, target.lane)
    attempts.begin(attempt(1, 0, 10))
    attempts.finish_soon(1, within=3600)
    if replaced:
        attempts.begin(attempt(1, 10, 20))
    last = attempts.last()
    assert last is not None
    assert (last.finished, len(updates)) == ((False, 0) if replaced else (True, 1))
    attempts.finish_soon(1, within=3600)
    attempts.close()
    again = Attempts(target.as_lane, SCHEMA, target.lane)
    last = again.last()
    assert last is not None
    assert last.finished, "a lane that ends leaves nothing in progress"
    again.close()


def test_an_attempt_that_ended_a_while_ago(target: Target) -> None:
    """No attempt follows: its end is recorded."""
    attempts = Attempts(target.as_lane, SCHEMA, target.lane)
    attempts.begin(attempt(1, 0, 10))
    attempts.finish_soon(1, within=0.05)
    eventually(lambda: target.execute("select finished from surelane.attempt")[0].finished, why="the end")
    attempts.close()


def test_a_release_does_not_bring_a_lost_session_back(lane: BareLane) -> None:
    """Nor does an epoch: with the session went the lane's lock."""
    lane.apply([row(1), row(2, None)])
    lane.die()
    with pytest.raises(Unreachable):
        lane.release()
    with pytest.raises(Unreachable):
        lane.apply([row(3)])
    lane.reopen()
    lane.apply([row(3)])
    assert kept(lane) == {1: (LIMITS.max_attempts, "23502")}
