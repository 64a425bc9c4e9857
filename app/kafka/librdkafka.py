"""Kafka client options for librdkafka, which names some of them differently from Java's client (Spark's).

One configuration has to serve both: Spark plans epochs with the Java client, and messages, watermarks and lag are read
with librdkafka. Options without a meaning here (`max.poll.records`) are left out; those that would make the two connect
differently (a Java keystore, MSK's IAM mechanism) are refused with the alternative.
"""

import re
from collections.abc import Mapping

from app.errors import ConfigInvalid

#: same name and same meaning in both clients
SAME = frozenset(
    {
        "security.protocol",
        "client.id",
        "client.rack",
        "sasl.kerberos.service.name",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "socket.connection.setup.timeout.ms",
        "metadata.max.age.ms",
    }
)
RENAMED = {
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
#: of a consumer with assigned partitions: it joins no group and commits nothing
ASSIGNED = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",  # offsets at a partition's end may hold no message
}
#: mechanisms with which librdkafka logs in by name and password, or by Kerberos ticket
MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"})
_JAAS = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


def librdkafka_config(bootstrap_servers: str, options: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's configuration for `source.options`; raises ConfigInvalid for options without an equivalent."""
    kafka = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    config = {"bootstrap.servers": bootstrap_servers}
    config |= {name: value for name, value in kafka.items() if name in SAME}
    config |= {RENAMED[name]: value for name, value in kafka.items() if name in RENAMED}
    if config.get("ssl.endpoint.identification.algorithm") == "":
        config["ssl.endpoint.identification.algorithm"] = "none"
    return config | _login(kafka) | _truststore(kafka) | _keystore(kafka)


def _login(kafka: Mapping[str, str]) -> dict[str, str]:
    mechanism = kafka.get("sasl.mechanism", "GSSAPI")
    if not kafka.get("security.protocol", "").startswith("SASL"):
        return {}
    if mechanism not in MECHANISMS:
        raise ConfigInvalid(
            f"source.options.kafka.sasl.mechanism: {mechanism} is known to the Java client only",
            hint=f"use one of {', '.join(sorted(MECHANISMS))} or TLS client certificates. Amazon MSK with IAM is "
            "source.security: msk-iam",
        )
    return _name_and_password(kafka.get("sasl.jaas.config", "")) if mechanism != "GSSAPI" else {}


def _name_and_password(jaas: str) -> dict[str, str]:
    found = {key: re.sub(r"\\(.)", r"\1", a or b or c) for key, a, b, c in _JAAS.findall(jaas)}
    if found.keys() != {"username", "password"}:
        raise ConfigInvalid(
            "source.options.kafka.sasl.jaas.config: no username and password in it",
            hint='write "org.apache.kafka.common.security.scram.ScramLoginModule required username=... password=...;"',
        )
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def _truststore(kafka: Mapping[str, str]) -> dict[str, str]:
    path = kafka.get("ssl.truststore.location")
    if path is None:
        return {}
    if kafka.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise _java_store("truststore")
    return {"ssl.ca.location": path}


def _keystore(kafka: Mapping[str, str]) -> dict[str, str]:
    path = kafka.get("ssl.keystore.location")
    if path is None:
        return {}
    kind = kafka.get("ssl.keystore.type", "JKS").upper()
    if kind == "PKCS12":
        return {"ssl.keystore.location": path, "ssl.keystore.password": kafka.get("ssl.keystore.password", "")}
    if kind != "PEM":
        raise _java_store("keystore")
    return {"ssl.certificate.location": path, "ssl.key.location": path}


def _java_store(store: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"source.options.kafka.ssl.{store}.location: a Java {store} cannot be read outside Java",
        hint=f"convert it to PEM (keytool, openssl) and set kafka.ssl.{store}.type: PEM; both clients read that",
    )
