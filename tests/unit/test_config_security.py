"""Who is let in where: keys that fit together, and faults that never show what may be a secret."""

from pathlib import Path

import pytest
import yaml

from app.config.loader import load
from app.config.settings import SecurityProtocol, Settings
from app.credentials.passwords import filled
from app.errors import ConfigInvalid
from app.kafka.client import client_config
from app.kafka.security import java_options
from tests.certificates import Authority

SECRET = "hunter2"
URL = "postgresql://surelane@shop.abc.eu-central-1.rds.amazonaws.com/shop"
TLS = "?sslmode=verify-full&sslrootcert=/ca.pem"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SURELANE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def loaded(security: object = None, options: object = None, **target: object) -> Settings:
    source = {"bootstrap_servers": "h:9092", "topics": ["a"], "options": options or {}}
    raw = {"lane": "orders", "source": source, "target": {"url": "postgresql://me@h/d", **target}}
    if security is not None:
        source["security"] = security
    Path("surelane.yaml").write_text(yaml.safe_dump(raw))
    return load()


def faults(*args: object, **target: object) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        loaded(*args, **target)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_the_default_is_plaintext() -> None:
    source = loaded().source
    assert source.security.protocol is SecurityProtocol.PLAINTEXT
    assert java_options(source.security) == {}
    assert client_config(source) == {"bootstrap.servers": "h:9092"}


def test_a_bare_protocol_is_short_for_the_section() -> None:
    source = loaded("tls").source
    assert java_options(source.security) == {"kafka.security.protocol": "SSL"}
    assert client_config(source) == {"bootstrap.servers": "h:9092", "security.protocol": "SSL"}


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_SOURCE__SECURITY", "tls")
    assert loaded().source.security.protocol is SecurityProtocol.TLS
    monkeypatch.delenv("SURELANE_SOURCE__SECURITY")
    monkeypatch.setenv("SURELANE_SOURCE__SECURITY__PROTOCOL", "scram")
    monkeypatch.setenv("SURELANE_SOURCE__SECURITY__USERNAME", "me")
    monkeypatch.setenv("SURELANE_SOURCE__SECURITY__PASSWORD_FROM", "env:KAFKA_PASSWORD")
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    assert client_config(loaded().source) == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": SECRET,
    }


def test_certificates_are_given_as_text_to_both_clients(tmp_path: Path) -> None:
    """Spark's executors need not have the files."""
    authority = Authority(tmp_path)
    mine = authority.sign("me")
    files = {"ca": str(authority.certificate), "certificate": str(mine.certificate), "key": str(mine.key)}
    source = loaded({"protocol": "mtls", **files}).source
    texts = {name: Path(path).read_text() for name, path in files.items()}
    assert java_options(source.security) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": texts["ca"],
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": texts["certificate"],
        "kafka.ssl.keystore.key": texts["key"],
    }
    assert client_config(source) == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SSL",
        "ssl.ca.pem": texts["ca"],
        "ssl.certificate.pem": texts["certificate"],
        "ssl.key.pem": texts["key"],
    }


def test_msk_iam_for_java() -> None:
    assert java_options(loaded({"protocol": "msk-iam", "region": "eu-central-1"}).source.security) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }


@pytest.mark.parametrize(
    ("security", "problem"),
    [
        ("sasl", "source.security.protocol"),
        ("mtls", "certificate: protocol mtls needs it"),
        ({"protocol": "scram", "username": "me"}, "password_from: protocol scram needs it"),
        ({"protocol": "scram", "password_from": "env:PATH"}, "who logs in?"),
        ({"protocol": "scram", "username": "me", "password_from": SECRET}, "not shown: it may be one"),
        ({"protocol": "scram", "username": "me", "password_from": "env:NOT_SET"}, "no environment variable NOT_SET"),
        ({"protocol": "scram", "username": "me", "password_from": "file:/none"}, "no file /none"),
        ({"protocol": "scram", "username": "me", "password_from": "rds-iam"}, "write protocol: msk-iam"),
        ({"protocol": "tls", "username": "me"}, "username: protocol tls has no use for it"),
        ({"ca": "/ca.pem"}, "cannot be read"),
        ({"protocol": "msk-iam", "region": "Frankfurt"}, "no region of AWS"),
        ({"protocol": "tls", "truststore": "/x"}, "unknown key"),
    ],
)
def test_what_does_not_fit(security: object, problem: str) -> None:
    assert problem in faults(security)


def test_security_has_one_place() -> None:
    assert "beside source.security" in faults("tls", {"kafka.ssl.truststore.location": "/x"})


def test_a_key_that_java_cannot_read_says_how_to_make_it_one(tmp_path: Path) -> None:
    mine = Authority(tmp_path).sign("me")
    mine.key.write_text("-----BEGIN RSA PRIVATE KEY-----\n" + SECRET)
    section = {"protocol": "mtls", "certificate": str(mine.certificate), "key": str(mine.key)}
    assert "openssl pkcs8" in faults(section)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({"password_from": SECRET}, "not shown: it may be one"),
        ({"url": f"{URL}{TLS}&password_from={SECRET}"}, "not shown: it may be one"),
        ({"url": f"postgresql://me:{SECRET}@h/d", "password_from": "env:PATH"}, "keep one of them"),
        ({"url": URL, "password_from": "rds-iam"}, "rds-iam without TLS"),
        ({"url": f"{URL}?sslmode=prefer", "password_from": "rds-iam"}, "rds-iam without TLS"),
        ({"url": f"{URL}{TLS}", "password_from": "rds-iam:here"}, "no region"),
        ({"url": "postgresql://h/d", "password_from": "env:PATH"}, "names no user"),
        ({"password_from": "secretsmanager:"}, "of what?"),
        ({"url": f"{URL}{TLS}&sslpassword={SECRET}"}, "would be shown"),
    ],
)
def test_where_a_password_does_not_come_from(target: dict[str, object], problem: str) -> None:
    assert problem in faults(**target)


def test_a_key_without_a_url_of_its_own() -> None:
    raw = {"lane": "orders", "source": {"bootstrap_servers": "h:1", "topics": ["a"]}}
    for section in ("guard", "snapshots"):
        config = {**raw, "target": {"url": "postgresql://me@h/d"}, section: {"password_from": "env:PATH"}}
        Path("surelane.yaml").write_text(yaml.safe_dump(config))
        with pytest.raises(ConfigInvalid, match="password_from without a URL of its own"):
            load()


def test_a_url_from_elsewhere_takes_the_key_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `recover run` passes it to the lane that replays."""
    monkeypatch.setenv("SURELANE_TARGET__URL", f"postgresql://me:{SECRET}@restored/d")
    monkeypatch.setenv("SURELANE_TARGET__PASSWORD_FROM", "null")
    url = loaded(url="postgresql://me@h/d", password_from="env:PATH").target.url
    assert (url.host, url.password) == ("restored", SECRET)


def test_key_and_url_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", SECRET)
    by_key = loaded(url="postgresql://me@h/d", password_from="env:SHOP").target.url
    by_url = loaded(url="postgresql://me@h/d?password_from=env:SHOP").target.url
    assert by_key == by_url
    assert filled(by_key).password == SECRET
    assert SECRET not in f"{by_key!r} {by_key}"
    assert filled(by_key.set(database="other", host="there")).password == SECRET, "what is derived logs in alike"
