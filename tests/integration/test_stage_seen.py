"""What stage processes have in hand, seen from outside: the target, `surelane status`, the metrics; and its limit."""

import json
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
import pytest
from prometheus_client import REGISTRY

from app.config.settings import EpochSettings, SourceSettings, StageSettings
from app.dispatch import lending
from app.dispatch.lane_stage import PAUSE_EPOCHS
from app.dispatch.pool import Pool
from app.errors import Fenced
from app.kafka.broker import Broker
from app.ledger.in_flight_rows import InFlightRows
from app.ledger.store import Ledger
from app.model.for_driver import ForDriver
from app.model.in_flight import InFlight, InFlightView, SpanState, StageProcess
from app.model.offsets import Offsets, Span, TopicPartition
from app.source.size import EpochSize
from app.worker.epoch_forecast import EpochForecast
from tests.commands import Ended
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import INT, TEXT, Debezium, Message, Table
from tests.oracle import questions
from tests.waiting import eventually

FLAT = Table("flat", {"id": INT, "v": TEXT})
EPOCH_MESSAGES = 200
EPOCHS = 14
#: characters of a value: most of a row's bytes
WIDE = 400
#: what the target takes for an epoch, at the least
SLOW_SECONDS = 0.5
#: spans that may be ahead where nothing but the number of tasks counts: as many as there are, and one
FORESEEN = 2
#: upserts and deletes of one table
LAYOUTS = 2
_STAGING = """
    select count(*), coalesce(sum(pg_table_size(oid)), 0) from pg_class
    where relpersistence = 'u' and relkind = 'r' and starts_with(relname, 'stage_')
"""


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Pool]:
    """Those of lanes in this process."""
    found: list[Pool] = []
    start = Pool.start

    def noticed(self: Pool) -> None:
        found.append(self)
        start(self)

    monkeypatch.setattr(Pool, "start", noticed)
    return found


def inserts(count: int, seed: int = 7) -> list[Message]:
    d, chance = Debezium(), random.Random(seed)
    return [d.create(FLAT, {"id": number, "v": chance.randbytes(WIDE // 2).hex()}) for number in range(count)]


def slow(target: Target) -> None:
    """Each statement that inserts takes its time."""
    target.execute(f"""
        create function slowly() returns trigger language plpgsql as
        $$ begin perform pg_sleep({SLOW_SECONDS}); return null; end $$;
        create trigger slowly before insert on {FLAT.name} for each statement execute function slowly()
    """)


def metric(made: LaneUnderTest, name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"lane": made.name, **labels}) or 0.0


@dataclass
class Watched:
    """What was seen of a lane again and again."""

    made: LaneUnderTest
    target: Target
    pool: Pool
    limit: int
    #: bytes of one span, as they are counted
    each: int = 0
    ahead: list[int] = field(default_factory=list)
    spans: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    table_bytes: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    exported: list[float] = field(default_factory=list)

    def look(self) -> None:
        seen = self.pool.in_flight()
        staged = [one.size for one in seen.spans if one.state is SpanState.STAGED]
        self.each = max([self.each, *staged])
        self.ahead.append(seen.ahead_bytes)
        self.spans.append(sum(one.state is not SpanState.CANCELLED for one in seen.spans))
        number, size = map(int, self.target.execute(_STAGING)[0])
        self.tables.append(number)
        self.table_bytes.append(size)
        of = f"select coalesce(sum(bytes), 0) from {SCHEMA}.in_flight where lane = :lane"
        self.written.append(int(self.target.execute(of, lane=self.made.name)[0][0]))
        self.exported.append(metric(self.made, "surelane_stage_ahead_bytes"))


def run_slowly(made: LaneUnderTest, target: Target, topic: Topic, pools: list[Pool], limit: int) -> Watched:
    """Look at it until it has caught up."""
    made.start()
    watched = Watched(made, target, eventually(lambda: pools, why="a pool")[-1], limit)

    def caught_up() -> bool:
        watched.look()
        return made.caught_up(topic)

    eventually(caught_up, 240.0, "the lane to catch up")
    made.stop()
    return watched


def test_a_slow_target_and_a_backlog(
    lane: MakeLane, target: Target, topic: Topic, pools: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ahead is what the limit allows, though more is foreseen; staging tables are few and small, however long it
    takes."""
    monkeypatch.setattr(lending, "TRUNCATE_BYTES", EPOCH_MESSAGES * WIDE // 2)  # after each of these small spans
    target.create(FLAT)
    slow(target)
    topic.send(inserts(EPOCH_MESSAGES * EPOCHS))
    limit = 2 * EPOCH_MESSAGES * WIDE  # a row takes a third more: more than one span, less than two
    overrides = {"epoch": {"max_messages": EPOCH_MESSAGES}, "stage": {"tasks": 1, "ahead_bytes": limit}}
    watched = run_slowly(lane("two-phase", **overrides), target, topic, pools, limit)
    assert watched.each < limit < FORESEEN * watched.each, "it binds"
    assert 0 < max(watched.ahead) <= limit + watched.each
    assert max(watched.spans) <= 1 + 1, "one ahead, and the one that is taken"
    assert 0 < max(watched.written) <= limit + watched.each, "the target has the same"
    assert 0 < max(watched.exported) <= limit + watched.each, "and the metrics"
    assert metric(watched.made, "surelane_stage_ahead_limit_bytes") == limit
    # of the span ahead, of the one that is merged, and of the one before, which is released with its commit
    assert 0 < max(watched.tables) <= 3 * LAYOUTS
    assert max(watched.table_bytes) <= 3 * 2 * watched.each, "what was merged leaves nothing behind"
    questions(target, topic)


def test_nothing_ahead(lane: MakeLane, target: Target, topic: Topic, pools: list[Pool]) -> None:
    """With a limit of 0 each span is staged when its turn comes."""
    target.create(FLAT)
    slow(target)
    topic.send(inserts(EPOCH_MESSAGES * 5))
    overrides = {"epoch": {"max_messages": EPOCH_MESSAGES}, "stage": {"tasks": 1, "ahead_bytes": 0}}
    watched = run_slowly(lane("two-phase", **overrides), target, topic, pools, 0)
    assert max(watched.spans) <= 1
    questions(target, topic)


def test_status_metrics_and_the_target_say_the_same(
    lane: MakeLane, target: Target, topic: Topic, pools: list[Pool], surelane: Callable[..., Ended]
) -> None:
    """While spans are ahead, after a process was killed, and at the end."""
    target.create(FLAT)
    slow(target)
    topic.send(inserts(EPOCH_MESSAGES * 8))
    made = lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, stage={"tasks": 1})
    before = metric(made, "surelane_stage_deaths_total", cause="signal")
    made.start()

    def status() -> dict[str, Any]:
        out = surelane("status", "--json", "--config", str(made.config_file)).out  # and what the lane logs
        return json.loads(next(line for line in out.splitlines() if line.startswith("{")))["stage"]

    def staged() -> dict[str, Any] | None:
        found = status()
        return found if found and any(one["state"] == "staged" for one in found["spans"]) else None

    found = eventually(staged, why="a span that is staged ahead, in the status")
    assert found is not None
    assert found["ahead_bytes"] == sum(one["bytes"] for one in found["spans"] if one["state"] == "staged") > 0
    assert found["ahead_limit_bytes"] == StageSettings().ahead_bytes
    (process,) = found["processes"]
    assert psutil.pid_exists(process["pid"])
    (span,) = [one for one in found["spans"] if one["state"] == "staged"][:1]
    assert span["process"] == process
    assert span["end"][topic.name]["0"] - span["start"][topic.name]["0"] == EPOCH_MESSAGES
    assert 0 <= span["age_seconds"] < 60
    shown = surelane("status", "--config", str(made.config_file)).out
    assert f"1 on {process['host']}" in shown
    assert "MiB staged ahead" in shown

    assert metric(made, "surelane_stage_tasks") == 1
    assert metric(made, "surelane_stage_processes", host=process["host"]) == 1
    with suppress(psutil.NoSuchProcess):
        psutil.Process(process["pid"]).send_signal(signal.SIGKILL)
    eventually(
        lambda: metric(made, "surelane_stage_deaths_total", cause="signal") == before + 1, why="the death to be counted"
    )
    eventually(lambda: [one["pid"] for one in status()["processes"]] not in ([], [process["pid"]]), why="another one")
    made.until_caught_up(topic)
    eventually(lambda: not status()["spans"], why="nothing in flight")
    assert [one["pid"] for one in status()["processes"]], "it is shown without a span, too"
    made.stop()
    assert target.execute(f"select * from {SCHEMA}.in_flight") == []
    assert status() is None
    questions(target, topic)


def test_spans_for_the_driver_are_counted(lane: MakeLane, target: Target, topic: Topic) -> None:
    """One that cannot be compacted, and those that are left to the driver after it."""
    target.create(FLAT)
    topic.send([*inserts(3), Debezium().truncate(FLAT), *inserts(6)])
    made = lane("two-phase", epoch={"max_messages": 5}, stage={"tasks": 1}, target={"on_truncate": "apply"})
    made.run_until_caught_up()
    counted = {one: metric(made, "surelane_stage_for_driver_total", reason=one) for one in ForDriver}
    assert counted == {one: 1 if one in (ForDriver.IRREGULAR, ForDriver.PAUSED) else 0 for one in ForDriver}
    questions(target, topic)


def test_nothing_stays_in_flight_after_epochs_that_the_driver_read(
    lane: MakeLane, target: Target, topic: Topic, pools: list[Pool]
) -> None:
    """The driver reads ahead while it reads; the first epoch that is staged again makes that obsolete."""
    target.create(FLAT)
    topic.send([*inserts(3), Debezium().truncate(FLAT), *inserts(5 * (PAUSE_EPOCHS + 4))])
    made = lane("two-phase", epoch={"max_messages": 5}, stage={"tasks": 1}, target={"on_truncate": "apply"})
    made.start()
    made.until_caught_up(topic)
    assert pools[-1].in_flight().spans == ()
    assert metric(made, "surelane_stage_for_driver_total", reason=ForDriver.PAUSED) == PAUSE_EPOCHS
    made.stop()
    questions(target, topic)


def test_one_that_is_fenced_has_no_say(lane: MakeLane, target: Target, topic: Topic, pools: list[Pool]) -> None:
    """What another writer has written stays."""
    target.create(FLAT)
    made = lane("two-phase", stage={"tasks": 1})
    made.start()
    rows = f"select generation from {SCHEMA}.in_flight where lane = :lane"
    eventually(lambda: target.execute(rows, lane=made.name), why="a row of the first writer")
    ledger, mine = Ledger(SCHEMA, made.name), InFlightRows(SCHEMA, made.name)
    with target.as_lane.begin() as connection:
        newer = ledger.claim(connection, checkpoint="another", delivery="two-phase", at_least=0).generation
        mine.replace(connection, newer, seen(3))
    assert isinstance(made.join(), Fenced)
    assert [row.generation for row in target.execute(rows, lane=made.name)] == [newer, newer]


def seen(number: int) -> InFlightView:
    idle, busy = (StageProcess(host="h", slot=slot, pid=slot) for slot in (1, 2))
    span = Span.of(TopicPartition("t", 0), 0, 5)
    one = InFlight(number=number, lane="a", process=busy, span=span, state=SpanState.FETCH, age_seconds=7.0, size=0)
    return InFlightView(processes=(idle, busy), spans=(one,))


def test_rows_are_read_as_they_were_written(target: Target) -> None:
    rows = InFlightRows(SCHEMA, "a")
    with target.as_lane.begin() as connection:
        rows.replace(connection, 1, seen(3))
        rows.replace(connection, 2, seen(4))
        assert rows.read(connection, 1) == InFlightView(), "an older generation's rows are gone"
        found = rows.read(connection, 2)
        assert found == seen(4)
        assert 7 <= found.spans[0].age_seconds < 30
        rows.clear(connection, 1)
        assert rows.read(connection, 2) == seen(4), "an older writer does not clear them"
        rows.clear(connection, 2)
        assert rows.read(connection, 2) == InFlightView()


def test_each_partition_is_foreseen_to_its_own_end(new_topic: NewTopic, lane: MakeLane) -> None:
    topic = new_topic(partitions=2)
    d = Debezium()
    one = d.create(FLAT, {"id": 1, "v": "a"})
    topic.send([replace(one, partition=0)] * 100 + [replace(one, partition=1)] * 10)
    first, second = (TopicPartition(topic.name, number) for number in range(2))
    source = SourceSettings(bootstrap_servers=topic.kafka.bootstrap, topics=(topic.name,))
    with Broker(source) as broker:
        size = EpochSize(EpochSettings(max_messages=10))
        size.begin()
        foresight = EpochForecast(broker, size, lane("two-phase", topics=(topic,)).settings, 4)
        assert len(foresight.after(Span.of(first, 0, 10), Offsets.of({first: 10}))) == 5
        assert foresight.after(Span.of(second, 0, 10), Offsets.of({second: 10})) == []
