"""Status: the same answer whether the lane runs or not, and `running` only when it does."""

import os
import socket

import pytest
from confluent_kafka import Producer

from app.db.locks import lock_holder, try_lock
from app.ledger.store import Ledger
from app.model.counts import Counts
from app.model.epoch import GENESIS, EpochRecord
from app.model.offsets import Offsets, Span, TopicPartition
from tests.fix_cli import Site

KEYS = [
    "lane",
    "state",
    "generation",
    "epoch",
    "position",
    "lag_messages",
    "lag_seconds",
    "plans",
    "pause",
    "table_pauses",
    "waits_for",
    "in_doubt",
    "in_doubt_age_seconds",
    "freshness_seconds",
    "last_error",
    "writer",
    "stage",
    "hint",
    "options",
    "next",
]


@pytest.fixture
def migrated(site: Site) -> Site:
    """A site with a ledger."""
    assert site.surelane("migrate").status == 0
    return site


def send(site: Site, count: int) -> None:
    producer = Producer({"bootstrap.servers": site.kafka.bootstrap})
    for _ in range(count):
        producer.produce(site.topic, b"x")
    producer.flush()


def applied(site: Site, end: int, *, epoch: int = 0, lane: str = "orders", partition: int = 0) -> None:
    """As if an epoch up to `end` had been applied."""
    offsets = Offsets.of({TopicPartition(site.topic, partition): end})
    record = EpochRecord(
        lane=lane, generation=1, epoch=epoch, span=Span(start=offsets, end=offsets), counts=Counts(consumed=0)
    )
    ledger = Ledger("surelane", lane)
    with site.engine.begin() as connection:
        if ledger.lane_row(connection) is None:
            generation = ledger.claim(connection, checkpoint="c", delivery="two-phase", at_least=0).generation
            ledger.activate(connection, generation, "c")
        ledger.record(connection, record)


def said(site: Site, state: str, error: str | None = None, lane: str = "orders") -> None:
    with site.engine.begin() as connection:
        Ledger("surelane", lane).set_state(connection, state, error)


def test_a_lane_that_never_started(migrated: Site) -> None:
    send(migrated, 3)
    ended = migrated.surelane("status", "--json")
    assert ended.status == 0
    assert list(ended.json) == KEYS
    assert ended.json["state"] == "stopped"
    assert ended.json["generation"] is None
    assert ended.json["position"] == {}
    assert ended.json["lag_messages"] == 3
    assert ended.json["lag_seconds"] > 0
    assert ended.json["pause"] is None
    assert ended.json["table_pauses"] == []
    assert ended.json["waits_for"] is None
    assert [one["command"].split(" --config")[0] for one in ended.json["next"]] == ["surelane run"]


def test_a_pause(migrated: Site) -> None:
    placed = migrated.surelane("pause", "--reason", "REINDEX", "--json").json
    found = migrated.surelane("status", "--json").json
    assert (found["state"], found["pause"]) == ("stopped", placed["pause"])
    assert found["pause"]["reason"] == "REINDEX"
    assert f"paused by {found['pause']['by']}" in migrated.surelane("status").out


def test_a_pause_of_a_table(migrated: Site) -> None:
    placed = migrated.surelane("pause", "--table", "public.orders", "--json").json["pause"]
    found = migrated.surelane("status", "--json").json
    assert found["table_pauses"] == [{**placed, "parked": 0}]
    assert "public.orders: paused by" in migrated.surelane("status").out


def test_before_the_migration(site: Site) -> None:
    ended = site.surelane("status")
    assert ended.status == 9
    assert "surelane migrate" in ended.err


def test_position_and_lag(migrated: Site) -> None:
    send(migrated, 5)
    applied(migrated, 2, epoch=7)
    found = migrated.surelane("status", "--json").json
    assert (found["generation"], found["epoch"]) == (1, 7)
    assert (found["writer"]["host"], found["writer"]["pid"]) == (socket.gethostname(), os.getpid())
    assert (found["writer"]["backend"], found["writer"]["client"]) == (None, None)
    assert found["position"] == {migrated.topic: {"0": 2}}
    assert found["lag_messages"] == 3
    applied(migrated, 5, epoch=8)
    found = migrated.surelane("status", "--json").json
    assert (found["lag_messages"], found["lag_seconds"]) == (0, 0)
    assert "caught up" in migrated.surelane("status").out


def test_started_and_nothing_applied(migrated: Site) -> None:
    applied(migrated, 0, epoch=GENESIS)
    assert migrated.surelane("status", "--json").json["epoch"] is None


def test_running_only_while_the_lock_is_held(migrated: Site) -> None:
    def state() -> str:
        return migrated.surelane("status", "--json").json["state"]

    said(migrated, "running")
    with migrated.engine.connect() as connection:
        assert try_lock(connection, "orders")
        connection.commit()
        assert state() == "running"
        writer = migrated.surelane("status", "--json").json["writer"]
        assert (writer["backend"], writer["client"]) == (lock_holder(connection, "orders"), "127.0.0.1")
        assert f"backend {writer['backend']} from 127.0.0.1 holds the lane's lock" in migrated.surelane("status").out
        said(migrated, "stopped")
        assert state() == "starting", "a new writer has not spoken yet"
        said(migrated, "running")
    ended = migrated.surelane("status", "--json").json
    assert ended["state"] == "failed"
    assert "without a word" in ended["last_error"]
    said(migrated, "stopped")
    assert state() == "stopped"


def test_the_last_error(migrated: Site) -> None:
    said(migrated, "failed", "no table shop.orders")
    found = migrated.surelane("status", "--json").json
    assert (found["state"], found["last_error"]) == ("failed", "no table shop.orders")


def test_in_doubt_shows_this_lane_s_only(migrated: Site) -> None:
    for gid in ("surelane:orders:1:3", "surelane:other:1:3", "another program's"):
        quoted = gid.replace("'", "''")
        migrated.execute(f"begin; select 1; prepare transaction '{quoted}'")
    try:
        assert migrated.surelane("status", "--json").json["in_doubt"] == ["surelane:orders:1:3"]
    finally:
        for (gid,) in migrated.execute(
            "select quote_literal(gid) from pg_prepared_xacts where database = current_database()"
        ):
            migrated.execute(f"rollback prepared {gid}")


def test_kafka_away(migrated: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kafka.broker.REQUEST_TIMEOUT_SECONDS", 1.0)
    applied(migrated, 2, epoch=7)
    migrated.configure(source={"bootstrap_servers": "127.0.0.1:1"})
    ended = migrated.surelane("status", "--json")
    assert ended.status == 0
    assert ended.json["epoch"] == 7
    assert (ended.json["lag_messages"], ended.json["lag_seconds"]) == (None, None)
    assert "the lag is not known" in ended.err


def test_target_away(migrated: Site) -> None:
    migrated.configure(target={"url": "postgresql://me:hunter2@127.0.0.1:1/shop"})
    ended = migrated.surelane("status")
    assert ended.status == 4
    assert "hunter2" not in ended.err


def test_a_lane_for_each_partition(migrated: Site) -> None:
    applied(migrated, 0, epoch=3, lane="orders.0")
    applied(migrated, 0, epoch=4, lane="orders.1", partition=1)
    applied(migrated, 0, epoch=9, lane="orders2.0")
    said(migrated, "failed", "why", lane="orders.1")
    migrated.configure(source={"order": "partition"})
    found = migrated.surelane("status", "--json").json
    assert (found["state"], found["epoch"], found["last_error"]) == ("failed", 4, "orders.1: why")
    assert found["position"] == {migrated.topic: {"0": 0, "1": 0}}
    assert [lane["lane"] for lane in found["lanes"]] == ["orders.0", "orders.1"]
    assert "orders.1" in migrated.surelane("status").out


def test_migrate_says_what_it_did(site: Site) -> None:
    first, second = (site.surelane("migrate", "--json").json for _ in range(2))
    assert first["before"] is None
    assert first["after"] == second["before"] == second["after"]
