"""Other sessions are in the way, of a lane whose role and database have timeouts of half a second: it waits and tries
again for as long as that takes, and no message is blamed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, text

from app.config.settings import CommitMode
from app.db.engine import SESSION, make_engine
from app.errors import ExitStatus
from app.worker import retry_loop as service
from tests import messages as m
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_proxy import proxy_to
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.hostile import make_hostile
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.poison import FLAT, row
from tests.waiting import eventually
from tools.devstack.roles import LOGIN

EXACTLY_ONCE = (CommitMode.TWO_PHASE, CommitMode.LEDGER)
#: a message is condemned early, where it is blamed at all
GUARD = {"max_attempts": 2, "max_losses": 2}
#: more attempts than `GUARD` allows
ATTEMPTS = 5
#: of a lane in this process: longer than what the role sets, and short enough for ATTEMPTS of them
LOCK_TIMEOUT = "700ms"
WATCHDOG_SECONDS = 12
d = Debezium()

#: what a foreign transaction does, by what it is about
HOLDS = {
    "a row": "update flat set v = 'foreign' where id = 1",
    "the table": "lock table flat in access exclusive mode",
    "the lane's row": "select from surelane.lane where lane = '{lane}' for update",
    "the ledger": "lock table surelane.ledger in exclusive mode",
    "the guard's row": "select from surelane.attempt where lane = '{lane}' for update",
    "the guard's tables": "lock table surelane.attempt, surelane.suspect in exclusive mode",
}
_WAITS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name like 'surelane%' and wait_event_type = 'Lock'
"""
_PATIENT = _WAITS + " and clock_timestamp() - query_start > interval '2 seconds'"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SESSION, "lock_timeout", LOCK_TIMEOUT)
    monkeypatch.setattr(service, "BACKOFF_SECONDS", (0.05, 0.1))


@pytest.fixture
def hostile(target: Target) -> Target:
    target.create(FLAT)
    make_hostile(target)
    return target


@contextmanager
def foreign(target: Target, statement: str) -> Iterator[Connection]:
    """A transaction of another session, which has just executed this."""
    with target.engine.connect() as connection:
        connection.exec_driver_sql("set application_name = 'foreign'")
        connection.exec_driver_sql(statement.format(lane=target.lane))
        yield connection
        connection.rollback()


def attempts(target: Target) -> int:
    """How often the lane was opened."""
    return target.execute("select count(*) from surelane.generation where lane = :lane", lane=target.lane)[0][0]


def waits(target: Target, how: str = _WAITS) -> bool:
    return target.execute(how)[0][0] > 0


def idle(made: LaneUnderTest, topic: Topic) -> LaneUnderTest:
    """The lane runs, and has applied a first message."""
    topic.send([row(1, "first")])
    made.start()
    made.until_caught_up(topic)
    return made


def check(made: LaneUnderTest, target: Target, topic: Topic) -> None:
    """What waited is applied, and no message was blamed."""
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)
    assert target.execute("select from surelane.suspect where lane = :lane", lane=target.lane) == []


def own_settings(target: Target, what: str) -> list[Any]:
    """What a lane's session has set."""
    with make_engine(target.url, target.owner_role).connect() as connection:
        known = "select current_setting(name) from pg_settings where name = any(:names) order by name"
        return list(connection.execute(text(known), {"names": what.split()}).scalars())


def test_what_role_and_database_set_does_not_count(hostile: Target) -> None:
    known = make_hostile(hostile)
    ours = own_settings(hostile, " ".join(known))
    assert set(ours) == {"0", "10s"}
    assert len(ours) == len(known) >= 4


@pytest.mark.costly(3)
@pytest.mark.parametrize("what", HOLDS)
@pytest.mark.parametrize("mode", EXACTLY_ONCE, ids=lambda mode: mode.value)
@pytest.mark.usefixtures("quick")
def test_a_lock_is_waited_for(mode: CommitMode, what: str, lane: MakeLane, hostile: Target, topic: Topic) -> None:
    made = idle(lane(mode, guard=GUARD), topic)
    before = attempts(hostile)
    with foreign(hostile, HOLDS[what]):
        topic.send([row(1, "second"), row(2, "another")])
        eventually(lambda: attempts(hostile) > before + ATTEMPTS, 120, "more attempts than a message may fail")
    check(made, hostile, topic)


@pytest.mark.usefixtures("quick")
def test_a_lock_is_waited_for_at_a_first_start(
    lane: MakeLane, hostile: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its patience is for servers that cannot be reached."""
    monkeypatch.setattr(service, "START_PATIENCE_SECONDS", 1.0)
    made = lane("ledger", guard=GUARD)
    topic.send([row(1)])
    with foreign(hostile, HOLDS["the ledger"]):
        made.start()
        eventually(lambda: attempts(hostile) > ATTEMPTS or not made.running, 120, "attempts")
        assert made.running, made.error
    check(made, hostile, topic)


@pytest.mark.parametrize("mode", EXACTLY_ONCE, ids=lambda mode: mode.value)
def test_a_statement_that_is_canceled_is_tried_again(
    mode: CommitMode, lane: MakeLane, hostile: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an operator, or by a program that looks for what blocks."""
    monkeypatch.setattr(service, "BACKOFF_SECONDS", (0.05, 0.1))
    made = idle(lane(mode, guard=GUARD), topic)
    before = attempts(hostile)
    cancel = _WAITS.replace("count(*)", "count(pg_cancel_backend(pid))")
    with foreign(hostile, HOLDS["a row"]):
        topic.send([row(1, "second")])
        eventually(lambda: waits(hostile, cancel) and attempts(hostile) > before + ATTEMPTS, 120, "attempts")
    check(made, hostile, topic)


@pytest.mark.parametrize("mode", EXACTLY_ONCE, ids=lambda mode: mode.value)
def test_a_session_that_is_ended_while_it_waits_is_no_loss_of_the_message(
    mode: CommitMode, lane: MakeLane, hostile: Target, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as it takes for a message to be condemned where it is the cause."""
    monkeypatch.setattr(service, "BACKOFF_SECONDS", (0.05, 0.1))
    made = idle(lane(mode, guard=GUARD), topic)
    end = _PATIENT.replace("count(*)", "count(pg_terminate_backend(pid))")
    with foreign(hostile, HOLDS["a row"]):
        topic.send([row(1, "second")])
        for _ in range(ATTEMPTS):
            eventually(lambda: waits(hostile, end), 60, "a session that waits")
            eventually(lambda: not waits(hostile, _PATIENT), 60, "its end")
    check(made, hostile, topic)


PARENT = Table("parent", {"id": m.INT, "v": m.TEXT})
CHILD = Table("child", {"id": m.INT, "v": m.TEXT})


@pytest.mark.parametrize("mode", EXACTLY_ONCE, ids=lambda mode: mode.value)
def test_the_victim_of_a_deadlock(mode: CommitMode, lane: MakeLane, hostile: Target, topic: Topic) -> None:
    """The lane writes parents first, and the other session does not."""
    hostile.create(PARENT, CHILD)
    hostile.execute("alter table child add foreign key (id) references parent")
    hostile.execute(f"alter role {LOGIN} in database \"{hostile.database}\" set deadlock_timeout = '3s'")
    topic.send([d.create(PARENT, {"id": 1, "v": "a"}), d.create(CHILD, {"id": 1, "v": "a"})])
    made = idle(lane(mode, guard=GUARD), topic)
    before = attempts(hostile)
    with foreign(hostile, "update child set v = 'foreign' where id = 1") as other:
        other.exec_driver_sql("set local deadlock_timeout = '10min'")
        topic.send([d.update(PARENT, {"id": 1, "v": "b"}), d.update(CHILD, {"id": 1, "v": "b"})])
        eventually(lambda: waits(hostile), 60, "the lane to wait")
        other.exec_driver_sql("update parent set v = 'foreign' where id = 1")
        eventually(lambda: attempts(hostile) > before, 60, "another attempt")
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    eventually(lambda: hostile.execute(deadlocks)[0][0] == 1, 60, "the statistics")
    check(made, hostile, topic)


@pytest.mark.parametrize("mode", EXACTLY_ONCE, ids=lambda mode: mode.value)
def test_serialization_failures(mode: CommitMode, lane: MakeLane, hostile: Target, topic: Topic) -> None:
    hostile.execute(
        f'alter role {LOGIN} in database "{hostile.database}" set default_transaction_isolation = serializable'
    )
    made = idle(lane(mode, guard=GUARD), topic)
    for number in range(GUARD["max_attempts"] + 1):
        before = attempts(hostile)
        with foreign(hostile, HOLDS["a row"]) as other:
            topic.send([row(1, f"version {number}")])
            eventually(lambda: waits(hostile), 60, "the lane to wait")
            other.commit()
        eventually(lambda before=before: attempts(hostile) > before, 60, "another attempt")
        made.until_caught_up(topic)
    check(made, hostile, topic)


@pytest.mark.parametrize("mode", EXACTLY_ONCE, ids=lambda mode: mode.value)
def test_a_truncate_that_takes_longer_than_a_message_may(
    mode: CommitMode, lane: MakeLane, lane_process: MakeProcess, hostile: Target, topic: Topic
) -> None:
    """A DELETE of all rows, for readers' sake. The server works on it all the time."""
    seconds = WATCHDOG_SECONDS * 2
    hostile.execute(f"""
        create function slow() returns trigger language plpgsql as
        'begin perform pg_sleep({seconds}); return null; end';
        create trigger slow before delete on flat for each statement execute function slow()
    """)
    watchdog = {**GUARD, "message_timeout": f"{WATCHDOG_SECONDS} seconds"}
    made = lane(mode, guard=watchdog, target={"on_truncate": "apply"})
    topic.send([row(1), d.truncate(FLAT), row(2)])
    process = lane_process(made, until_caught_up=True).start()
    assert process.wait() == ExitStatus.OK, process.tail()
    assert process.events("worker died") == []
    assert hostile.text_rows("public.flat") == ["(2,good)"]
    assert dict(hostile.position()) == topic.ends
    assert hostile.prepared() == []
    assert hostile.execute("select from surelane.quarantine where lane = :lane", lane=hostile.lane) == []


def test_a_wait_longer_than_a_message_may_take_is_no_hang_and_the_log_says_who_blocks(
    lane: MakeLane, lane_process: MakeProcess, hostile: Target, topic: Topic
) -> None:
    made = lane("two-phase", guard={**GUARD, "message_timeout": "8 seconds"})
    process = lane_process(made).start()
    topic.send([row(1)])
    process.until(lambda: dict(hostile.position()) == topic.ends, why="the first message")
    with foreign(hostile, "lock table flat in access exclusive mode") as other:
        topic.send([row(1, "second")])
        ((pid,),) = other.exec_driver_sql("select pg_backend_pid()").all()
        process.until(lambda: len(process.events("trying again")) > 1, why="two waits of ten seconds")
    process.until(lambda: dict(hostile.position()) == topic.ends, why="the second message")
    assert process.stop() == ExitStatus.OK
    assert process.events("worker died") == []
    blocked, *_ = process.events("waits for a lock")
    (blocker,) = blocked["blocked_by"]
    assert (blocker["pid"], blocker["application"], blocker["user"]) == (pid, "foreign", "postgres")
    questions(hostile, topic)


def test_a_server_that_does_not_answer_any_more_is_a_hang(
    lane: MakeLane, lane_process: MakeProcess, hostile: Target, topic: Topic
) -> None:
    """Its last word was that it waits for a lock; then the network goes, without a word. No message is blamed."""
    with proxy_to(hostile.url) as proxy:
        url = proxy.url(hostile.url).render_as_string(hide_password=False)
        watchdog = {**GUARD, "message_timeout": f"{WATCHDOG_SECONDS} seconds"}
        process = lane_process(lane("two-phase", guard=watchdog, target={"url": url})).start()
        topic.send([row(1)])
        process.until(lambda: dict(hostile.position()) == topic.ends, why="the first message")
        with foreign(hostile, HOLDS["a row"]):
            topic.send([row(1, "second")])
            process.until(lambda: waits(hostile), why="the lane to wait")
            proxy.stall()
        process.until(lambda: process.events("worker died"), why="the watchdog")
        proxy.restore()
        process.until(lambda: dict(hostile.position()) == topic.ends, why="the second message")
        assert process.stop() == ExitStatus.OK
    (death,) = process.events("worker died")
    assert death["cause"] == "hang"
    questions(hostile, topic)
