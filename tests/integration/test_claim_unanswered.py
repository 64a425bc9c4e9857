"""The COMMIT of a claimed generation gets no answer: the same process claims again, whatever became of it; a claim of
another process in between fences it."""

import datetime

import pytest
from sqlalchemy import text

from app.config.settings import CommitMode
from app.errors import Fenced
from app.ledger.store import Claim, Ledger
from app.worker import retry_loop
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_proxy import proxy_to
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Topic
from tests.hostile import at_commit
from tests.oracle import questions
from tests.poison import FLAT, row
from tests.waiting import eventually

#: an advisory lock that a COMMIT waits for
AT_COMMIT = 4711
MODES = [CommitMode.TWO_PHASE, pytest.param(CommitMode.LEDGER, marks=pytest.mark.full)]

#: a sequence counts what is rolled back, too
ENDED = "perform nextval('public.ended'); perform pg_terminate_backend(pg_backend_pid());"
#: attempts whose claim is rolled back
ATTEMPTS = 3
WAITING = f"perform pg_advisory_xact_lock({AT_COMMIT});"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_loop, "BACKOFF_SECONDS", (0.05, 0.2))


def at_commit_of_the_second_claim(target: Target, statements: str) -> None:
    when = f"new.generation = 2 and new.lane = '{target.lane}'"
    at_commit(target, "insert on surelane.generation", statements, when)


def idle(made: LaneUnderTest, topic: Topic) -> None:
    topic.send([row(1, "before")])
    made.start()
    made.until_caught_up(topic)


def claims(target: Target) -> list[int]:
    found = target.execute("select generation from surelane.generation where lane = :lane order by 1", lane=target.lane)
    return [one.generation for one in found]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_claim_that_was_rolled_back(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    made = lane(mode)
    idle(made, topic)
    target.execute("create sequence ended; grant usage on sequence ended to public")
    at_commit_of_the_second_claim(target, ENDED)
    target.cut_connections()
    topic.send([row(1, "after")])  # an idle lane does not look

    def ended() -> bool:
        assert made.error is None
        return target.execute("select last_value from ended")[0][0] >= ATTEMPTS

    eventually(ended, 60, "claims that are rolled back")
    assert claims(target) == [1]
    target.execute("drop trigger at_commit on surelane.generation")
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_claim_that_was_committed(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    with proxy_to(target.url) as proxy, target.engine.connect() as holder:
        made = lane(mode, target={"url": proxy.url(target.url).render_as_string(hide_password=False)})
        idle(made, topic)
        at_commit_of_the_second_claim(target, WAITING)
        holder.execute(text(f"select pg_advisory_lock({AT_COMMIT})"))
        target.cut_connections()
        topic.send([row(1, "after")])  # an idle lane does not look
        waits = "select count(*) from pg_locks where locktype = 'advisory' and objid = :id and not granted"
        eventually(lambda: target.execute(waits, id=AT_COMMIT)[0][0], 60, "a claim that is being committed")
        proxy.lose()
        eventually(lambda: proxy.refused, 60, "the lane to have lost the answer")
        holder.execute(text(f"select pg_advisory_unlock({AT_COMMIT})"))
        eventually(lambda: claims(target) == [1, 2], 60, "the server's own COMMIT")
        proxy.restore()
        made.until_caught_up(topic)
        made.stop()
    assert claims(target)[:3] == [1, 2, 3]
    questions(target, topic)


def test_a_claim_of_another_process(target: Target) -> None:
    """Also one that took the number of a claim that was rolled back."""
    ledger = Ledger(SCHEMA, target.lane)

    def claim(*mine: Claim, commits: bool = True) -> Claim:
        with target.engine.connect() as connection, connection.begin() as transaction:
            claimed = ledger.claim(connection, checkpoint="c", delivery="ledger", at_least=0, mine=mine)
            if not commits:
                transaction.rollback()
            return claimed

    first = claim()
    lost = claim(first, commits=False)
    theirs = claim()
    assert theirs.generation == lost.generation
    assert theirs.since - lost.since > datetime.timedelta(0)
    with pytest.raises(Fenced, match=f"generation {lost.generation}, the lane is at {theirs.generation}"):
        claim(first, lost)
    assert claim(first, theirs).generation == theirs.generation + 1
