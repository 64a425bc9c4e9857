"""`target.owner_role`: the login that prepared an epoch is gone at the next start, and another member settles it.

The credentials of a lane are rotated while an epoch is between its two phases: the session of the old login is ended
and its role dropped, so that no session can log in as it any more. Both logins act as the owner of what is Surelane's.
A lane that runs decides an epoch that it has prepared, whatever becomes of its session: undecided it stays at a death.
"""

import signal
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy.engine import make_url

from app.errors import Fenced, SurelaneError
from tests.commands import Ended
from tests.fix_lane import Hold, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.waiting import eventually
from tests.workload import TABLES, Shop
from tools.devstack.roles import OWNER

EPOCH_MESSAGES = 50
MESSAGES, MORE = 120, 60
#: where the epoch is when the login goes, and whether the checkpoint has decided it by then
PLACES = {"before-commit": True, "after-pre-commit": False}


@pytest.fixture
def logins(target: Target) -> Iterator[tuple[str, str]]:
    """Two members of the owner's role, neither of which owns anything itself."""
    names = (f"first-{target.database}", f"second-{target.database}")
    for name in names:
        target.server.execute(f'create role "{name}" login in role {OWNER}')
    yield names
    for name in names:
        target.server.execute(f'drop role if exists "{name}"')


def url_of(target: Target, login: str) -> str:
    return make_url(target.url).set(username=login).render_as_string()


@pytest.mark.costly(2)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("by", ["the lane's start", "hand"])
def test_another_member_settles_what_one_prepared(
    place: str,
    by: str,
    lane: MakeLane,
    lane_process: MakeProcess,
    hold: Hold,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    logins: tuple[str, str],
) -> None:
    """As the checkpoint says; nothing is lost, nothing applied twice."""
    first, second = logins

    def of(login: str) -> LaneUnderTest:
        section = {"url": url_of(target, login), "owner_role": OWNER}
        return lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, target=section)

    target.create(*TABLES)
    shop = Shop(seed=5)
    topic.send(shop.messages(MESSAGES))
    old, new = of(first), of(second)
    with Reader(target, topic) as reader:
        if PLACES[place]:
            held = hold(place, at=2)
            old.start()
            held.reached()
            end_the_login(target, first)
            held.release()
            ended = old.give_up()
            assert ended is None or (isinstance(ended, SurelaneError) and not isinstance(ended, Fenced)), ended
        else:
            victim = lane_process(old, failpoint=f"{place}=kill@2").start()
            assert victim.wait() == -signal.SIGKILL, victim.tail()
            end_the_login(target, first)
        (gid,) = target.prepared()  # no session of the old login can end it
        ((owner,),) = target.execute("select owner from pg_prepared_xacts where gid = :gid", gid=gid)
        assert owner == OWNER
        topic.send(shop.messages(MORE))
        if by == "hand":
            right = "commit" if PLACES[place] else "rollback"
            answered = surelane("indoubt", right, gid, "--config", str(new.config_file))
            assert (answered.status, target.prepared()) == (0, []), answered.err
        new.run_until_caught_up()
        questions(target, topic, reader=reader)
    assert target.ledger_sum().duplicate == 0


def end_the_login(target: Target, login: str) -> None:
    """Its sessions, and the role itself."""
    target.server.execute(f'alter role "{login}" nologin')
    sessions = "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s"
    eventually(lambda: not target.server.execute(sessions, login), why="its sessions to be gone")
    target.server.execute(f'drop role "{login}"')
