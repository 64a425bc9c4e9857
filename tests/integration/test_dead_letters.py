"""Dead letters on a real Kafka and a real Postgres: whole, in order, once an entry, and never in the lane's way."""

import os

import pytest
from prometheus_client import REGISTRY

from app.errors import ConfigInvalid
from app.quarantine.operator import Operator
from app.quarantine.quarantine import Entry
from app.worker.dead_letter_sender import LETTERS_AT_ONCE
from tests.fix_dead_letters import Post, letters
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Topic
from tests.kept import TOPIC, entry, parked
from tests.poison import row
from tests.waiting import eventually
from tools.devstack import Kafka

PREFIX = "__connect.errors."


def context(headers: tuple[tuple[str, bytes | None], ...]) -> dict[str, bytes | None]:
    """Connect's headers, by the rest of their names."""
    return {name.removeprefix(PREFIX): value for name, value in headers if name.startswith(PREFIX)}


def test_a_letter_is_whole(post: Post) -> None:
    own = (("trace", b"\x00\xff"), ("none", None), ("trace", b"again"))
    post.keep(entry(81, key=b"\x00\xfe", value=b"\xff\x00{", headers=own, timestamp_ms=1_234_567))
    post.run()
    (found,) = post.letters
    assert (found.key, found.value, found.timestamp_ms) == (b"\x00\xfe", b"\xff\x00{", 1_234_567)
    assert found.headers[:3] == own
    assert context(found.headers[3:]) == {
        "topic": TOPIC.encode(),
        "partition": b"0",
        "offset": b"81",
        "connector.name": post.target.lane.encode(),
        "task.id": b"0",
        "stage": b"TASK_PUT",
        "class.name": b"surelane.apply",
        "exception.class.name": b"BadMessage",
        "exception.message": b"value too long",
        "exception.stacktrace": b"BadMessage: value too long\n",
    }
    ((number,),) = post.target.execute("select id from surelane.quarantine")
    assert found.headers[-1] == ("__surelane.quarantine.id", str(number).encode())


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (entry(1, stage="decode"), (b"VALUE_CONVERTER", b"surelane.decode", b"BadMessage")),
        (entry(1, stage="transform"), (b"TRANSFORMATION", b"surelane.transform", b"BadMessage")),
        (parked(1), (b"TASK_PUT", b"surelane.parked", b"Parked")),
    ],
    ids=["decode", "transform", "parked"],
)
def test_headers_describe_the_failure(post: Post, made: Entry, expected: tuple[bytes, ...]) -> None:
    post.keep(made)
    post.run()
    found = context(post.letters[0].headers)
    assert tuple(found[name] for name in ("stage", "class.name", "exception.class.name")) == expected
    assert len(found) == 10
    assert found["exception.message"]


def test_nothing_is_in_a_message(post: Post) -> None:
    post.keep(entry(1, key=None, value=None, timestamp_ms=None), entry(2, key=b"", value=b""))
    post.run()
    assert [(one.key, one.value) for one in post.letters] == [(None, None), (b"", b"")]


def test_the_error_is_redacted_and_the_message_is_whole(post: Post) -> None:
    """Even if the columns were named later."""
    post.redact = ["*.email"]
    value = b'{"op":"c","after":{"id":7,"email":"ann@example.org"}}'
    post.keep(entry(1, value=value, error="ann@example.org is too long"))
    post.run()
    (found,) = post.letters
    assert found.value == value
    assert context(found.headers)["exception.message"] == b"*** is too long"
    assert all(b"ann@" not in (text or b"") for _, text in found.headers)


def test_in_the_order_of_the_entries_once_each(post: Post) -> None:
    """Over several lives, and more than are read at one time."""
    many = 2 * LETTERS_AT_ONCE + 1
    post.keep(*(entry(at) for at in range(many, 0, -1)))
    post.run()
    assert post.offsets == list(range(many, 0, -1))
    post.run()
    post.keep(entry(many), entry(1000))
    post.run()
    assert post.offsets == [*range(many, 0, -1), 1000]
    assert post.unmarked == []
    assert post.metric("dead_letters_sent_total") == many + 1
    assert post.metric("dead_letters_waiting") == 0
    assert post.metric("dead_letter_failures_total") == 0


def test_what_came_before_and_what_is_closed_is_sent(post: Post) -> None:
    post.keep(entry(1), entry(2))
    operator = Operator(SCHEMA, post.target.lane, several=False)
    with post.target.engine.begin() as connection:
        operator.discard(connection, [held.id for held in post.quarantine.held(connection)][:1], "me@here", "test")
    post.run()
    assert post.offsets == [1, 2]


def test_another_lane_has_its_own(post: Post) -> None:
    post.keep(entry(1))
    post.target.execute("update surelane.quarantine set lane = 'other'")
    post.run()
    assert post.letters == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_is_not_committed_is_not_sent(post: Post, end: str) -> None:
    with post.target.engine.connect() as connection:
        connection.begin()
        post.quarantine.add(connection, 1, 5, [entry(1)])
        connection.exec_driver_sql("prepare transaction 'surelane:undecided:1:1'")
        connection.invalidate()
    post.keep(entry(2))
    post.run()
    assert post.offsets == [2]
    with post.target.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"{end} prepared 'surelane:undecided:1:1'")
    post.run()
    assert post.offsets == ([2, 1] if end == "commit" else [2])


def test_an_entry_that_an_epoch_holds(post: Post) -> None:
    """It is sent and marked when it is free again; no session waits, and it is not sent twice."""
    post.keep(entry(1), entry(2))
    with post.target.engine.connect() as epoch, epoch.begin():
        held = [one.id for one in post.quarantine.held(epoch)]
        post.quarantine.still_open(epoch, held[:1])
        post.start()
        post.until(lambda: post.unmarked == [1], "the free one to be marked")
        post.keep(entry(3))
        post.until(lambda: post.offsets == [1, 2, 3], "the next one")
    post.until(lambda: post.unmarked == [], "the other one to be marked")
    post.stop()
    assert post.offsets == [1, 2, 3]


def test_a_topic_that_is_missing(post: Post) -> None:
    """It is not made, and waited for."""
    post.topic += "-later"
    post.keep(entry(1))
    post.start()
    post.until(lambda: post.metric("dead_letter_failures_total") >= 1, "a failure")
    assert post.metric("dead_letters_waiting") == 1
    assert not post.kafka.has_topic(post.topic)
    post.kafka.create_topic(post.topic, 1)
    post.until(lambda: post.unmarked == [], "it to be sent")
    assert post.offsets == [1]
    post.until(lambda: post.metric("dead_letters_waiting") == 0, "the next look")


def test_a_message_that_the_topic_does_not_take(post: Post) -> None:
    """Nothing gets before it."""
    post.topic += "-small"
    post.kafka.create_topic(post.topic, 1, max_message_bytes="2000")
    post.keep(entry(1), entry(2, value=os.urandom(3000)), entry(3))
    post.run()
    assert (post.offsets, post.unmarked) == ([1], [2, 3])
    post.target.execute('update surelane.quarantine set dead_lettered_at = now() where "offset" = 2')
    post.run()
    assert (post.offsets, post.unmarked) == ([1, 3], [])


def test_a_broker_that_is_away(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kafka.dead_letter_producer.REQUEST_TIMEOUT_SECONDS", 0.5)
    post.kafka.stop()
    try:
        post.keep(entry(1))
        post.start()
        post.until(lambda: post.metric("dead_letter_failures_total") >= 1, "a failure")
    finally:
        post.kafka.start()
    post.until(lambda: post.unmarked == [], "it to be sent")
    assert post.offsets == [1]


def test_a_fenced_writer_sends_nothing(post: Post) -> None:
    post.keep(entry(1))
    post.claim()
    post.run()
    assert post.letters == []


def test_an_option_that_the_client_does_not_know(post: Post) -> None:
    post.options = {"compresion.type": "zstd"}
    with pytest.raises(ConfigInvalid, match=r"compresion\.type"):
        post.start()


def test_options_reach_the_client(post: Post) -> None:
    post.options = {"compression.type": "zstd", "client.id": "letters"}
    post.keep(entry(1))
    post.run()
    assert post.offsets == [1]


def poisoned(target: Target, topic: Topic) -> None:
    """A table that refuses a message, and a topic with that message."""
    target.execute("create table flat (id int primary key, v varchar(12) not null)")
    topic.send([row(1), row(2, None), row(3)])


def gauge(lane: str, name: str, **labels: str) -> float | None:
    """Of a lane in this process."""
    return REGISTRY.get_sample_value(f"surelane_{name}", {"lane": lane, **labels})


@pytest.mark.parametrize("mode", ["two-phase", "at-least-once"])
def test_a_lane_with_a_topic_that_comes_later(
    mode: str, lane: MakeLane, kafka: Kafka, target: Target, topic: Topic
) -> None:
    """It goes on without; what is parked is sent, too. The monitor counts what waits."""
    poisoned(target, topic)
    dead = f"{topic.name}.dead"
    made = lane(mode, guard={"dead_letter": {"topic": dead}, "on_skip": "park"})
    made.start()
    made.until_caught_up(topic)
    eventually(lambda: gauge(made.name, "dead_letter_failures_total"), why="a failure")
    topic.send([row(2, "later"), row(4)])
    made.until_caught_up(topic)
    kafka.create_topic(dead, 1)
    eventually(lambda: gauge(made.name, "dead_letters_sent_total") == 2, why="the letters")
    eventually(lambda: gauge(made.name, "quarantine_open", state="parked") == 1, why="the monitor's count")
    assert gauge(made.name, "quarantine_open", state="quarantined") == 1
    eventually(lambda: gauge(made.name, "guard_parked_keys") == 1, why="the rest of it")
    made.stop()
    found = [context(one.headers) for one in letters(kafka, dead)]
    which = [(one["offset"], one["class.name"]) for one in found]
    assert which == [(b"1", b"surelane.apply"), (b"3", b"surelane.parked")]
    assert {one["connector.name"] for one in found} == {made.name.encode()}
    assert [row.id for row in target.execute("select id from flat order by id")] == [1, 3, 4]


def test_a_lane_that_ends_has_sent_all(lane: MakeLane, kafka: Kafka, target: Target, topic: Topic) -> None:
    poisoned(target, topic)
    dead = f"{topic.name}.dead"
    kafka.create_topic(dead, 1)
    made = lane("two-phase", guard={"dead_letter": {"topic": dead}})
    made.run_until_caught_up()
    made.run_until_caught_up()
    assert [context(one.headers)["offset"] for one in letters(kafka, dead)] == [b"1"]


def test_killed_before_it_was_sent(
    lane: MakeLane, lane_process: MakeProcess, kafka: Kafka, target: Target, topic: Topic
) -> None:
    """The next start sends it."""
    poisoned(target, topic)
    dead = f"{topic.name}.dead"
    made = lane("two-phase", guard={"dead_letter": {"topic": dead}})
    process = lane_process(made).start()
    process.until(lambda: process.events("dead letters wait"), why="something to be unsent")
    process.kill()
    kafka.create_topic(dead, 1)
    made.run_until_caught_up()
    assert [(one.value, context(one.headers)["offset"]) for one in letters(kafka, dead)] == [
        (topic.sent[1].message.value, b"1")
    ]
    ((unsent,),) = target.execute("select count(*) from surelane.quarantine where dead_lettered_at is null")
    assert unsent == 0
