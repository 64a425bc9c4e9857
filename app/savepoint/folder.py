"""Savepoints in a directory, each a folder of its name: whole, or not there.

A folder has `savepoint.json` and `SHA256SUMS`, which `sha256sum --check` reads, and which makes it whole. No path is
inside, so a folder may be moved or copied to another machine or place; its name is part of the content.
"""

import datetime
import hashlib
import json
from pathlib import Path

from app.errors import ConfigInvalid, Refused
from app.savepoint.place import SEAL, place_of
from app.savepoint.savepoint import Savepoint
from app.snapshot.snapshot_directory import MAX_NAME_CHARACTERS, NAME, free_name

CONTENT, SUMS = "savepoint.json", SEAL


class SavepointFolder:
    """The directory `savepoints.directory`, wherever it is. Its calls raise ConfigInvalid where it cannot be used."""

    def __init__(self, root: str | Path) -> None:
        #: a path, or a URI without a login
        self.root = str(root)
        self._place = place_of(root)

    def names(self) -> list[str]:
        """Those of all folders that may be savepoints."""
        return sorted(filter(NAME.fullmatch, self._place.names()))

    def listing(self) -> tuple[list[Savepoint], dict[str, str]]:
        """The savepoints, the oldest first; and why others cannot be used, by name."""
        found = {name: self._read(name) for name in self.names()}
        usable = [one for one in found.values() if isinstance(one, Savepoint)]
        broken = {name: one for name, one in found.items() if isinstance(one, str)}
        if broken:  # or disposed since the names were read, as a lane does with its oldest
            broken = {name: broken[name] for name in self.names() if name in broken}
        return sorted(usable, key=lambda one: one.made_at), broken

    def get(self, name: str) -> Savepoint:
        """The savepoint of this name. Raises Refused where there is none, or it is not what was written."""
        self._check_there(name)
        found = self._read(name)
        if isinstance(found, str):
            raise Refused(f"savepoint {name} cannot be used: {found}", hint="use another one: surelane savepoint list")
        return found

    def problem(self, name: str) -> str | None:
        """Why a savepoint cannot be used; None: it can."""
        if name not in self.names():
            return f"there is no savepoint {name} in {self.root}"
        found = self._read(name)
        return found if isinstance(found, str) else None

    def _check_there(self, name: str) -> None:
        if name not in self.names():
            raise self._missing(name)

    def _missing(self, name: str) -> Refused:
        return Refused(f"there is no savepoint {name} in {self.root}", hint="surelane savepoint list")

    def _read(self, name: str) -> Savepoint | str:
        """The savepoint, or why it cannot be used."""
        try:
            content, sums = self._place.read(name, CONTENT), self._place.read(name, SUMS).decode()
        except OSError as error:
            return f"{Path(error.filename or name).name}: {error.strerror}"
        except UnicodeDecodeError:
            return f"{SUMS}: is not what was written"
        if sums != _sums(content):
            return f"{CONTENT}: is not what was written"
        try:
            found = Savepoint.of(json.loads(content))
        except (ValueError, KeyError, TypeError) as error:
            return f"{CONTENT}: {type(error).__name__}: {error}"
        return found if found.name == name else f"{CONTENT}: is of savepoint {found.name}"

    def free_name(self, lane: str) -> str:
        """A name of lane and time that no other savepoint has."""
        return free_name(self._place.has, lane, datetime.datetime.now(datetime.UTC))

    def check_free(self, name: str) -> None:
        """Raises ConfigInvalid for a name that no savepoint may have, Refused for one that is taken."""
        if not NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
            raise ConfigInvalid(
                f"{name!r} is no name for a savepoint",
                hint=f"small letters, digits and single hyphens, at most {MAX_NAME_CHARACTERS}",
            )
        if self._place.has(name):
            raise _taken(name)

    def write(self, savepoint: Savepoint) -> str:
        """Write a savepoint; returns its folder. Raises Refused where the name is taken."""
        content = json.dumps(savepoint.as_json(), indent=1, sort_keys=True)
        try:
            self._place.write(savepoint.name, {CONTENT: content, SUMS: _sums(content.encode())})
        except FileExistsError:
            raise _taken(savepoint.name) from None
        return self._place.folder(savepoint.name)

    def dispose(self, name: str) -> None:
        """Remove a savepoint, also one that cannot be used. Raises Refused where there is none."""
        self._check_there(name)
        try:
            self._place.remove(name)
        except FileNotFoundError:  # another process was faster
            raise self._missing(name) from None


def _taken(name: str) -> Refused:
    return Refused(f"there is a savepoint {name} already", hint="choose another name")


def _sums(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {CONTENT}\n"
