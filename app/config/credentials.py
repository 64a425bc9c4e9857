"""Sources of passwords: `env:NAME`, `file:/path`, `secretsmanager:ARN-OR-NAME`, `rds-iam`.

A database URL has it in its query (`?password_from=rds-iam`), so that each URL derived from it (another host, another
database) logs in the same way. It is never a secret itself and may be shown.
"""

import enum
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import URL

#: key in the query of a URL
QUERY_KEY = "password_from"
#: values of `sslmode` that allow a token: RDS accepts it over TLS only
ENCRYPTED = ("require", "verify-ca", "verify-full")
_NAMED = re.compile(r"\benv(?::|%3A)([A-Za-z_][A-Za-z0-9_]*)")
#: sections of the configuration whose values may be secrets
_KEYS_WITH_SECRETS = tuple(f"SURELANE_{name}" for name in ("SOURCE", "TARGET", "GUARD", "SNAPSHOTS", "SPARK"))
_FORMS = "write env:NAME, file:/path, secretsmanager:ARN-OR-NAME or rds-iam"
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")
_RDS_HOST = re.compile(r".+\.([a-z]{2}(?:-[a-z]+)+-\d+)\.rds\.amazonaws\.com(\.cn)?")


class PasswordInvalid(ValueError):
    """Not a valid source of a password; the message contains no secret."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


class PasswordKind(enum.StrEnum):
    """The kinds of sources."""

    ENV = "env"  #: an environment variable
    FILE = "file"  #: the first line of a file, read for each connection
    SECRETS_MANAGER = "secretsmanager"  #: AWS Secrets Manager: a text, or JSON with `username` and `password`
    RDS_IAM = "rds-iam"  #: a token valid for fifteen minutes, generated for each connection


@dataclass(frozen=True)
class PasswordFrom:
    """One source of a password."""

    kind: PasswordKind
    #: name of the variable, path, or secret; for `rds-iam` the region, "" where the host name contains it
    what: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises PasswordInvalid, which does not repeat the text: it may be the password itself."""
        head, _, what = text.partition(":")
        if head not in set(PasswordKind):
            raise PasswordInvalid("not a place that a password comes from (not shown: it may be one)", _FORMS)
        kind = PasswordKind(head)
        if kind is PasswordKind.RDS_IAM and what and not _REGION.fullmatch(what):
            raise PasswordInvalid(f"{what!r} is no region", "write rds-iam, or rds-iam:eu-central-1")
        if kind is not PasswordKind.RDS_IAM and not what:
            raise PasswordInvalid(f"{head}: of what?", _FORMS)
        return cls(kind, what)

    def __str__(self) -> str:
        return f"{self.kind}:{self.what}" if self.what else str(self.kind)

    @property
    def region(self) -> str | None:
        """The AWS region, where `what` contains it."""
        if self.kind is PasswordKind.RDS_IAM:
            return self.what or None
        parts = self.what.split(":")
        return parts[3] if self.kind is PasswordKind.SECRETS_MANAGER and len(parts) > 3 else None

    def check(self) -> None:
        """Raises PasswordInvalid where this machine cannot read the source."""
        if self.kind is PasswordKind.ENV and self.what not in os.environ:
            raise PasswordInvalid(f"there is no environment variable {self.what}", "set it, or name another one")
        if self.kind is PasswordKind.FILE and not os.access(Path(self.what).expanduser(), os.R_OK):
            raise PasswordInvalid(
                f"there is no file {self.what} that can be read", "check the path and its permissions"
            )
        if self.kind in (PasswordKind.SECRETS_MANAGER, PasswordKind.RDS_IAM):
            needs_aws(str(self.kind), "boto3")


def needs_aws(what: str, *modules: str) -> None:
    """Raises PasswordInvalid where one of the AWS `modules` is not installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        hint = "python -m pip install --require-hashes -r requirements-aws.lock"
        raise PasswordInvalid(f"{what} needs {', '.join(missing)}, not installed here", hint)


def password_from(url: URL) -> PasswordFrom | None:
    """Source of the password of `url`; None: the password is in the URL, or there is none. Raises PasswordInvalid."""
    text = url.query.get(QUERY_KEY)
    return None if text is None else PasswordFrom.parse(str(text))


def without_password_from(url: URL) -> URL:
    """`url` for libpq, without the query key."""
    return url.difference_update_query([QUERY_KEY])


def checked_url(url: URL) -> URL:
    """`url`; raises PasswordInvalid where its source of a password is unusable."""
    place = password_from(url)
    if place is None:
        return url
    if url.password is not None:
        raise PasswordInvalid(f"the URL has a password and {QUERY_KEY}", "keep one of them")
    place.check()
    if place.kind is not PasswordKind.SECRETS_MANAGER and not url.username:
        raise PasswordInvalid("the URL names no user", "write postgresql+psycopg2://user@host:5432/database")
    if place.kind is PasswordKind.RDS_IAM and str(url.query.get("sslmode")) not in ENCRYPTED:
        raise PasswordInvalid(
            "rds-iam without TLS: RDS refuses the token, and a listener on the network could use it",
            "add ?sslmode=verify-full&sslrootcert=/path/global-bundle.pem to the URL",
        )
    return url


def region_of_host(host: str | None) -> str | None:
    """The region in the name of an Amazon RDS endpoint."""
    found = _RDS_HOST.fullmatch(host or "")
    return found[1] if found else None


def variables_with_secrets(settings: object) -> set[str]:
    """Names of environment variables that may contain a secret: those that `env:` names anywhere in `settings`, and
    those of the configuration's sections with secrets."""
    named = {found[1] for found in _NAMED.finditer(repr(settings))}
    return named | {name for name in os.environ if name.upper().startswith(_KEYS_WITH_SECRETS)}
