"""The doctor: every fault in one run, each with what to do, and nothing changed."""

import json
import uuid
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from app.cli.doctor_checks.finding import Level
from app.cli.doctor_checks.kafka_check import order
from app.cli.doctor_checks.snapshot_check import snapshots
from app.cli.doctor_checks.target_check import migrations, prepared_slots
from app.cli.doctor_checks.timeout_check import timeouts
from app.config.loader import load
from app.config.settings import Order
from app.kafka.broker import TopicInfo
from app.ledger.store import Ledger
from app.model.epoch import EpochRecord
from app.model.offsets import Offsets, Span, TopicPartition
from tests.commands import Ended
from tests.fix_cli import Site
from tests.fix_doubt import EPOCH
from tests.fix_recover import configure, forget
from tests.fix_snapshot import Snapshotting
from tests.fix_topic import Topic
from tests.waiting import eventually
from tools.devstack import Kafka
from tools.devstack.roles import LOGIN, OWNER

TABLE = "create table public.orders (id int primary key, name text)"


def levels(ended: Ended) -> dict[str, str]:
    """The worst level of each check."""
    rank = ["ok", "warn", "fault"]
    worst: dict[str, str] = {}
    for finding in ended.json["findings"]:
        worst[finding["check"]] = max(worst.get(finding["check"], "ok"), finding["level"], key=rank.index)
    return worst


def finding(ended: Ended, check: str) -> str:
    """Message and hint of a check's findings."""
    found = [one for one in ended.json["findings"] if one["check"] == check]
    return "\n".join(f"{one['message']} -> {one['hint']}" for one in found)


@pytest.fixture
def healthy(site: Site) -> Site:
    """Everything as it should be."""
    site.surelane("migrate")
    site.execute(TABLE)
    return site


def test_nothing_wrong(healthy: Site) -> None:
    ended = healthy.surelane("doctor", "--json")
    assert ended.status == 0, ended.out
    assert ended.json["faults"] == 0
    assert set(levels(ended).values()) == {"ok"}
    assert "faults: 0" in healthy.surelane("doctor").out


def test_every_fault_in_one_run(site: Site) -> None:
    topic = f"{site.topic}.two"
    site.kafka.create_topic(topic, 2, retention_ms="3600000")
    role = f"owner_{uuid.uuid4().hex[:8]}"
    site.execute(f"create role {role}")
    site.execute("create table keyless (id int)")
    (site.folder / "file").touch()
    site.configure(
        source={"topics": [topic, site.topic]},
        epoch={"max_held_messages": 0},
        target={"owner_role": role, "tables": {"public.gone": "public.gone", "public.*": "public.*"}},
        checkpoint=str(site.folder / "file" / "checkpoint"),  # pyright: ignore[reportArgumentType]
    )
    ended = site.surelane("doctor", "--json")
    assert ended.status == 10
    found = levels(ended)
    for check in ("checkpoint", "order", "owner_role", "migrations", "tables", "privileges"):
        assert found[check] == "fault", check
    assert found["retention"] == "warn"
    assert f"{topic} has 2 partitions" in finding(ended, "order")
    assert "across epochs only the order within each topic" in finding(ended, "order")
    assert f'GRANT "{role}" TO "{LOGIN}"' in finding(ended, "owner_role")
    assert "surelane migrate" in finding(ended, "migrations")
    assert "public.gone" in finding(ended, "tables")
    assert "without a primary key: public.keyless" in finding(ended, "tables")
    assert "public.keyless (select, insert, update, delete)" in finding(ended, "privileges")
    assert all(one["hint"] for one in ended.json["findings"] if one["level"] != "ok"), "each says what to do"


def test_rights_that_are_too_many_or_too_few(healthy: Site) -> None:
    healthy.configure(target={"schema_evolution": "add-columns"})
    ended = healthy.surelane("doctor", "--json")
    assert (ended.status, levels(ended)["privileges"]) == (0, "warn")
    assert "does not own public.orders" in finding(ended, "privileges")
    healthy.execute(f"alter table public.orders owner to {OWNER}")
    assert set(levels(healthy.surelane("doctor", "--json")).values()) == {"ok"}
    healthy.configure(target={"url": healthy.target.url(healthy.database), "owner_role": None})
    ended = healthy.surelane("doctor", "--json")
    assert (ended.status, levels(ended)["privileges"]) == (0, "warn")
    assert "postgres is a superuser" in finding(ended, "privileges")


def test_rows_that_are_taken_apart(healthy: Site) -> None:
    """Many short values together are too long for a row as it is kept; one long value in a few pieces is nothing."""
    wide, values = [f"c{n} text" for n in range(100)], ["repeat(md5(id::text), 1)"] * 100
    healthy.execute(f"create table public.wide (id int primary key, {', '.join(wide)}) partition by range (id)")
    healthy.execute('create table public."Wide one" partition of public.wide for values from (0) to (10000)')
    healthy.execute(f"insert into public.wide select id, {', '.join(values)} from generate_series(1, 1500) id")
    healthy.execute("create table public.long (id int primary key, v text)")
    healthy.execute("alter table public.long alter column v set storage external")
    healthy.execute("insert into public.long select id, repeat('x', 9000) from generate_series(1, 1500) id")
    healthy.execute(f"grant all on public.wide, public.long to {OWNER}")
    healthy.execute('vacuum analyze public."Wide one", public.long')
    healthy.configure(target={"tables": {"public.wide": "public.wide", "public.long": "public.long"}})
    ended = healthy.surelane("doctor", "--json")
    assert (ended.status, levels(ended)["long rows"]) == (0, "warn")
    shown = finding(ended, "long rows")
    assert ('public."Wide one"' in shown, "public.long" in shown) == (True, False)
    healthy.execute(shown.partition(" -> ")[2].partition(";")[0])
    assert "long rows" not in levels(healthy.surelane("doctor", "--json"))


def test_nothing_is_changed(site: Site) -> None:
    site.surelane("doctor")
    assert not Path("var").exists()
    assert site.execute("select from pg_class where relnamespace = 'surelane'::regnamespace") == []


def test_kafka_away_does_not_hide_the_target(healthy: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kafka.broker.REQUEST_TIMEOUT_SECONDS", 1.0)
    healthy.configure(source={"bootstrap_servers": "127.0.0.1:1"})
    ended = healthy.surelane("doctor", "--json")
    assert ended.status == 10
    assert levels(ended)["kafka"] == "fault"
    assert levels(ended)["migrations"] == "ok"


def test_target_away_does_not_hide_kafka(healthy: Site) -> None:
    healthy.configure(target={"url": "postgresql://me:hunter2@127.0.0.1:1/shop"})
    ended = healthy.surelane("doctor", "--json")
    assert ended.status == 10
    assert levels(ended)["target"] == "fault"
    assert levels(ended)["topics"] == "ok"
    assert "hunter2" not in ended.out + ended.err


def test_a_topic_that_is_not_there_yet(healthy: Site) -> None:
    healthy.configure(source={"topics": ["not-yet"]})
    ended = healthy.surelane("doctor", "--json")
    assert "not-yet" in finding(ended, "topics")
    assert "Debezium" in finding(ended, "topics")


def test_messages_that_kafka_no_longer_has(healthy: Site) -> None:
    end = Offsets.of({TopicPartition(healthy.topic, 0): 7})
    with healthy.engine.begin() as connection:
        record = EpochRecord(lane="orders", generation=1, epoch=0, span=Span(start=end, end=end))
        Ledger("surelane", "orders").record(connection, record)
    ended = healthy.surelane("doctor", "--json")
    assert "next is 7, Kafka has 0..0" in finding(ended, "position")
    producer = Producer({"bootstrap.servers": healthy.kafka.bootstrap})
    for _ in range(7):
        producer.produce(healthy.topic, b"x")
    producer.flush()
    assert levels(healthy.surelane("doctor", "--json"))["position"] == "ok"


def test_a_server_without_prepared_transactions() -> None:
    found = prepared_slots(0, 0)
    assert found.level is Level.FAULT
    assert "ALTER SYSTEM SET max_prepared_transactions" in str(found.hint)
    assert "parameter group" in str(found.hint)
    assert prepared_slots(8, 10).level is Level.WARN


def test_a_schema_of_a_newer_version() -> None:
    found = migrations("9999", "surelane")
    assert found.level is Level.FAULT
    assert "newer" in found.message


def test_a_lane_for_each_partition() -> None:
    several = {"a": TopicInfo(topic_id="x", partitions=3)}
    assert [one.level for one in order(Order.PARTITION, several, 0)] == [Level.WARN]
    assert [one.level for one in order(Order.TOTAL, several, 0)] == [Level.FAULT]


def test_foreign_keys_between_the_tables_of_several_topics(healthy: Site) -> None:
    """What may wait, and how far apart the topics are; with nothing to wait, what happens."""
    other = f"{healthy.topic}.items"
    healthy.kafka.create_topic(other, 1)
    healthy.configure(source={"topics": [healthy.topic, other]})
    assert "foreign keys" not in levels(healthy.surelane("doctor", "--json"))
    healthy.execute("create table public.items (id int primary key, orders int references orders)")
    shown = finding(healthy.surelane("doctor", "--json"), "foreign keys")
    assert "public.items -> public.orders" in shown
    assert "500000 messages at most (epoch.max_held_messages)" in shown
    producer, begin = Producer({"bootstrap.servers": healthy.kafka.bootstrap, "log_level": 0}), 1_700_000_000_000
    for topic, hours in ((healthy.topic, 0), (other, 3)):
        producer.produce(topic, b"{}", timestamp=begin + hours * 3_600_000)
    producer.flush(30)
    start = Offsets.of({TopicPartition(topic, 0): 0 for topic in (healthy.topic, other)})
    with healthy.engine.begin() as connection:
        record = EpochRecord(lane="orders", generation=1, epoch=0, span=Span(start=start, end=start))
        Ledger("surelane", "orders").record(connection, record)
    assert f"{other}[0] is 3.0 h younger than that of {healthy.topic}[0]" in finding(
        healthy.surelane("doctor", "--json"), "foreign keys"
    )
    healthy.configure(source={"topics": [healthy.topic, other]}, epoch={"max_held_messages": 0})
    ended = healthy.surelane("doctor", "--json")
    assert (ended.status, levels(ended)["foreign keys"], levels(ended)["order"]) == (0, "warn", "warn")
    assert "goes into quarantine" in finding(ended, "foreign keys")


def test_the_dead_letter_topic(healthy: Site) -> None:
    """The lane runs without it: what is amiss is a warning, an option that is unknown a fault."""
    topic = f"{healthy.topic}.dead"
    healthy.configure(guard={"dead_letter": {"topic": topic}})
    ended = healthy.surelane("doctor", "--json")
    assert (ended.status, levels(ended)["dead_letter"]) == (0, "warn")
    assert f"--create --topic {topic}" in finding(ended, "dead_letter")
    healthy.kafka.create_topic(topic)
    assert levels(healthy.surelane("doctor", "--json"))["dead_letter"] == "ok"
    healthy.configure(guard={"dead_letter": {"topic": topic, "options": {"compresion.type": "zstd"}}})
    ended = healthy.surelane("doctor", "--json")
    assert (ended.status, levels(ended)["dead_letter"]) == (10, "fault")
    assert "compresion.type" in finding(ended, "dead_letter")
    healthy.kafka.create_topic(f"{topic}.2", cleanup_policy="compact")
    healthy.configure(guard={"dead_letter": {"topic": f"{topic}.2"}})
    assert "cleanup.policy=delete" in finding(healthy.surelane("doctor", "--json"), "dead_letter")


def test_the_snapshots(
    snapshotting: Snapshotting, made_up: Topic, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warnings, since the lane runs without: none, one that is too old, one that leads nowhere, a damaged one."""

    def found() -> dict[Level, str]:
        return {one.level: f"{one.message} -> {one.hint}" for one in snapshots(load())}

    def keep(**more: int) -> None:
        """Kafka keeps messages for so long."""
        milliseconds = str(int(timedelta(**more).total_seconds() * 1000))
        entry = ConfigEntry("retention.ms", milliseconds, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, made_up.name, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for done in admin.incremental_alter_configs([resource]).values():
            done.result()

    keep(days=30)
    assert "there is none of lane orders" in found()[Level.WARN]
    snapshotting.json("create", "--name", "one")
    assert "h old; Kafka keeps what came after it for 30.0 days more" in found()[Level.OK]
    keep(hours=5)
    eventually(lambda: "h more -> surelane snapshot create" in found().get(Level.WARN, ""), why="the topic's setting")
    keep(days=30)
    eventually(lambda: Level.OK in found(), why="the topic's setting")
    manifest = snapshotting.directory / "one" / "manifest.json"
    shown = json.loads(manifest.read_text())
    shown["made_at"] = (datetime.fromisoformat(shown["made_at"]) - timedelta(days=8)).isoformat()
    manifest.write_text(json.dumps(shown))
    assert f"one, is 8.0 days old: up to {EPOCH} messages would be replayed" in found()[Level.WARN]
    forget(kafka, made_up.name, EPOCH + 1)
    assert (
        f"does not lead back any more: Kafka has forgotten what came after it ({made_up.name}[0] begins at"
        in (found()[Level.WARN])
    )
    monkeypatch.setattr("app.kafka.broker.REQUEST_TIMEOUT_SECONDS", 1.0)
    configure(snapshotting, source={"bootstrap_servers": "127.0.0.1:1", "topics": [made_up.name]})
    assert "whether one leads back is not known" in found()[Level.WARN]
    manifest.write_text("{")
    assert "one cannot be used" in str(snapshots(load())[0])
    configure(snapshotting, lane="other", snapshots={"directory": str(snapshotting.folder / "nowhere")})
    assert "there is none of lane other" in found()[Level.WARN]


def test_no_finding_of_snapshots_that_are_not_configured(healthy: Site) -> None:
    assert "snapshots" not in levels(healthy.surelane("doctor", "--json"))
    healthy.configure(snapshots={"driver": "dump"})
    ended = healthy.surelane("doctor", "--json")
    assert (ended.status, levels(ended)["snapshots"]) == (0, "warn")


def test_limits_of_time_that_the_role_has_are_shown_and_overridden(healthy: Site) -> None:
    healthy.execute(f"alter role {LOGIN} in database \"{healthy.database}\" set statement_timeout = '500ms'")
    healthy.execute(f"alter database \"{healthy.database}\" set lock_timeout = '1s'")
    ended = healthy.surelane("doctor", "--json")
    assert levels(ended)["timeouts"] == "ok"
    for words in (
        f"statement_timeout = 500ms (role {LOGIN} in database {healthy.database})",
        f"lock_timeout = 1s (database {healthy.database})",
        "whatever role and database set",
    ):
        assert words in finding(ended, "timeouts")


def test_a_session_that_does_not_keep_its_limits_of_time_is_worth_a_warning(healthy: Site) -> None:
    with healthy.engine.connect() as connection:
        assert timeouts(connection).level is Level.OK
        connection.exec_driver_sql("set statement_timeout = '5s'")
        found = timeouts(connection)
    assert found.level is Level.WARN
    assert "statement_timeout is 5s, not 0" in found.message
    assert "ALTER ROLE" in str(found.hint)


def test_what_the_tables_may_do_to_changes_by_themselves(healthy: Site) -> None:
    healthy.execute("create function public.stamp() returns trigger language plpgsql as 'begin return new; end'")
    for when, name in (("before", "last_update"), ("after", "audit")):
        healthy.execute(
            f"create trigger {name} {when} update on public.orders for each row execute function public.stamp()"
        )
    healthy.execute("create rule keeps as on delete to public.orders do instead nothing")
    healthy.execute("alter table public.orders enable row level security")
    ended = healthy.surelane("doctor", "--json")
    assert ended.status == 10
    found = levels(ended)
    assert (found["row security"], found["triggers"], found["rules"]) == ("fault", "warn", "warn")
    shown = [line["message"] + line["hint"] for line in ended.json["findings"] if line["check"] == "triggers"]
    assert ["last_update of public.orders" in one for one in shown] == [True, False]
    assert ["audit of public.orders" in one for one in shown] == [False, True]
    assert all(f'ALTER ROLE "{LOGIN}" SET session_replication_role = replica' in one for one in shown)
    assert f'ALTER ROLE "{OWNER}" BYPASSRLS' in finding(ended, "row security")
    try:
        healthy.execute(f"alter role {LOGIN} set session_replication_role = replica")
        healthy.execute(f"alter role {OWNER} bypassrls")
        assert set(levels(healthy.surelane("doctor", "--json")).values()) == {"ok"}
    finally:
        healthy.execute(f"alter role {LOGIN} reset session_replication_role")
        healthy.execute(f"alter role {OWNER} nobypassrls")
