"""A connection that is kept, and dies: the next use opens another one, also where it died in its first statement."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.db.kept_connection import KeptConnection
from tests.fix_target import Target
from tests.waiting import eventually

_OWN = text("select pg_backend_pid()")


class Kept:
    """One whose sessions are known."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.opened: list[int] = []
        self.connection = KeptConnection(target.as_lane, lambda one: self.opened.append(one.execute(_OWN).scalar_one()))

    def session(self, *, dies: bool = False) -> int:
        """The one that is used. `dies`: another one ends it before its statement."""
        with self.connection.used() as connection:
            if dies:
                self.target.execute("select pg_terminate_backend(:pid, 30000)", pid=self.opened[-1])
            return connection.execute(_OWN).scalar_one()


@pytest.fixture
def kept(target: Target) -> Iterator[Kept]:
    made = Kept(target)
    yield made
    made.connection.close()


def test_it_is_kept_until_it_dies(kept: Kept) -> None:
    sessions = [kept.session(), kept.session()]
    for _ in range(3):  # the first of them a kept one, the others as soon as they are opened
        with pytest.raises(DBAPIError):
            kept.session(dies=True)
        assert not kept.connection.is_open
    sessions.append(kept.session())
    first, last = kept.opened[0], kept.opened[-1]
    assert (sessions, len(set(kept.opened))) == ([first, first, last], 4)


def test_its_session_ends_when_it_is_closed(kept: Kept) -> None:
    pid = kept.session()
    kept.connection.close()
    gone = "select from pg_stat_activity where pid = :pid"
    eventually(lambda: not kept.target.execute(gone, pid=pid), why="its session to end")
