"""ops/runbooks/in-doubt.md, command by command: each section on a real database in the state that it is for."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from app.db.locks import lock_holder, try_lock
from app.errors import ExitStatus
from tests.commands import Ended
from tests.fix_bare_lane import Death
from tests.fix_doubt import Doubt
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.runbook import Command, commands
from tests.waiting import eventually
from tests.workload import TABLES, Shop
from tools.devstack.postgres import SUPERUSER

PAGE = "in-doubt.md"
BLOCKED = "alter table public.counter add more int"
MESSAGES = 50


def of(section: str) -> list[Command]:
    return [command for command in commands(PAGE) if command.section == section]


def play(section: str, doubt: Doubt, **values: str) -> list[Ended]:
    """Every command of a section, in order; the first word of each is `surelane`."""
    return [command.check(lambda _, *words: doubt.surelane(*words), **values) for command in of(section)]


@contextmanager
def blocked(doubt: Doubt) -> Iterator[None]:
    """A session that waits."""
    with doubt.target.engine.connect() as connection:
        pid = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
        waiter = threading.Thread(target=lambda: connection.exec_driver_sql(BLOCKED))
        waiter.start()
        waiting = "select 1 from pg_locks where not granted and pid = :pid"
        eventually(lambda: doubt.target.execute(waiting, pid=pid), why="the session to wait")
        yield
        waiter.join(30)
        assert not waiter.is_alive(), "the answer lets it go on"


def ok(ended: list[Ended]) -> bool:
    return all(one.status == 0 for one in ended)


def test_look_and_verdict_commit(doubt: Doubt) -> None:
    """By a role that sees the statements of other sessions."""
    gid = doubt.prepare(decided=True)
    doubt.foreign()
    doubt.configure(target={"url": doubt.target.url_as(SUPERUSER)})
    with blocked(doubt):
        assert ok(play("Look", doubt, gid=gid))
        assert ok(play("Verdict commit", doubt, gid=gid))


def test_verdict_rollback(doubt: Doubt) -> None:
    gid = doubt.prepare(decided=False)
    with blocked(doubt):
        assert ok(play("Verdict rollback", doubt, gid=gid))


def test_verdict_unsure(doubt: Doubt) -> None:
    gid, copy = doubt.prepare(decided=True), doubt.copy()
    doubt.configure(checkpoint="hdfs://bucket/orders")
    assert ok(play("Verdict unsure", doubt, gid=gid, copy=str(copy)))


def test_verdict_in_progress(doubt: Doubt) -> None:
    gid = doubt.prepare(decided=True)
    with doubt.target.engine.connect() as connection:
        assert try_lock(connection, "orders")
        (ended,) = play("Verdict in progress", doubt, gid=gid)
    assert ended.status == ExitStatus.REFUSED
    assert doubt.target.prepared() == [gid]


def test_verdict_foreign(doubt: Doubt) -> None:
    doubt.foreign()
    assert ok(play("Verdict foreign", doubt))


def test_an_answer_that_was_begun(doubt: Doubt, dies: Callable[..., None]) -> None:
    gid = doubt.prepare(decided=True)
    dies(sent=True)
    with pytest.raises(Death):
        doubt("commit", gid)
    assert ok(play("An answer that was begun", doubt, gid=gid))


@dataclass
class Scene:
    """A real lane, and commands as on the page with its configuration; `run` is a process, stopped when caught up."""

    lane: LaneUnderTest
    process: MakeProcess
    surelane: Callable[..., Ended]
    target: Target
    topic: Topic

    def __call__(self, _: str, *words: str) -> Ended:
        return self.run() if words == ("run",) else self.surelane(*words, "--config", str(self.lane.config_file))

    def run(self) -> Ended:
        process = self.process(self.lane).start()
        process.until_running()
        process.until(lambda: dict(self.target.position()) == self.topic.ends, why="the lane to catch up")
        return Ended(process.stop(), "", "")

    def in_doubt(self, shop: Shop) -> str:
        """Killed with a decided epoch that is not committed; gives its gid."""
        self.topic.send(shop.messages(MESSAGES))
        victim = self.process(self.lane, failpoint="before-commit=kill").start()
        assert victim.wait() == -signal.SIGKILL, victim.tail()
        with self.target.engine.connect() as connection:
            eventually(lambda: lock_holder(connection, self.lane.name) is None, why="its session to be gone")
        (gid,) = self.target.prepared()
        return gid


def test_start_the_lane_and_answered_wrong(
    lane: MakeLane, lane_process: MakeProcess, surelane: Callable[..., Ended], target: Target, topic: Topic
) -> None:
    """One after the other."""
    target.create(*TABLES)
    scene, shop = Scene(lane("two-phase"), lane_process, surelane, target, topic), Shop(seed=5)
    scene.in_doubt(shop)
    for command in of("Start the lane"):
        assert command.check(scene).status == 0
    gid = scene.in_doubt(shop)
    assert scene("surelane", "indoubt", "rollback", gid, "--force", "--reason", "a test").status == 0
    for command in of("Answered wrong"):
        assert command.check(scene).status == 0
    questions(target, topic)


def test_every_command_of_the_page_is_played_above() -> None:
    played = {
        "Look": 2,
        "Start the lane": 2,
        "Verdict commit": 1,
        "Verdict rollback": 1,
        "Verdict unsure": 2,
        "Verdict in progress": 1,
        "Verdict foreign": 1,
        "Answered wrong": 2,
        "An answer that was begun": 2,
    }
    found = [command.section for command in commands(PAGE)]
    assert {section: found.count(section) for section in found} == played
