"""Every way to Kafka that `source.security` has, to a real broker: a lane drains a topic over it."""

import base64
import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import app.credentials.aws
from app.config.settings import DeadLetterSettings, SecurityProtocol, SecuritySettings, Settings, SourceSettings
from app.errors import ConfigInvalid, EnvironmentMissing, Unreachable
from app.kafka import gather
from app.kafka.block_reader import BlockReader
from app.kafka.broker import Broker
from app.kafka.client import client_config
from app.kafka.dead_letter_producer import DeadLetterTopic
from app.kafka.spans import SpanReader
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.source.stream import client_options
from app.spark.session import make_session
from app.worker.lane_jvm import start_lanes_jvm
from tests import messages as m
from tests.certificates import Authority
from tests.fix_lane import MakeLane
from tests.fix_secured import KEY_PASSWORD, PASSWORD, USER, Secured
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.waiting import eventually
from tools.devstack import Kafka

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})


@pytest.fixture
def kafka(secured: Secured) -> Kafka:
    """In place of the session's: topics are made on its plain listener."""
    return secured.kafka


def way(secured: Secured, name: str) -> dict[str, Any]:
    if name == "scram":
        return secured.source("SCRAM", protocol="scram", username=USER, password_from=f"file:{secured.password_file}")
    if name == "tls":
        return secured.source("TLS", protocol="tls")
    files = secured.locked if name == "mtls-locked" else secured.client
    known = {"certificate": str(files.certificate), "key": str(files.key)}
    locked = {"key_password_from": "env:KEY_PASSWORD"} if name == "mtls-locked" else {}
    return secured.source("MTLS", protocol="mtls", **known, **locked)


@pytest.fixture(autouse=True)
def key_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_PASSWORD", KEY_PASSWORD)


@pytest.mark.costly(2)
@pytest.mark.parametrize("name", ["tls", "scram", "mtls"])
def test_a_lane_drains_a_topic(name: str, secured: Secured, lane: MakeLane, target: Target, topic: Topic) -> None:
    target.create(FLAT)
    d = Debezium()
    topic.send([d.create(FLAT, {"id": number, "v": "x"}) for number in range(200)])
    made = lane("two-phase", source=way(secured, name), topics=(topic,))
    made.run_until_caught_up()
    questions(target, topic)


@pytest.mark.parametrize("name", ["tls", "scram", "mtls", "mtls-locked"])
def test_messages_come_in_blocks(name: str, secured: Secured, topic: Topic) -> None:
    """By librdkafka's own functions, with the same configuration."""
    topic.send([Debezium().create(FLAT, {"id": number, "v": "x"}) for number in range(50)])
    source = SourceSettings(**way(secured, name), topics=(topic.name,))
    with closing(BlockReader(source, gather.loaded())) as reader:
        found = reader.read(Span.of(TopicPartition(topic.name, 0), 0, 50))
    assert [value for batch in found for value in batch.values] == [sent.message.value for sent in topic.sent]


def test_an_encrypted_key(secured: Secured, topic: Topic) -> None:
    with broker(secured, "mtls-locked", topic) as connected:
        assert connected.topics()[topic.name].partitions == 1


@pytest.mark.costly(1)
@pytest.mark.parametrize("name", ["tls", "scram", "mtls"])
def test_a_broker_of_another_authority_is_refused(name: str, secured: Secured, topic: Topic, tmp_path: Path) -> None:
    """Java's client gets the same certificates; that it checks them is in `test_java_...`."""
    raw = way(secured, name)
    raw["security"]["ca"] = str(Authority(tmp_path, "another authority").certificate)
    with (
        Broker(SourceSettings(**raw, topics=(topic.name,))) as other,
        pytest.raises(Unreachable, match=r"(?i)certificate"),
    ):
        other.cluster_id()


def test_a_client_without_its_certificate_is_refused(secured: Secured, topic: Topic) -> None:
    raw = secured.source("MTLS", protocol="tls")
    with Broker(SourceSettings(**raw, topics=(topic.name,))) as other, pytest.raises(Unreachable, match=r"(?i)ssl"):
        other.cluster_id()


@pytest.mark.parametrize("name", ["tls", "scram", "mtls"])
def test_java_looks_at_the_certificate_too(
    name: str, secured: Secured, topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    raw = way(secured, name)
    source = SourceSettings(**raw, topics=(topic.name,))
    assert partitions_by_java(spark, source) == 1
    raw["security"]["ca"] = str(Authority(tmp_path, "another authority").certificate)
    with pytest.raises(Py4JJavaError, match="SslAuthenticationException"):
        partitions_by_java(spark, SourceSettings(**raw, topics=(topic.name,)))


def test_a_wrong_password_is_reported_without_showing_it(secured: Secured, topic: Topic, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("m4rked-wrong")
    raw = secured.source("SCRAM", protocol="scram", username=USER, password_from=f"file:{wrong}")
    with Broker(SourceSettings(**raw, topics=(topic.name,))) as refused, pytest.raises(Unreachable) as caught:
        refused.cluster_id()
    assert "uthentication" in str(caught.value)
    assert "m4rked" not in str(caught.value)


def test_a_password_that_was_changed_is_read_anew(
    secured: Secured, lane: MakeLane, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """The lane's attempt at opening fails, and the next one finds the new password where it is."""
    target.create(FLAT)
    own = tmp_path / "password"
    own.write_text("no more")
    d = Debezium()
    topic.send([d.create(FLAT, {"id": 1, "v": "x"})])
    section = secured.source("SCRAM", protocol="scram", username=USER, password_from=f"file:{own}")
    made = lane("ledger", source=section, topics=(topic,))
    made.start()
    eventually(lambda: "not running" in made.health.ready().reason, 60, "the first attempt to fail")
    own.write_text(PASSWORD)
    made.until_caught_up(topic)
    made.stop()
    questions(target, topic)


# --- Amazon MSK with IAM: what can be checked without Amazon ----------------------------------------------------------


def unsigned_token(lifetime_seconds: float = 600.0) -> tuple[str, float]:
    """As Kafka's own test validator takes it: MSK's are taken by MSK only."""
    now = time.time()
    ends = now + lifetime_seconds
    parts = ({"alg": "none"}, {"sub": "surelane", "iat": now, "exp": ends})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, ""]), ends


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that AWS' libraries find; it belongs to no account."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAMADEUP0000000000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "m4rked-made-up")


def iam(secured: Secured, topic: str) -> SourceSettings:
    return SourceSettings(**secured.source("OAUTH", protocol="msk-iam", region="eu-central-1"), topics=(topic,))


def test_a_token_is_signed_without_a_network(secured: Secured, identity: None) -> None:
    config = client_config(iam(secured, "any"))
    token, ends = config["oauth_cb"]("")
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = parse_qs(url.query)
    assert url.netloc == "kafka.eu-central-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith("AKIAMADEUP0000000000/")
    assert 0 < ends - time.time() <= 15 * 60
    assert (config["security.protocol"], config["sasl.mechanisms"]) == ("SASL_SSL", "OAUTHBEARER")
    assert "m4rked" not in url.geturl()


def test_without_an_identity_there_is_no_token(secured: Secured, no_aws_identity: None) -> None:
    with pytest.raises(EnvironmentMissing, match="no credentials of AWS"):
        client_config(iam(secured, "any"))


def test_without_a_region_there_is_no_token(
    secured: Secured, no_aws_identity: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    source = SourceSettings(**secured.source("OAUTH", protocol="msk-iam"), topics=("any",))
    with pytest.raises(ConfigInvalid, match="region"):
        client_config(source)


def test_each_client_of_librdkafka_gets_its_tokens(
    secured: Secured, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker takes Kafka's test tokens here in place of Amazon's: the way of a token is the same. They end soon, so
    that each client has to ask again."""
    asked: list[float] = []

    def token(_: str) -> tuple[str, float]:
        asked.append(time.monotonic())
        return unsigned_token(10.0)

    monkeypatch.setattr(app.credentials.aws, "msk_token", token)
    d = Debezium()
    topic.send([d.create(FLAT, {"id": 1, "v": "x"})])
    source = iam(secured, topic.name)
    with Broker(source) as connected:
        assert connected.topics()[topic.name].partitions == 1
        (message,) = connected.messages(Position(topic.name, 0, 0), 1)
        assert message.value == topic.sent[0].message.value
        before = len(asked)
        eventually(lambda: len(asked) > before or not connected.cluster_id(), 30, "the next token")
    with DeadLetterTopic(source, DeadLetterSettings(topic=topic.name)) as letters:
        letters.send(message)
    reader = SpanReader(source)
    tp = TopicPartition(topic.name, 0)
    (batch,) = reader.read(Span(start=Offsets.of({tp: 0}), end=Offsets.of({tp: 2})))
    reader.close()
    assert batch.offsets == [0, 1]


def test_java_loads_what_signs_in_to_msk(secured: Secured, identity: None) -> None:
    """A session as the service makes it: the broker is asked for AWS_MSK_IAM, which only Amazon's know."""
    program = f"""
from tests.integration.test_kafka_security import iam_by_java
iam_by_java({secured.kafka.at("OAUTH")!r}, {str(secured.authority.certificate)!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert "UnsupportedSaslMechanismException" in done.stdout, done.stdout + done.stderr
    assert "AWS_MSK_IAM" in done.stdout


def iam_by_java(address: str, ca: str) -> None:
    """In a process of its own: a session's class path is the JVM's."""
    source = SourceSettings(
        bootstrap_servers=address,
        topics=("any",),
        security=SecuritySettings(protocol=SecurityProtocol.MSK_IAM, ca=ca, region="eu-central-1"),
    )
    config = {"lane": "msk", "source": source, "target": {"url": "postgresql://nowhere/db"}}
    session = make_session(start_lanes_jvm(Settings.of(config)))
    try:
        print(partitions_by_java(session, source))
    except Py4JJavaError as error:
        print(error.java_exception.toString(), error.java_exception.getCause())
    finally:
        session.stop()


def broker(secured: Secured, name: str, topic: Topic) -> Broker:
    return Broker(SourceSettings(**way(secured, name), topics=(topic.name,)))


def partitions_by_java(spark: SparkSession, source: SourceSettings) -> int:
    """What the client says that Spark's source uses, with the options that Spark's source gets."""
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    properties = jvm.java.util.Properties()
    for name, value in client_options(source).items():
        if name.startswith("kafka."):
            properties.setProperty(name.removeprefix("kafka."), value)
    for side in ("key", "value"):
        kind = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        properties.setProperty(f"{side}.deserializer", kind)
    properties.setProperty("default.api.timeout.ms", "20000")
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
    try:
        return int(consumer.partitionsFor(source.topics[0]).size())
    finally:
        consumer.close()
