"""`source.security` as options of the Java client (Spark's); `app.kafka.client` has librdkafka's.

Certificates and keys are passed as text, not as paths: Spark's executors need not have the files. A password is looked
up whenever a client is made, so a lane that opens again logs in with the new one.
"""

from pathlib import Path

from app.config.credentials import PasswordFrom
from app.config.settings import SecurityProtocol, SecuritySettings
from app.credentials.passwords import look_up
from app.errors import ConfigInvalid

IAM_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
IAM_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def java_options(security: SecuritySettings) -> dict[str, str]:
    """Options of Spark's Kafka source, `kafka.` in front; they contain secrets. Raises as looking a password up
    does."""
    match security.protocol:
        case SecurityProtocol.PLAINTEXT:
            return {}
        case SecurityProtocol.TLS:
            return {"kafka.security.protocol": "SSL", **_trust(security)}
        case SecurityProtocol.MTLS:
            return {"kafka.security.protocol": "SSL", **_trust(security), **_identity(security)}
        case SecurityProtocol.SCRAM:
            return {"kafka.security.protocol": "SASL_SSL", **_trust(security), **_login(security)}
        case SecurityProtocol.MSK_IAM:
            iam = {
                "kafka.sasl.mechanism": "AWS_MSK_IAM",
                "kafka.sasl.jaas.config": f"{IAM_MODULE} required;",
                "kafka.sasl.client.callback.handler.class": IAM_HANDLER,
            }
            return {"kafka.security.protocol": "SASL_SSL", **_trust(security), **iam}


def _trust(security: SecuritySettings) -> dict[str, str]:
    if security.ca is None:
        return {}
    return {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": _text(security.ca)}


def _identity(security: SecuritySettings) -> dict[str, str]:
    assert security.certificate is not None, "checked with the configuration"
    assert security.key is not None, "checked with the configuration"
    place = security.key_password_from
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": _text(security.certificate),
        "kafka.ssl.keystore.key": _text(security.key),
        **({} if place is None else {"kafka.ssl.key.password": look_up(PasswordFrom.parse(place)).password}),
    }


def _login(security: SecuritySettings) -> dict[str, str]:
    assert security.password_from is not None, "checked with the configuration"
    login = look_up(PasswordFrom.parse(security.password_from), fresh=True)
    username = security.username or login.username
    if username is None:
        hint = "add source.security.username, or store the secret with a username"
        raise ConfigInvalid(f"{security.password_from} names no user", hint=hint)
    jaas = f"{_SCRAM_MODULE} required username={_quoted(username)} password={_quoted(login.password)};"
    return {"kafka.sasl.mechanism": security.mechanism.value, "kafka.sasl.jaas.config": jaas}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read: {type(error).__name__}", hint="check the file") from None
