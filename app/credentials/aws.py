"""Secrets, tokens for RDS and tokens for MSK, with the process' identity in AWS.

AWS' libraries find the identity: environment, ~/.aws, the role of the task or the instance. Tokens are signed locally,
without a request; a secret is a request to AWS.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from app.errors import EnvironmentMissing, Unreachable

#: timeout in seconds of a request to AWS, for which a database connection waits
_TIMEOUT_SECONDS = 10
#: prefixes of error codes that a retry may resolve
_PASSING = ("Throttling", "TooManyRequests", "RequestLimitExceeded", "InternalServiceError", "ServiceUnavailable")
_WHO = "give the process an identity: the task's or the instance's role, AWS_PROFILE, or ~/.aws"


def secret_string(name: str, region: str | None) -> str:
    """The current value of a secret; raises Unreachable or EnvironmentMissing without the value."""
    with _translated(f"secret {name}"):
        value = _client("secretsmanager", region).get_secret_value(SecretId=name)
    text = value.get("SecretString")
    if text is None:
        raise EnvironmentMissing(f"secret {name} is no text", hint="store it as text, or as JSON with a password")
    return str(text)


def rds_token(host: str, port: int, user: str, region: str | None) -> str:
    """A token that is the password of `user` for fifteen minutes."""
    with _translated(f"a token of RDS for {user} at {host}"):
        return str(_client("rds", region).generate_db_auth_token(host, port, user))


def msk_token(region: str) -> tuple[str, float]:
    """A token for MSK and its expiry in seconds since 1970."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    with _translated("a token of MSK"):
        _identity()  # the signer does not report missing credentials
        token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return str(token), float(expires_ms) / 1000


def default_region() -> str | None:
    """The region of AWS' libraries, or None."""
    from boto3.session import Session

    return Session().region_name


def _identity() -> None:
    from boto3.session import Session
    from botocore.exceptions import NoCredentialsError

    if Session().get_credentials() is None:
        raise NoCredentialsError


def _client(service: str, region: str | None) -> Any:
    from boto3.session import Session
    from botocore.config import Config

    config = Config(connect_timeout=_TIMEOUT_SECONDS, read_timeout=_TIMEOUT_SECONDS, retries={"max_attempts": 2})
    make: Callable[..., Any] = Session().client  # a new session: threads must not share one
    return make(service, region_name=region, config=config)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        NoRegionError,
        PartialCredentialsError,
    )

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        kind = Unreachable if code.startswith(_PASSING) else EnvironmentMissing
        raise kind(f"{what} cannot be had: AWS says {code}", hint=_hint(code)) from None
    except NoRegionError:
        raise EnvironmentMissing(f"{what} cannot be had: no region", hint="set AWS_REGION, or name it there") from None
    except (NoCredentialsError, PartialCredentialsError):
        raise EnvironmentMissing(f"{what} cannot be had: no credentials of AWS", hint=_WHO) from None
    except BotoCoreError as error:
        raise Unreachable(f"{what} cannot be had: {type(error).__name__}", hint="is there a way to AWS?") from None


def _hint(code: str) -> str:
    if "AccessDenied" in code:
        return "allow it to the process' role (secretsmanager:GetSecretValue, kms:Decrypt): ops/aws has the policies"
    return "check the name, the region, and the process' role" if "NotFound" in code else _WHO
