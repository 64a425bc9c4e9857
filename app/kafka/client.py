"""librdkafka's configuration for the source's cluster."""

import gc
import threading
from collections.abc import Callable
from typing import Any

from app.config.settings import SecurityProtocol, SecuritySettings, SourceSettings
from app.credentials import aws
from app.errors import ConfigInvalid
from app.kafka.librdkafka import librdkafka_config
from app.kafka.security import java_options


def client_config(source: SourceSettings) -> dict[str, Any]:
    """Servers and security, from `source.security` or `source.options`; raises ConfigInvalid."""
    security = source.security
    if security.protocol is SecurityProtocol.MSK_IAM:
        return librdkafka_config(source.bootstrap_servers, source.options) | _iam(security)
    return dict(librdkafka_config(source.bootstrap_servers, {**source.options, **java_options(security)}))


def _iam(security: SecuritySettings) -> dict[str, Any]:
    """librdkafka does not know AWS: it requests a token by a callback whenever the last one is about to expire."""
    region = security.region or aws.default_region()
    if region is None:
        raise ConfigInvalid("source.security.region: not given, and AWS' settings have none", hint="add the region")
    aws.msk_token(region)  # without an AWS identity every connection would fail, with librdkafka's error, not ours
    trust = {} if security.ca is None else {"ssl.ca.location": security.ca}
    return {"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER", "oauth_cb": _token(region), **trust}


def _token(region: str) -> Callable[[str], tuple[str, float]]:
    def token(_: str) -> tuple[str, float]:
        with _NO_COLLECTION:
            return aws.msk_token(region)

    return token


class _NoCollection:
    """No garbage is collected inside. librdkafka requests tokens in a thread of its own, and a client that happens to
    be collected there ends the process (abort)."""

    def __init__(self) -> None:
        self._inside, self._was_on, self._counting = 0, False, threading.Lock()

    def __enter__(self) -> None:
        with self._counting:
            if self._inside == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._inside -= 1
            if self._inside == 0 and self._was_on:
                gc.enable()


_NO_COLLECTION = _NoCollection()
