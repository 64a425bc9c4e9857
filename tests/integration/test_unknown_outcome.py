"""A statement whose answer is lost, or that is lost itself: what is in memory agrees with the database afterwards."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import URL

from app.config.on_skip import OnSkip
from app.config.settings import Settings, SourceSettings
from app.db.engine import make_engine
from app.errors import ExitStatus, Unreachable
from app.kafka.transactional_topic import TransactionalTopic
from app.ledger.store import Ledger
from app.metrics.lane_metrics import LaneMetrics
from app.model.epoch import GENESIS
from app.model.offsets import Offsets, Span
from app.poison.attempts import Attempts, AttemptStage
from app.poison.guard import Guard
from app.quarantine.quarantine import Quarantine
from app.query.result_outbox import ResultOutbox
from app.recover.pausing import pause
from app.recover.pausing import resume as go_on
from app.savepoint.stopping import resume, stop
from app.worker.lane_writer import LaneWriter
from app.worker.result_sender import ResultSender
from tests import messages as m
from tests.fix_bare_lane import LIMITS, TOPIC, Death, MakeBareLane
from tests.fix_doubt import Doubt
from tests.fix_lane import MakeLane
from tests.fix_proxy import Proxy, proxy_to
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import NewTopic, Topic
from tests.hostile import fail_first_commits, has_failed
from tests.messages import Debezium, Message, Table
from tests.query_sinks import messages_of
from tests.waiting import eventually
from tools.devstack import Kafka

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
SPAN = Span(start=Offsets.of({TOPIC: 5}), end=Offsets.of({TOPIC: 9}))
d = Debezium()

both = pytest.mark.parametrize("is_done", [False, True], ids=["lost", "answer lost"])


@pytest.fixture
def network(target: Target) -> Iterator[Proxy]:
    """The way to the target."""
    with proxy_to(target.url) as proxy:
        yield proxy


def rows(count: int) -> list[Message]:
    return [d.create(FLAT, {"id": number, "v": "x"}) for number in range(count)]


def suspected(target: Target) -> list[tuple[int, int, int]]:
    """Attempts, losses and unexplained deaths of each suspect."""
    return [tuple(row) for row in target.execute("select attempts, losses, unexplained from surelane.suspect")]


def new_guard(target: Target, network: Proxy) -> Guard:
    engine = make_engine(network.url(target.url), target.owner_role)
    return Guard(Attempts(engine, SCHEMA, target.lane), LIMITS)


def check_no_death(target: Target, generation: int) -> None:
    """The next process finds nothing that was in progress."""
    later = Guard(Attempts(target.as_lane, SCHEMA, target.lane), LIMITS)
    later.open(generation, SPAN.start, None)
    assert not later.is_suspicious
    assert suspected(target) == []
    later.close()


@pytest.mark.parametrize("stage", [AttemptStage.EPOCH, AttemptStage.DECODE])
def test_the_end_of_an_attempt(target: Target, network: Proxy, stage: AttemptStage) -> None:
    """It passed, and its epoch is not decided when the lane ends: another process begins it anew."""
    guard = new_guard(target, network)
    guard.open(1, SPAN.start, None)
    guard.enter(SPAN)
    guard.begin(7, SPAN, stage)
    network.forget("UPDATE surelane.attempt", is_done=False)
    if stage is AttemptStage.EPOCH:  # a thread does it
        guard.passed(SPAN.start)
        eventually(lambda: network.has_forgotten, why="the end to be lost")
    else:
        with pytest.raises(Unreachable):
            guard.passed(SPAN.start)
    network.restore()
    guard.close()
    check_no_death(target, 2)


def test_a_death_counts_once(target: Target, bare_lane: MakeBareLane) -> None:
    """Also where the process that counts it opens the lane several times before the next epoch begins."""
    target.create(FLAT)
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    lane.killers = {70}
    with pytest.raises(Death):
        lane.apply(rows(200))
    lane.reopen()
    assert suspected(target) == [(1, 0, 0)]
    lane.reconnect()
    lane.reconnect()
    assert suspected(target) == [(1, 0, 0)]


@both
@pytest.mark.parametrize("survived", [False, True], ids=["a death", "a lost connection"])
def test_what_an_opening_counts(target: Target, network: Proxy, survived: bool, is_done: bool) -> None:
    """It is repeated after a failure, and counts the last attempt once, as what it was."""
    guard = new_guard(target, network)
    guard.open(1, SPAN.start, None)
    guard.enter(SPAN)
    guard.begin(7, SPAN, AttemptStage.APPLY)
    if survived:
        guard.epoch_failed(Unreachable("the target is gone"), lost_target=True)
    else:
        guard.close()
        guard = new_guard(target, network)
    network.forget("INSERT INTO surelane.suspect", is_done=is_done)
    with pytest.raises(Unreachable):
        guard.open(2, SPAN.start, None)
    network.restore()
    for generation in (3, 4):
        guard.close()  # as the writer's end does, and opens it again
        guard.open(generation, SPAN.start, None)
    assert suspected(target) == [(0, 1, 0) if survived else (0, 0, 1)]
    guard.close()


def test_an_interrupted_release_is_known_until_it_is_refused(target: Target) -> None:
    """A process that opens the lane and ends before it releases does not forget it; an epoch is no release."""
    for epoch, expected in ((GENESIS, SPAN), (7, None)):
        first = Guard(Attempts(target.as_lane, SCHEMA, target.lane), LIMITS)
        first.open(1, SPAN.end, None)
        first.begin(epoch, SPAN, AttemptStage.APPLY)
        for generation in (2, 3):
            later = Guard(Attempts(target.as_lane, SCHEMA, target.lane), LIMITS)
            later.open(generation, SPAN.end, None)
            later.close()
        last = Guard(Attempts(target.as_lane, SCHEMA, target.lane), LIMITS)
        last.open(4, SPAN.end, None)
        assert last.take_interrupted() == expected
        last.close()
        target.execute("delete from surelane.attempt")


@pytest.mark.parametrize(
    ("words", "after", "is_done"),
    [("batch <= 1", None, False), ("COMMIT", "batch <= 1", False), ("COMMIT", "batch <= 1", True)],
    ids=["statement lost", "commit lost", "its answer lost"],
)
def test_a_batch_for_kafka(
    words: str,
    after: str | None,
    is_done: bool,
    target: Target,
    network: Proxy,
    kafka: Kafka,
    new_topic: NewTopic,
) -> None:
    """It is sent once, also where the outbox does not learn that Kafka has it."""
    topic, engine = new_topic(), make_engine(network.url(target.url), target.owner_role)
    outbox, ledger = ResultOutbox(SCHEMA, target.lane), Ledger(SCHEMA, target.lane)
    with engine.begin() as connection:
        outbox.make(connection)
        for batch in (1, 2):
            connection.exec_driver_sql(
                f"insert into {outbox.name} select {batch}, n, n::text, {batch}::text from generate_series(1, 3) n"
            )
        generation = ledger.claim(connection, checkpoint="none", delivery="test", at_least=0).generation
    writer = LaneWriter(
        name=target.lane,
        engine=engine,
        ledger=ledger,
        partition=None,
        guard=new_guard(target, network),
        quarantine=Quarantine(SCHEMA, target.lane),
        generation=generation,
    )
    source = SourceSettings(bootstrap_servers=kafka.bootstrap, topics=("elsewhere",))
    sink = TransactionalTopic(source, topic.name, {}, target.lane)
    sender = ResultSender(writer, outbox, sink, LaneMetrics(target.lane, CollectorRegistry()))
    network.forget(words, after=after, is_done=is_done, cuts=False)
    sender.start()
    try:
        eventually(lambda: not target.execute(f"select from {outbox.name}"), 60, "the outbox to be empty")
    finally:
        sender.stop()
    assert network.has_forgotten
    assert messages_of(topic) == [(key, batch) for batch in (1, 2) for key in (1, 2, 3)]


def settings_of(target: Target, url: URL) -> Settings:
    section = {**target.section, "url": url.render_as_string(hide_password=False)}
    source = {"bootstrap_servers": "127.0.0.1:9", "topics": ["elsewhere"]}
    return Settings.of({"lane": target.lane, "source": source, "target": section})


@pytest.mark.parametrize("cuts", [False, True], ids=["answers again", "is away"])
@both
def test_an_order_to_stop(target: Target, network: Proxy, is_done: bool, cuts: bool) -> None:
    """The command fails, and leaves no order; or it says how to withdraw the one that may be left."""
    settings = settings_of(target, network.url(target.url))
    network.forget("COMMIT", after="INSERT INTO surelane.stop_order", is_done=is_done, cuts=cuts)
    with pytest.raises(Unreachable, match="savepoint one" if cuts else "not known whether") as failed:
        stop(settings, "one", "me", 5, lambda _: None)
    orders = target.execute("select savepoint from surelane.stop_order")
    assert len(orders) == (is_done and cuts)
    network.restore()
    if cuts:
        assert "savepoint resume" in str(failed.value.hint)
        assert resume(settings) is is_done
    stop(settings, "another", "me", 5, lambda _: None)


@pytest.mark.parametrize("words", ["INSERT INTO surelane.pause", "COMMIT"])
@both
def test_what_a_command_says(target: Target, network: Proxy, is_done: bool, words: str) -> None:
    """Where COMMIT was lost, or its answer: that nothing is known of it. Then the same once more is right."""
    settings = settings_of(target, network.url(target.url))
    insert = "INSERT INTO surelane.pause"
    network.forget(words, after=None if words == insert else insert, is_done=is_done)
    with pytest.raises(Unreachable) as failed:
        pause(settings, "me", None, 5, lambda _: None)
    assert ("not known whether" in failed.value.message) is (words == "COMMIT")
    assert bool(target.execute("select from surelane.pause")) is (is_done and words == "COMMIT")
    network.restore()
    found, _ = pause(settings, "me", None, 5, lambda _: None)
    assert found.by == "me"


@both
def test_an_answer_to_what_is_in_doubt(doubt: Doubt, network: Proxy, is_done: bool) -> None:
    gid = doubt.prepare(decided=True)
    url = network.url(doubt.target.url).render_as_string(hide_password=False)
    doubt.configure(target={**doubt.target.section, "url": url})
    network.forget("commit prepared", is_done=is_done, cuts=False)
    found = doubt("commit", gid)
    assert (found.status, "not known whether it was committed" in found.err) == (ExitStatus.ENVIRONMENT, True)
    assert "once more" in found.err
    assert (gid in doubt.target.prepared()) is not is_done
    eventually(lambda: doubt("commit", gid).status == 0, why="the same answer, once the lock is free")
    assert [one["state"] for one in doubt.answers()] == (["done"] if is_done else ["failed", "done"])


def test_the_state_of_a_lane(lane: MakeLane, target: Target, topic: Topic) -> None:
    """It is recorded later where it could not be: an operator waits for it."""
    target.create(FLAT)
    topic.send(rows(3))
    made = lane("ledger")
    made.run_until_caught_up()
    fail_first_commits(target, "surelane.lane_state", "new.state", ("running", "paused", "stopped"))
    made.start()

    def is_said(state: str) -> bool:
        return [tuple(row) for row in target.execute("select state from surelane.lane_state")] == [(state,)]

    eventually(lambda: is_said("running"), 60, "its state")
    assert pause(made.settings, "me", None, 30, lambda _: None)[1] == [made.name]
    assert is_said("paused")
    go_on(made.settings)
    eventually(lambda: is_said("running"), 60, "its state")
    made.stop()
    assert has_failed(target, "running")
    assert has_failed(target, "paused")
