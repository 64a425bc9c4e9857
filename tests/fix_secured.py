"""A broker that is spoken to in every secured way: a listener for each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.certificates import Authority, Signed
from tests.fix_servers import SECURED
from tools.devstack import Kafka, Stack

#: what Kafka's and JAAS' own texts have to be escaped for
PASSWORD = "m4rked \"\\;' secret"
USER = "surelane-scram"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@dataclass(frozen=True)
class Secured:
    """The broker, and what clients of it need."""

    kafka: Kafka
    authority: Authority
    client: Signed
    #: its key needs `KEY_PASSWORD`
    locked: Signed
    password_file: Path

    def source(self, listener: str, **security: Any) -> dict[str, Any]:
        """`source` of a lane."""
        section = {"ca": str(self.authority.certificate), **security}
        return {"bootstrap_servers": self.kafka.at(listener), "security": section}

    def set_password(self, password: str) -> None:
        """As an administrator does."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        (done,) = admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, info, password.encode())]
        ).values()
        done.result()


KEY_PASSWORD = "m4rked-key-password"


@pytest.fixture(scope="session")
def secured(servers: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Listeners TLS, MTLS, SCRAM and OAUTH (tokens without a signature, as Kafka has them for tests)."""
    servers.up(kafka=False, connect=False, source=False, target=False)  # its folder, and nothing in it
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "certificates")
    server = authority.sign("broker")
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    made = Kafka(
        servers.data_dir / SECURED,
        listeners={"TLS": "SSL", "MTLS": "SSL", "SCRAM": "SASL_SSL", "OAUTH": "SASL_SSL"},
        properties={
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server.pair),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required"
            ' unsecuredLoginStringClaim_sub="surelane";',
            "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
                f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
            ),
        },
    )
    password_file = folder / "password"
    password_file.write_text(PASSWORD + "\n")
    locked = authority.sign("locked", password=KEY_PASSWORD.encode())
    try:
        made.start()
        secured = Secured(made, authority, authority.sign("client"), locked, password_file)
        secured.set_password(PASSWORD)
        yield secured
    finally:
        made.kill()


@pytest.fixture
def no_aws_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No AWS identity: none in the environment, in files or from the metadata service."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
