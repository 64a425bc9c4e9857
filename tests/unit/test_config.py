"""The settings: every fault in one go, environment over file, and no password anywhere."""

from datetime import timedelta
from pathlib import Path

import pytest

from app.config.loader import load
from app.config.on_skip import OnSkip, SkipPolicy
from app.config.settings import (
    BreakerSettings,
    Commit,
    CommitMode,
    FailureRate,
    FixedDelay,
    Order,
    Settings,
    StartAt,
    Strategy,
)
from app.errors import ConfigInvalid
from app.model.offsets import Offsets, TopicPartition

SECRET = "hunter2"
SMALL = f"""
lane: orders
source: {{bootstrap_servers: "127.0.0.1:9092", topics: [shop.cdc]}}
target: {{url: "postgresql://surelane:{SECRET}@127.0.0.1:5432/shop"}}
"""


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SURELANE_LANE", "SURELANE_COMMIT", "SURELANE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def loaded(text: str) -> Settings:
    Path("surelane.yaml").write_text(text)
    return load()


def faults(text: str) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        loaded(text)
    return str(caught.value)


def with_source(more: str) -> str:
    return SMALL.replace("topics: [shop.cdc]", more)


def test_three_keys_are_enough(tmp_path: Path) -> None:
    settings = loaded(SMALL)
    assert settings.source.topics == ("shop.cdc",)
    assert settings.source.start is StartAt.EARLIEST
    assert settings.target.db_schema == "surelane"
    assert settings.target.tables == {"public.*": "public.*"}
    assert settings.mode is CommitMode.TWO_PHASE
    assert settings.checkpoint == str(tmp_path / "var/checkpoints/orders")
    assert settings.epoch.max_messages == 100_000


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", False),
        ("commit: ledger", True),
        ("delivery: at-least-once", True),
        ("commit: ledger\narchive: {path: /archive}", False),
        ("commit: ledger\nepoch: {trigger: 1 second}", False),
        ("commit: ledger\nlimits: {messages_per_second: 1000}", False),
        ("commit: ledger\nepoch: {trigger: 0 milliseconds}", True),
    ],
)
def test_which_lanes_go_ahead_of_the_checkpoint(more: str, expected: bool) -> None:
    assert loaded(SMALL + more).goes_ahead is expected
    by_partition = with_source("topics: [shop.cdc], order: partition")
    if "commit" in more or "delivery" in more:
        assert not loaded(by_partition + more).goes_ahead
        assert not loaded(with_source('topic_pattern: "shop-.*"') + more).goes_ahead


def test_the_url_takes_the_driver_we_use() -> None:
    url = loaded(SMALL).target.url
    assert url.drivername == "postgresql+psycopg2"
    assert url.password == SECRET


def test_no_password_in_a_repr() -> None:
    text = SMALL.replace("shop.cdc]", f"shop.cdc], options: {{kafka.sasl.jaas.config: 'x password={SECRET}'}}")
    assert SECRET not in repr(loaded(text))
    assert SECRET not in repr(loaded(SMALL.replace("/shop", f"/shop?password={SECRET}")))


@pytest.mark.parametrize("url", [f"mysql://a:{SECRET}@h/d", f"not a url {SECRET}", f"postgresql://a:{SECRET}@h"])
def test_no_password_in_a_fault(url: str) -> None:
    message = faults(SMALL.replace(f"postgresql://surelane:{SECRET}@127.0.0.1:5432/shop", url))
    assert "target.url" in message
    assert SECRET not in message


@pytest.mark.parametrize("text", [f"target: {{url: '{SECRET}\n", f"target: {{url: *{SECRET}}}", f"x: @{SECRET}"])
def test_no_password_in_a_fault_of_the_file_itself(text: str) -> None:
    message = faults(text)
    assert "line 1" in message or "line 2" in message
    assert SECRET not in message


def test_all_faults_in_one_go() -> None:
    message = faults("""
        lane: Orders
        source: {bootstrap_servers: localhost, topics: [a], topic_pattern: b, topicz: 1, start: {a: 7}}
        target: {url: nonsense, unknown_table: perhaps}
        delivery: at-least-once
        commit: sometimes
        epoch: {max_messages: 0, trigger: soon}
        metricz: {}
    """)
    for path in (
        "lane:",
        "source.bootstrap_servers:",
        "source.topic_pattern:",
        "source.topicz:",
        "source.start:",
        "target.url:",
        "target.unknown_table:",
        "commit:",
        "epoch.max_messages:",
        "epoch.trigger:",
        "metricz:",
    ):
        assert f"\n  {path}" in message
    assert "11 faults" in message
    assert "did you mean source.topics?" in message
    assert "did you mean metrics?" in message


def test_missing_keys_say_what_to_add() -> None:
    message = faults("{}")
    assert "lane: missing" in message
    assert "source.bootstrap_servers: missing" in message
    assert "target.url: missing" in message
    assert "add url: postgresql+psycopg2://" in message
    assert "topics: [shop.cdc]" in message


def test_missing_file_says_how_to_make_one() -> None:
    with pytest.raises(ConfigInvalid, match=r"surelane\.yaml") as caught:
        load()
    assert "ops/surelane.yaml" in str(caught.value)


@pytest.mark.parametrize("text", ["- a list", "lane: [", "\tlane: x"])
def test_a_file_that_is_no_map(text: str) -> None:
    assert "surelane.yaml" in faults(text)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("topics: []", "neither source.topics nor source.topic_pattern"),
        ("topics: [a], topic_pattern: b", "both given"),
        ("topic_pattern: 'a('", "not a regular expression"),
        ("topics: [a, b], order: partition", "exactly one topic"),
        ("topic_pattern: a, order: partition", "exactly one topic"),
        ("topics: [a], start: {a: {0: -1}}", "none negative"),
        ("topics: [a], start: {b: {0: 1}}", "source.topics does not name"),
        ("topics: [a], start: sometime", "source.start"),
        ("topics: [a], options: {max.poll.records: 1}", "did you mean kafka.max.poll.records?"),
        ("topics: [a], options: {kafka.isolation.level: read_uncommitted}", "set by Surelane itself"),
        ("topics: [a], format: avro", "source.format"),
    ],
)
def test_faults_of_the_source(more: str, fault: str) -> None:
    assert fault in faults(with_source(more))


@pytest.mark.parametrize("name", ["Orders", "1orders", "or ders", "a" * 64, "orders:1"])
def test_lane_name_must_fit_a_gid(name: str) -> None:
    assert "prepared transactions" in faults(SMALL.replace("lane: orders", f'lane: "{name}"'))


def test_start_offsets() -> None:
    settings = loaded(with_source("topics: [a], start: {a: {0: 5, 1: 6}}"))
    assert settings.source.start == Offsets.of({TopicPartition("a", 0): 5, TopicPartition("a", 1): 6})


def test_option_values_become_text() -> None:
    options = loaded(with_source("topics: [a], options: {kafka.max.poll.records: 5, kafka.x: true}")).source.options
    assert options == {"kafka.max.poll.records": "5", "kafka.x": "true"}


@pytest.mark.parametrize("place", ["s3a://bucket/a", "s3://bucket/a", "S3N://bucket/a"])
def test_a_checkpoint_in_an_object_store_is_refused(place: str) -> None:
    found = faults(f"{SMALL}\ncheckpoint: {place}")
    assert "checkpoint" in found
    assert "no atomic rename" in found
    assert "EFS" in found


@pytest.mark.parametrize("place", ["hdfs://h/a", "file:///a", "/a/b"])
def test_checkpoint_urls_and_absolute_paths_stay(place: str) -> None:
    assert loaded(f"{SMALL}\ncheckpoint: {place}").checkpoint == place


def test_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_SOURCE__TOPICS", "a, b")
    monkeypatch.setenv("SURELANE_TARGET__SCHEMA", "own")
    monkeypatch.setenv("SURELANE_TARGET__TABLES", '{"x.*": "y.*"}')
    monkeypatch.setenv("SURELANE_COMMIT", "ledger")
    monkeypatch.setenv("SURELANE_METRICS__PORT", "null")
    monkeypatch.setenv("SURELANE_EPOCH__MAX_MESSAGES", "7")
    settings = loaded(SMALL)
    assert settings.source.topics == ("a", "b")
    assert settings.source.bootstrap_servers == "127.0.0.1:9092"
    assert settings.target.db_schema == "own"
    assert settings.target.tables == {"x.*": "y.*"}, "a value is replaced as a whole"
    assert settings.commit is Commit.LEDGER
    assert settings.metrics.port is None
    assert settings.epoch.max_messages == 7


def test_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_SOURCE__TOPICS", '["a"]')
    monkeypatch.setenv("SURELANE_SOURCE__START", '{"a": {"0": 3}}')
    monkeypatch.setenv("SURELANE_EPOCH", '{"max_messages": 3}')
    settings = loaded(SMALL)
    assert settings.source.start == Offsets.of({TopicPartition("a", 0): 3})
    assert settings.epoch.max_messages == 3


def test_faults_of_the_environment_name_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_SOURCE__TOPIC", "a")
    monkeypatch.setenv("SURELANE_SORCE__TOPICS", "a")
    monkeypatch.setenv("SURELANE_DELIVRY", "exactly-once")
    monkeypatch.setenv("SURELANE_EPOCH__MAX_MESSAGES", "many")
    monkeypatch.setenv("SURELANE_CACHE", "/somewhere")
    message = faults(SMALL)
    assert "(from SURELANE_SOURCE__TOPIC)" in message
    assert "did you mean SURELANE_SOURCE__TOPICS?" in message
    assert "did you mean SURELANE_DELIVERY?" in message
    assert "(from SURELANE_EPOCH__MAX_MESSAGES)" in message
    assert "CACHE" not in message


def test_settings_made_in_code_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_LANE", "other")
    source = {"bootstrap_servers": "h:1", "topics": ["a"]}
    raw = {"lane": "orders", "source": source, "target": {"url": "postgresql://h/d"}}
    assert Settings.of(raw).lane == "orders"


def test_what_follows_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections in a section are merged key by key, too."""
    monkeypatch.setenv("SURELANE_RESTART__FIXED_DELAY__ATTEMPTS", "7")
    monkeypatch.setenv("SURELANE_RESTART__STRATEGY", "fixed-delay")
    restart = loaded(SMALL + 'restart: {fixed_delay: {delay: "2 minutes"}, failure_rate: null}').restart
    assert restart.strategy is Strategy.FIXED_DELAY
    assert restart.fixed_delay == FixedDelay(attempts=7, delay=timedelta(minutes=2))
    assert restart.failure_rate == FailureRate()
    assert loaded(SMALL).guard.message_timeout == timedelta(seconds=60)


def test_faults_of_restart_come_with_path_and_hint() -> None:
    message = faults(
        f"""{SMALL}
        restart:
          strategy: sometimes
          fixed_delay: {{attempts: -1, delay: 5}}
          exponential_delay: {{initial_backoff: "5 seconds", max_backoff: "1 second", jitter_factor: 2, atempts: 1}}
          failure_rate: {{failure_rate_interval: "0 seconds"}}
        guard: {{message_timeout: forever}}
    """.replace("\n        ", "\n")
    )
    for path in (
        "restart.strategy:",
        "restart.fixed_delay.attempts:",
        "restart.fixed_delay.delay: '5' is not a length of time",
        "restart.exponential_delay.max_backoff: shorter than initial_backoff",
        "restart.exponential_delay.jitter_factor:",
        "restart.exponential_delay.atempts: unknown key\n      did you mean restart.exponential_delay.attempts?",
        "restart.failure_rate.failure_rate_interval: no time at all",
        "guard.message_timeout: 'forever' is not a length of time\n      write it like",
    ):
        assert f"\n  {path}" in message
    assert "8 faults" in message


def test_keys_of_earlier_versions_say_what_there_is_now() -> None:
    gone = "epoch: {min_partitions: 4}\ntransform: {function: rules.shop:clean, where: driver}\n"
    message = faults(with_source("topics: [shop.cdc], decode: driver") + gone)
    for key in ("source.decode", "transform.where", "epoch.min_partitions"):
        assert f"\n  {key}: this key is gone\n      take it out: " in message


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ("delivery: at-least-once", CommitMode.AT_LEAST_ONCE),
        ("delivery: at-least-once\ncommit: two-phase", CommitMode.AT_LEAST_ONCE),
        ("delivery: exactly-once", CommitMode.TWO_PHASE),
        ("commit: two-phase", CommitMode.TWO_PHASE),
        ("commit: ledger", CommitMode.LEDGER),
    ],
)
def test_mode(more: str, mode: CommitMode) -> None:
    assert loaded(f"{SMALL}\n{more}").mode is mode


def test_one_lane_for_each_partition() -> None:
    assert loaded(with_source("topics: [a], order: partition")).source.order is Order.PARTITION


def test_rollups_of_lanes_that_prepare_side_by_side() -> None:
    """What one lane of an epoch has prepared would keep the others waiting."""
    kept = "rollups: {r: {of: public.orders, table: reports.r, by: [id], aggregates: {n: count}}}"
    by_partition = with_source("topics: [a], order: partition") + kept
    assert "order: partition and commit: two-phase" in faults(by_partition)
    for fits in ("commit: ledger", "delivery: at-least-once"):
        assert set(loaded(f"{by_partition}\n{fits}\n").rollups) == {"r"}
    assert set(loaded(SMALL + kept).rollups) == {"r"}


def test_columns_that_are_hidden() -> None:
    text = SMALL + 'guard: {redact: ["public.customers.email", "*.ssn"]}'
    assert loaded(text).guard.redact == ("public.customers.email", "*.ssn")
    assert loaded(SMALL).guard.redact == ()
    message = faults(SMALL + "guard: {redact: [email]}")
    assert "guard.redact: 'email' is not a source schema.table.column" in message
    assert "*.email" in message


def test_columns_that_are_hidden_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_GUARD__REDACT", "public.customers.email,*.ssn")
    assert loaded(SMALL).guard.redact == ("public.customers.email", "*.ssn")


def with_guard(more: str) -> str:
    return f"{SMALL}\nguard: {{{more}}}\n"


def test_what_follows_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = loaded(with_guard('on_skip: park, on_skip_tables: {"public.a*": stop, "*.*": continue}')).guard
    policy = SkipPolicy(guard.on_skip, guard.on_skip_tables)
    found = [policy.of(*table) for table in (("public", "accounts"), ("public", "b"), (None, None))]
    assert found == [OnSkip.STOP, OnSkip.CONTINUE, OnSkip.PARK]
    monkeypatch.setenv("SURELANE_GUARD__ON_SKIP_TABLES", '{"public.b": "park"}')
    assert load().guard.on_skip_tables == {"public.b": OnSkip.PARK}


def test_a_breaker_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(SMALL).guard.breaker == BreakerSettings(messages=100, minutes=10)
    assert loaded(with_guard("breaker: {messages: 5}")).guard.breaker == BreakerSettings(messages=5, minutes=10)
    assert loaded(with_guard("breaker: null")).guard.breaker is None
    monkeypatch.setenv("SURELANE_GUARD__BREAKER", '{"messages": 7, "minutes": 0.5}')
    assert load().guard.breaker == BreakerSettings(messages=7, minutes=0.5)


def test_faults_of_the_guard() -> None:
    text = faults(with_guard("on_skip_tables: {orders: park}, max_parked_keys: 0, breaker: {messages: 0, minutes: -1}"))
    for part in ("'orders' is not a source schema.table", "max_parked_keys", "breaker.messages", "breaker.minutes"):
        assert part in text


DEAD_LETTER = "guard: {dead_letter: {topic: shop.dead%s}}"


def test_a_dead_letter_topic() -> None:
    assert loaded(SMALL).guard.dead_letter is None
    options = f", options: {{linger.ms: 5, sasl.password: {SECRET}}}"
    dead_letter = loaded(SMALL + DEAD_LETTER % options).guard.dead_letter
    assert dead_letter is not None
    assert (dead_letter.topic, dead_letter.options) == ("shop.dead", {"linger.ms": "5", "sasl.password": SECRET})
    assert SECRET not in repr(dead_letter)


def test_a_dead_letter_topic_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_GUARD__DEAD_LETTER", '{"topic": "shop.dead"}')
    dead_letter = loaded(SMALL).guard.dead_letter
    assert dead_letter is not None
    assert dead_letter.topic == "shop.dead"


@pytest.mark.parametrize("read", ["topics: [shop.cdc, shop.dead]", "topic_pattern: 'shop[.].*'"])
def test_dead_letters_are_not_read(read: str) -> None:
    found = faults(with_source(read) + DEAD_LETTER % "")
    assert "the lane reads guard.dead_letter.topic: shop.dead" in found
    assert loaded(with_source("topic_pattern: 'shop[.]d'") + DEAD_LETTER % "").guard.dead_letter


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{topic: 'a b'}", "cannot name a topic"),
        ("{topic: '..'}", "cannot name a topic"),
        ("{}", "missing"),
        ("{topic: a, options: {acks: 1}}", "acks is set by Surelane itself"),
        ("{topic: a, options: {bootstrap.servers: h}}", "bootstrap.servers is set by Surelane itself"),
        ("{topic: a, options: {kafka.linger.ms: 1}}", "did you mean linger.ms?"),
    ],
)
def test_faults_of_a_dead_letter_topic(section: str, problem: str) -> None:
    assert problem in faults(SMALL + f"guard: {{dead_letter: {section}}}")


def test_the_connectors_modes_have_debeziums_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_SOURCE__MODES__BINARY", "base64-url-safe")
    modes = loaded(with_source("topics: [shop.cdc], modes: {time_precision: isostring}")).source.modes
    assert (modes.decimal, modes.time_precision, modes.binary) == ("string", "isostring", "base64-url-safe")
    text = faults(with_source("topics: [shop.cdc], modes: {decimal: exact, hstore: map}"))
    assert "source.modes.decimal" in text
    assert "source.modes.hstore" in text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://backups/lanes?region=eu-central-1", "s3://backups/lanes?region=eu-central-1"),
        ("gs://backups", "gs://backups"),
        ("hdfs://namenode:8020/lanes?user=surelane", "hdfs://namenode:8020/lanes?user=surelane"),
        ("file:///var/lib/a%20b", "/var/lib/a b"),
        ("/var/lib/10:30/c", "/var/lib/10:30/c"),
    ],
)
def test_places_of_savepoints(text: str, place: str) -> None:
    assert loaded(SMALL + f"savepoints: {{directory: '{text}'}}").savepoints.directory == place


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ftp://backups/lanes", "ftp: is no file system for savepoints"),
        ("s3a://backups/lanes", "s3a: is no file system for savepoints"),
        ("S3://backups/lanes", "S3: is no file system for savepoints"),
        ("s3:backups", "not a URI of s3:"),
        ("s3:///lanes", "not a URI of s3:"),
        ("s3://backups:80/lanes", "not a URI of s3:"),
        ("hdfs:///lanes", "not a URI of hdfs:"),
        ("file://other/lanes", "not a URI of file:"),
        ("file:///lanes?a=b", "not a URI of file:"),
        ("gs://backups/lanes#a", "not a URI of gs:"),
        ("s3://backups/lanes?nonsense=1&region=a", "'nonsense' cannot be set in it"),
        (f"s3://backups/lanes?secret_key={SECRET}", "'secret_key' cannot be set in it"),
        (f"s3://key:{SECRET}@backups/lanes", "a URI with a login (not shown) would be shown"),
        (f"s3://key:{SECRET}/{SECRET}@backups/lanes", "a URI with a login (not shown) would be shown"),
        (f"ftp://key:{SECRET}@backups/lanes", "a URI with a login (not shown) would be shown"),
        (f"s3://key:{SECRET}", "not a URI of s3:"),
    ],
)
def test_no_places_of_savepoints(text: str, problem: str) -> None:
    """What may be a secret is not shown."""
    found = faults(SMALL + f"savepoints: {{directory: '{text}'}}")
    assert f"savepoints.directory: {problem}" in found
    assert SECRET not in found


def test_a_checkpoint_may_not_be_where_savepoints_may() -> None:
    assert "has no atomic rename" in faults(SMALL + "checkpoint: s3://backups/lanes")
