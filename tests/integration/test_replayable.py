"""A snapshot's position compared with what Kafka still has: as numbers, as metrics, and as a plan."""

import math
import uuid
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from app.errors import ExitStatus
from app.kafka.replayable import replayable
from app.metrics.lane_metrics import LaneMetrics
from app.model.offsets import Offsets, TopicPartition
from app.snapshot.snapshot_records import Records
from app.worker.monitor import show_snapshot
from tests.commands import Ended
from tests.fix_doubt import EPOCH, LANE, counted
from tests.fix_recover import configure, forget, opened
from tests.fix_snapshot import Snapshotting
from tests.fix_topic import Topic
from tools.devstack import Kafka

DAY = 86_400.0


def test_headroom(kafka: Kafka) -> None:
    name = f"kept-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, retention_ms=str(int(7 * DAY * 1000)))
    Topic(kafka, name, 1).send(counted(0))
    tp = TopicPartition(name, 0)
    at = Offsets.of({tp: 1})
    with opened(kafka, name) as broker:
        found = replayable(broker, at)
        assert (found.ok, found.messages) == (True, 2)
        assert 6.9 * DAY < found.headroom_seconds <= 7 * DAY
        assert replayable(broker, Offsets.of({tp: 3})).headroom_seconds == 7 * DAY
        forget(kafka, name, 2)
        found = replayable(broker, at)
        assert (found.ok, found.gone, found.headroom_seconds) == (False, {tp: 2}, 0)
        kept = replayable(broker, at, Offsets.of({tp: 2}))
        assert (kept.ok, kept.gone, kept.elsewhere, kept.messages) == (True, {}, {tp: 2}, 2)
        assert 6.9 * DAY < kept.headroom_seconds <= 7 * DAY, "of what is Kafka's to keep"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"retention_ms": "-1"}, math.inf),
        ({"retention_bytes": "1000000"}, math.nan),
        ({"cleanup_policy": "compact"}, math.nan),
    ],
    ids=["without limit", "by bytes", "compacted"],
)
def test_headroom_without_a_time(kafka: Kafka, options: dict[str, str], expected: float) -> None:
    name = f"kept-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 1, **options)
    with opened(kafka, name) as broker:
        assert replayable(broker, Offsets.of({TopicPartition(name, 0): 0})).headroom_seconds == pytest.approx(
            expected, nan_ok=True
        )


def test_the_metrics(snapshotting: Snapshotting, made_up: Topic, kafka: Kafka) -> None:
    """Of the newest one; nothing before the first."""
    registry, records = CollectorRegistry(), Records("surelane")
    metrics = LaneMetrics(LANE, registry)

    def shown(name: str, **labels: str) -> float | None:
        with snapshotting.target.engine.connect() as connection, opened(kafka, made_up.name) as broker:
            newest = records.newest(connection, LANE)
            if newest is not None:
                show_snapshot(broker, newest, [metrics])
        return registry.get_sample_value(f"surelane_snapshot_{name}", {"lane": LANE, **labels})

    assert shown("last_timestamp_seconds") is None
    snapshotting.json("create", "--name", "one")
    made = snapshotting.json("create", "--name", "two")
    (one, two) = snapshotting.json("list")["snapshots"]
    assert (one["name"], two["made_at"]) == ("one", made["made_at"])
    assert shown("position", topic=made_up.name, partition="0") == EPOCH
    assert shown("replayable") == 1
    assert shown("headroom_seconds") == math.inf
    first = shown("last_timestamp_seconds") or 0
    forget(kafka, made_up.name, EPOCH + 1)
    assert (shown("replayable"), shown("headroom_seconds")) == (0, 0)
    snapshotting("delete", "two", "--yes")
    assert (shown("last_timestamp_seconds") or 0) < first


def plan(surelane: Callable[..., Ended], *options: str) -> Ended:
    return surelane("recover", "plan", "--snapshot", "one", *options)


def test_the_plan(
    snapshotting: Snapshotting,
    made_up: Topic,
    kafka: Kafka,
    surelane: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshotting.json("create", "--name", "one")
    found = plan(surelane, "--json").json
    assert (found["ok"], found["messages_at_most"], found["exact"]) == (True, EPOCH, True)
    assert found["position"] == {made_up.name: {"0": EPOCH}}
    assert {one["what"]: one["ok"] for one in found["checks"]} == {
        "position": True,
        "topics": True,
        "retention": True,
        "programs": True,
    }
    monkeypatch.setenv("SURELANE_CONFIG", str(snapshotting.folder / "surelane.yaml"))
    output = plan(surelane).out
    assert "6. surelane recover --from-ledger" in output
    assert f"at most {EPOCH} messages" in output
    assert "surelane recover run --snapshot one --to postgresql://" in output
    configure(snapshotting, target={"url": "postgresql://surelane@127.0.0.1:1/gone"})
    assert plan(surelane, "--json").json["ok"], "the target is gone, and not needed"
    forget(kafka, made_up.name, EPOCH + 2)
    ended = plan(surelane)
    assert ended.status == ExitStatus.DIVERGED
    assert f"Kafka has no longer: {made_up.name}[0] {EPOCH} to {EPOCH + 1}" in ended.out
    assert "plan:" not in ended.out
    made_up.recreate()
    ended = plan(surelane)
    assert (ended.status, f"topic {made_up.name} was made anew" in ended.out) == (ExitStatus.DIVERGED, True)


def test_usage(surelane: Callable[..., Ended], snapshotting: Snapshotting) -> None:
    assert surelane("recover").status == ExitStatus.USAGE
    assert surelane("recover", "--dry-run", "plan", "--snapshot", "one").status == ExitStatus.USAGE
    assert plan(surelane).status == ExitStatus.REFUSED
