"""The two-phase committer on a real Postgres, without Kafka and Spark: what its two threads may do at one time."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text

from app.db.sqlstate import check_alive
from app.errors import Diverged, Fenced, Unreachable
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.model.offsets import Offsets, Span
from app.protocol.committer import TwoPhase
from app.protocol.participant import Work
from app.protocol.target_participant import PreparedTarget
from tests.fix_target import SCHEMA, Target

WAIT_SECONDS = 30.0
#: long enough for a thread that is not held up to be through
SOON_SECONDS = 0.5
CHECKPOINT = "a checkpoint"
NOTHING = Span(start=Offsets(), end=Offsets())


@pytest.fixture
def connection(target: Target) -> Iterator[Connection]:
    """The lane's."""
    target.execute("create table public.t (id int primary key)")
    with target.as_lane.connect() as connection:
        yield connection


@pytest.fixture
def ledger(target: Target) -> Ledger:
    """Of the target's lane."""
    return Ledger(SCHEMA, target.lane)


def claim(target: Target, ledger: Ledger) -> int:
    """A new writer's generation."""
    with target.engine.begin() as connection:
        return ledger.claim(connection, checkpoint=CHECKPOINT, delivery="two-phase", at_least=0).generation


def prepare(committer: TwoPhase, connection: Connection, gid: Gid) -> None:
    """An epoch, up to PREPARE TRANSACTION."""
    with committer.transaction(Work(gid=gid, span=NOTHING)):
        connection.execute(text("insert into public.t values (:id)"), {"id": gid.epoch})


def test_the_next_epoch_waits_until_the_last_one_is_published(
    target: Target, connection: Connection, ledger: Ledger
) -> None:
    """Else the next one would be counted in its place, before it is visible."""
    order: list[str] = []
    publishing, may_publish = threading.Event(), threading.Event()

    def publish(seconds: float) -> None:
        assert seconds > 0
        publishing.set()
        assert may_publish.wait(WAIT_SECONDS)
        order.append("published")

    def settle() -> None:
        committer.commit()
        order.append("next epoch")

    gid = Gid(target.lane, claim(target, ledger), 0)
    committer = TwoPhase(PreparedTarget(connection, target.as_lane, ledger, gid.generation), (), publish)
    prepare(committer, connection, gid)
    watcher, lane = threading.Thread(target=committer.commit), threading.Thread(target=settle)
    watcher.start()
    assert publishing.wait(WAIT_SECONDS)
    lane.start()
    lane.join(SOON_SECONDS)
    may_publish.set()
    watcher.join(WAIT_SECONDS)
    lane.join(WAIT_SECONDS)
    assert order == ["published", "next epoch"]


@pytest.mark.parametrize(
    ("taken_over", "error"), [(False, Diverged), (True, Fenced)], ids=["by hand", "by a newer writer"]
)
def test_a_decided_epoch_that_is_gone_says_who_took_it(
    target: Target, connection: Connection, ledger: Ledger, taken_over: bool, error: type[Exception]
) -> None:
    """Rolled back by hand it is lost, and an operator has to act; rolled back by a newer writer it is applied there."""
    gid = Gid(target.lane, claim(target, ledger), 0)
    committer = TwoPhase(PreparedTarget(connection, target.as_lane, ledger, gid.generation))
    prepare(committer, connection, gid)
    with target.engine.connect() as other:
        other.rollback_prepared(str(gid), recover=True)
    if taken_over:
        claim(target, ledger)
    with pytest.raises(error):
        committer.commit()


def test_committing_needs_no_living_connection(target: Target, connection: Connection, ledger: Ledger) -> None:
    """The connection that prepared may die; any other of the role can end what it left."""
    gid = Gid(target.lane, claim(target, ledger), 0)
    committer = TwoPhase(PreparedTarget(connection, target.as_lane, ledger, gid.generation))
    prepare(committer, connection, gid)
    target.cut_connections("%")
    assert committer.commit()
    assert not committer.commit(), "there is nothing more"
    assert target.prepared() == []
    assert list(target.rows("public.t")) == [(0,)]
    with pytest.raises(Unreachable):  # so that the writer opens anew, on another one
        check_alive(connection, "the next epoch")
