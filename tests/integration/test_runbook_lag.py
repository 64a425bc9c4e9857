"""ops/runbooks/lag.md: a lane that is behind, because of the target, of Kafka, of one message."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from prometheus_client import REGISTRY

from app.db.engine import SESSION
from app.dispatch.pool import Pool
from tests.commands import Ended
from tests.fix_bare_lane import Death
from tests.fix_clusters import superuser_url
from tests.fix_doubt import EPOCH, Doubt, counted
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.runbook import play, runner
from tests.waiting import eventually
from tests.workload import COUNTER

PAGE = "lag.md"
MESSAGES = 30
PROGRAM = "another's report"


def test_a_session_of_the_target_is_in_the_way(
    lane: MakeLane,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is found, and ended; the lane goes on by itself."""
    monkeypatch.setitem(SESSION, "lock_timeout", "10min")  # else it gives way now and then, and is not blocked
    target.create(COUNTER)
    made, is_freed = lane("two-phase"), False

    def call(*words: str) -> Ended:
        if words[0] == "status" and is_freed:
            made.until_caught_up(topic)
        return surelane(*words, "--config", str(made.config_file))

    waits = f"select from pg_stat_activity where application_name = 'surelane {made.name}' and wait_event_type = 'Lock'"
    made.start()
    topic.send(counted(0))
    made.until_caught_up(topic)
    with in_the_way(target) as blocker:
        topic.send(counted(EPOCH))
        eventually(partial(target.execute, waits), why="the lane to wait")
        ended = play(PAGE, "Look", runner(call), state="running", yes="yes, or was when its process died")
        is_freed = True  # by the page's own command, before it asks for the status
        values = {"target": superuser_url(target), "lane": made.name, "blocker": blocker, "program": PROGRAM}
        ended += play(PAGE, "The target", runner(call), **values, statement="select pg_backend_pid()")
        assert [one.status for one in ended] == [0] * len(ended)
    made.stop()
    questions(target, topic)


@contextmanager
def in_the_way(target: Target) -> Iterator[str]:
    """A session that keeps the lane waiting; gives its pid. The page may end it: there is nothing to roll back then."""
    with target.engine.connect() as blocking:
        try:
            blocking.exec_driver_sql(f"set application_name = '{PROGRAM.replace(chr(39), chr(39) * 2)}'")
            blocking.exec_driver_sql("lock table public.counter in share mode")
            yield str(blocking.exec_driver_sql("select pg_backend_pid()").scalar_one())
        finally:
            blocking.invalidate()


def test_no_stage_process_connects(
    lane: MakeLane,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the session has no core for the resident jobs; the page finds it."""
    target.create(COUNTER)
    topic.send(counted(0))
    made = lane("two-phase")
    with monkeypatch.context() as patched:
        patched.setattr(Pool, "_keep", lambda *_: None)
        made.start()
        waits = f"select from surelane.in_flight where lane = '{made.name}' and state = 'waiting' and host is null"
        eventually(partial(target.execute, waits), why="a span that waits for a process")

        def call(*words: str) -> Ended:
            return surelane(*words, "--config", str(made.config_file))

        values = {"target": superuser_url(target), "lane": made.name}
        ended = play(PAGE, "Stage processes", runner(call), **values)
        assert [one.status for one in ended] == [0, 0]
        tasks, spans = (
            REGISTRY.get_sample_value(f"surelane_stage_{name}", {"lane": made.name, **labels})
            for name, labels in (("tasks", {}), ("spans", {"host": "", "state": "waiting"}))
        )
        assert (tasks, spans) == (1, 1)
        made.give_up()
    made.run_until_caught_up()
    questions(target, topic)


def test_kafka_is_away(doubt: Doubt, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the doubted lane's Kafka is."""
    monkeypatch.setattr("app.kafka.broker.REQUEST_TIMEOUT_SECONDS", 1.0)
    assert [one.status for one in play(PAGE, "Kafka", runner(doubt.surelane))] == [0]


def test_one_message_is_looked_for(doubt: Doubt) -> None:
    """It kills the process that reads it; three deaths, and it is suspected alone."""
    doubt.lane.killers = [EPOCH + 1]
    for _ in range(2):
        with pytest.raises(Death):
            doubt.lane.apply(counted(EPOCH))
        doubt.lane.reopen()
    (ended,) = play(PAGE, "One message", runner(doubt.surelane), max="3", most="5")
    assert ended.status == 0
    doubt.lane.killers = []
    doubt.lane.apply(counted(EPOCH))
    doubt.lane.check()
