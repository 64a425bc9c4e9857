"""Client options: librdkafka gets the options of the Java client under its own names."""

import pytest
from confluent_kafka import KafkaError

from app.errors import ConfigInvalid
from app.kafka.error_codes import Complaint
from app.kafka.librdkafka import librdkafka_config

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="p;w\\"d";'


def config(**options: str) -> dict[str, str]:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    made = librdkafka_config("h:9092", named)
    assert made.pop("bootstrap.servers") == "h:9092"
    return made


def test_nothing_to_say() -> None:
    assert config() == {}
    assert config(max_poll_records="5") == {}
    assert librdkafka_config("h:1", {"fetchOffset.numRetries": "3"}) == {"bootstrap.servers": "h:1"}


def test_scram() -> None:
    assert config(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=SCRAM) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'p;w"d',
    }


def test_login_without_quotes() -> None:
    made = config(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config="x username=a password=b;"
    )
    assert (made["sasl.username"], made["sasl.password"]) == ("a", "b")


def test_a_login_that_cannot_be_read_does_not_show_itself() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        config(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config='x password="hunter2";')
    assert "sasl.jaas.config" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_mechanism_of_java_only() -> None:
    with pytest.raises(ConfigInvalid, match="AWS_MSK_IAM"):
        config(security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM")


def test_tls() -> None:
    made = config(
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location="/ca.pem",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/me.pem",
        ssl_key_password="x",
    )
    assert made == {
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "x",
    }


def test_tls_in_the_configuration_itself() -> None:
    options = {
        "kafka.ssl.truststore.certificates": "CA",
        "kafka.ssl.keystore.certificate.chain": "ME",
        "kafka.ssl.keystore.key": "K",
    }
    assert librdkafka_config("h:1", options) == {
        "bootstrap.servers": "h:1",
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "ME",
        "ssl.key.pem": "K",
    }


def test_pkcs12() -> None:
    made = config(ssl_keystore_type="PKCS12", ssl_keystore_location="/me.p12", ssl_keystore_password="x")
    assert made == {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"}


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_java_stores_are_refused_with_a_way_out(store: str) -> None:
    with pytest.raises(ConfigInvalid, match=store) as caught:
        librdkafka_config("h:1", {f"kafka.ssl.{store}.location": "/store.jks"})
    assert "PEM" in str(caught.value)


def test_no_host_name_check() -> None:
    assert config(ssl_endpoint_identification_algorithm="") == {"ssl.endpoint.identification.algorithm": "none"}


def test_the_reason_stays_when_all_brokers_are_down() -> None:
    """librdkafka reports both, and this last."""
    complaint = Complaint()
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    complaint.note(down)
    assert complaint.text == "1/1 brokers are down"
    complaint.note(KafkaError(KafkaError._SSL, "certificate verify failed"))
    complaint.note(down)
    assert complaint.text == "certificate verify failed"
