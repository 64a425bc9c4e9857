"""A lane waits for a standby of its target that replays nothing, and goes on when it has replayed, or is gone."""

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from app.errors import ExitStatus, TargetMismatch
from tests.commands import apart, command
from tests.fix_clusters import Clusters
from tests.fix_doubt import changes
from tests.fix_lane import LaneUnderTest, MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.waiting import eventually
from tests.workload import COUNTER

LIMIT = 2.0


@pytest.fixture
def primary(clusters: Clusters) -> Target:
    made = clusters("primary")
    made.create(COUNTER)
    return made


@pytest.fixture
def made(lane: MakeLane, primary: Target) -> Iterator[LaneUnderTest]:
    limits = {"target_replica_lag": f"{LIMIT:g} seconds"}
    made = lane("two-phase", epoch={"max_messages": 10}, limits=limits).at(primary)
    yield made
    made.give_up()


def lag(made: LaneUnderTest) -> float:
    return REGISTRY.get_sample_value("surelane_replica_lag_seconds", {"lane": made.name}) or 0.0


def test_a_standby_that_replays_nothing(clusters: Clusters, primary: Target, made: LaneUnderTest, topic: Topic) -> None:
    def status() -> Any:
        return apart("status", "--json", "--config", str(made.config_file)).json  # the lane in this process logs

    standby = clusters.standby(primary, "replica-1")
    with pytest.raises(TargetMismatch, match="may not see") as refused:
        made.run_until_caught_up()
    assert primary.epochs() == []
    doctor = command(made, "doctor")
    assert (doctor.status, "may not see how far" in doctor.out) == (ExitStatus.FAULTS_FOUND, True)
    assert refused.value.hint is not None
    primary.execute(refused.value.hint)  # what it says is enough

    topic.send(changes(0))
    made.start()
    made.until_caught_up(topic)
    standby.server.execute("select pg_wal_replay_pause()")
    topic.send(changes(30))
    eventually(lambda: status()["state"] == "waiting", 120, "the lane to wait")
    shown = command(made, "status").out
    assert "replica-1" in status()["waits_for"]
    assert "waits for" in shown
    assert lag(made) > LIMIT
    before = len(primary.epochs())
    topic.send(changes(60))
    assert command(made, "pause").status == 0
    assert status()["state"] == "paused"
    assert command(made, "resume").status == 0
    eventually(lambda: status()["state"] == "waiting", 60, "the lane to wait again")
    assert len(primary.epochs()) == before
    assert primary.prepared() == []

    standby.server.execute("select pg_wal_replay_resume()")
    made.until_caught_up(topic)
    eventually(lambda: status()["state"] == "running", 60, "the lane to run")
    assert status()["waits_for"] is None
    assert lag(made) <= LIMIT

    standby.server.execute("select pg_wal_replay_pause()")
    primary.execute("create table public.other ()")
    eventually(lambda: status()["state"] == "waiting", 60, "the lane to wait for what another session wrote")
    made.stop()
    topic.send(changes(90))
    made.start()
    eventually(lambda: status()["state"] == "waiting", 120, "the lane to wait after a restart")
    topic.send(changes(120))
    standby.server.kill()
    made.until_caught_up(topic)
    made.stop()
    assert status()["state"] == "stopped"
    questions(primary, topic)


def test_no_standby(primary: Target, made: LaneUnderTest, topic: Topic) -> None:
    """Nothing to wait for."""
    version = primary.execute("select current_setting('server_version_num')::int")[0][0]
    owner = primary.owner_role
    inherits = "with inherit true" if version >= 160_000 else f"; alter role {owner} inherit"
    primary.execute(f"grant pg_read_all_stats to {owner} {inherits}")
    topic.send(changes(0))
    made.run_until_caught_up()
    questions(primary, topic)
