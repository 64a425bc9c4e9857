"""The login of a connection, looked up for each one, since a password may have changed.

A secret of Secrets Manager is cached in memory for a minute, and fetched again as soon as a server refuses it: after a
rotation of the password a lane opens its next connection with the new one.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL

from app.config.credentials import PasswordFrom, PasswordKind, password_from, region_of_host, without_password_from
from app.credentials import aws
from app.errors import EnvironmentMissing

#: lifetime in seconds of a cached secret: a lane that reconnects opens several connections at once
KEPT_SECONDS = 60.0
DEFAULT_PORT = 5432
_Connection = TypeVar("_Connection")


@dataclass(frozen=True)
class Login:
    """User and password; the password is not in the repr."""

    username: str | None
    password: str = field(repr=False)


@dataclass
class _Kept:
    login: Login = field(repr=False)
    since: float


_kept: dict[PasswordFrom, _Kept] = {}
_asking = threading.Lock()


def look_up(place: PasswordFrom, *, fresh: bool = False) -> Login:
    """The current login; not for `rds-iam`, whose tokens are for one server. `fresh`: not from the cache.

    Raises EnvironmentMissing, or Unreachable when AWS does not answer.
    """
    if place.kind is PasswordKind.ENV:
        value = os.environ.get(place.what)
        if value is None:
            raise EnvironmentMissing(f"there is no environment variable {place.what}", hint="set it")
        return Login(None, value)
    if place.kind is PasswordKind.FILE:
        return Login(None, _first_line(Path(place.what).expanduser()))
    with _asking:
        kept = _kept.get(place)
        if kept is None or fresh or time.monotonic() - kept.since > KEPT_SECONDS:
            login = _parsed(place, aws.secret_string(place.what, place.region))
            kept = _kept[place] = _Kept(login, time.monotonic())
        return kept.login


def filled(url: URL, *, fresh: bool = False) -> URL:
    """`url` with the current user and password. It must not be shown or kept."""
    place, plain = password_from(url), without_password_from(url)
    if place is None:
        return plain
    if place.kind is PasswordKind.RDS_IAM:
        host = plain.host or str(plain.query.get("host", ""))
        port = int(plain.port or str(plain.query.get("port", DEFAULT_PORT)))
        region = place.region or region_of_host(host)
        return plain.set(password=aws.rds_token(host, port, plain.username or "", region))
    login = look_up(place, fresh=fresh)
    username = plain.username or login.username
    if not username:
        raise EnvironmentMissing(f"neither the URL nor {place} names a user", hint="write user@ into the URL")
    return plain.set(username=username, password=login.password)


def connected(url: URL, connect: Callable[[str, str], _Connection], refused: type[Exception]) -> _Connection:
    """`connect(user, password)`; once more with a fresh login when the server refused a cached one."""
    now = filled(url)
    try:
        return connect(now.username or "", str(now.password))
    except refused:
        newer = filled(url, fresh=True)
        if (newer.username, newer.password) == (now.username, now.password) or _is_token(url):
            raise
    return connect(newer.username or "", str(newer.password))


def _is_token(url: URL) -> bool:
    place = password_from(url)
    return place is not None and place.kind is PasswordKind.RDS_IAM


def _first_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentMissing(
            f"the password in {path} cannot be read: {type(error).__name__}", hint="check the file and its permissions"
        ) from None
    if not lines or not lines[0]:
        raise EnvironmentMissing(f"there is no password in {path}", hint="its first line is the password")
    return lines[0]


def _parsed(place: PasswordFrom, text: str) -> Login:
    """Parse a secret: JSON as RDS, MSK and the console write it, or the password itself."""
    if not text.lstrip().startswith("{"):
        return Login(None, text)
    try:
        found = json.loads(text)
    except ValueError:
        return Login(None, text)
    if not isinstance(found.get("password"), str):
        raise EnvironmentMissing(
            f"{place} has no password in it", hint='store it as {"username": ..., "password": ...}'
        )
    username = found.get("username")
    return Login(username if isinstance(username, str) else None, found["password"])
