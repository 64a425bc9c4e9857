"""Where a recovery that a page starts may restore to: at a new name of one of these places, and nowhere else.

A restored target is a copy of all its data. The places come from who starts the console, so that a person with a login
cannot send that copy elsewhere, and needs no password of the server.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic_core import PydanticCustomError
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from app.config.settings import SnapshotDriver
from app.config.values import postgres_url
from app.errors import ConfigInvalid, Refused

#: Postgres', where a URL has none
DEFAULT_PORT = 5432
#: what the instances of RDS are called
INSTANCES = "rds"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_NEW = {
    SnapshotDriver.DUMP: "a new database of {}",
    SnapshotDriver.BASEBACKUP: "a new folder in {}",
    SnapshotDriver.RDS: "a new instance of {}",
}


@dataclass(frozen=True, kw_only=True)
class RecoveryPlaces:
    """At most one for each kind of snapshot."""

    server: URL | None = None
    folder: Path | None = None
    instances: bool = False

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """A server's URL, a folder, or `rds`. Raises ConfigInvalid, without the text, which may have a password."""
        found: dict[str, URL | Path | bool] = {}
        for text in texts:
            kind, value = _parsed(text)
            if kind in found:
                raise ConfigInvalid(
                    f"two places of one kind are given ({kind})", hint="--recover-to once for each kind"
                )
            found[kind] = value
        return cls(**found)  # pyright: ignore[reportArgumentType]

    def shown(self, driver: SnapshotDriver) -> str | None:
        """What a new name is for, without a password; None: a page starts no recovery from such a snapshot."""
        place = {
            SnapshotDriver.DUMP: self.server and f"{self.server.host}:{self.server.port or DEFAULT_PORT}",
            SnapshotDriver.BASEBACKUP: self.folder,
            SnapshotDriver.RDS: INSTANCES.upper() if self.instances else None,
        }[driver]
        return None if place is None else _NEW[driver].format(place)

    def place(self, driver: SnapshotDriver, name: str) -> str:
        """For `--to`. Raises Refused for what is no name, or where there is no place."""
        if self.shown(driver) is None:
            raise Refused(
                f"this console starts no recovery from a snapshot by {driver}: nothing was done",
                hint="type the command that the page shows, or start the console with --recover-to",
            )
        if not _NAME.fullmatch(name):
            raise Refused(
                "the new place's name has letters, digits, _, - and dots, 63 at most: nothing was done",
                hint="type a name that is not there yet",
            )
        if driver is SnapshotDriver.DUMP and self.server is not None:
            return self.server.set(database=name).render_as_string(hide_password=False)
        return str(self.folder / name) if driver is SnapshotDriver.BASEBACKUP and self.folder is not None else name

    def name_of(self, driver: SnapshotDriver, to: str) -> str | None:
        """The name at the place that a journal has; None: it is elsewhere."""
        if driver is SnapshotDriver.DUMP:
            url = _url(to)
            return url.database if url is not None and self.server is not None and _is_of(url, self.server) else None
        if driver is SnapshotDriver.BASEBACKUP:
            return Path(to).name if self.folder is not None and Path(to).parent == self.folder else None
        return to if self.instances else None


def _parsed(text: str) -> tuple[str, URL | Path | bool]:
    if text == INSTANCES:
        return "instances", True
    if "://" not in text:
        return "folder", Path(text).expanduser().absolute()
    try:
        return "server", postgres_url(text)
    except PydanticCustomError as error:
        raise ConfigInvalid(
            f"--recover-to: {error.message()}", hint="postgresql://role:password@host/postgres"
        ) from None


def _url(text: str) -> URL | None:
    try:
        return make_url(text)
    except ArgumentError:
        return None


def _is_of(url: URL, server: URL) -> bool:
    return (url.host, url.port or DEFAULT_PORT) == (server.host, server.port or DEFAULT_PORT)
