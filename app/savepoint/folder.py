"""Savepoints in a directory, each a folder of its name: whole, or not there.

A folder has `savepoint.json` and `SHA256SUMS`, which `sha256sum --check` reads. No path is inside, so a folder may be
moved or copied to another machine; its name is part of the content.
"""

import datetime
import errno
import hashlib
import json
import os
import shutil
import uuid
from pathlib import Path

from app import failpoint
from app.errors import ConfigInvalid, Refused
from app.private import FOLDER_MODE, write_text
from app.savepoint.savepoint import Savepoint
from app.snapshot.snapshot_directory import MAX_NAME_CHARACTERS, NAME, free_name, sync

CONTENT, SUMS = "savepoint.json", "SHA256SUMS"
_PART, _DISPOSED = ".part-", ".disposed-"


class SavepointFolder:
    """The directory `savepoints.directory`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """Those of all folders that may be savepoints."""
        found = self.root.iterdir() if self.root.is_dir() else ()
        return sorted(one.name for one in found if one.is_dir() and NAME.fullmatch(one.name))

    def listing(self) -> tuple[list[Savepoint], dict[str, str]]:
        """The savepoints, the oldest first; and why others cannot be used, by name."""
        found = {name: self._read(name) for name in self.names()}
        usable = [one for one in found.values() if isinstance(one, Savepoint)]
        broken = {name: one for name, one in found.items() if isinstance(one, str)}
        return sorted(usable, key=lambda one: one.made_at), broken

    def get(self, name: str) -> Savepoint:
        """The savepoint of this name. Raises Refused where there is none, or it is not what was written."""
        if not NAME.fullmatch(name) or not (self.root / name).is_dir():
            raise Refused(f"there is no savepoint {name} in {self.root}", hint="surelane savepoint list")
        found = self._read(name)
        if isinstance(found, str):
            raise Refused(f"savepoint {name} cannot be used: {found}", hint="use another one: surelane savepoint list")
        return found

    def problem(self, name: str) -> str | None:
        """Why a savepoint cannot be used; None: it can."""
        found = self._read(name)
        return found if isinstance(found, str) else None

    def _read(self, name: str) -> Savepoint | str:
        """The savepoint, or why it cannot be used."""
        folder = self.root / name
        try:
            content, sums = (folder / CONTENT).read_bytes(), (folder / SUMS).read_text()
        except OSError as error:
            return f"{Path(error.filename or folder).name}: {error.strerror}"
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
        return free_name(self.root, lane, datetime.datetime.now(datetime.UTC))

    def check_free(self, name: str) -> None:
        """Raises ConfigInvalid for a name that no savepoint may have, Refused for one that is taken."""
        if not NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
            raise ConfigInvalid(
                f"{name!r} is no name for a savepoint",
                hint=f"small letters, digits and single hyphens, at most {MAX_NAME_CHARACTERS}",
            )
        if (self.root / name).exists():
            raise Refused(f"there is a savepoint {name} already", hint="choose another name")

    def write(self, savepoint: Savepoint) -> Path:
        """Write a savepoint; it exists from the rename on. Raises Refused where the name is taken."""
        self._make_root()
        part = self.root / f"{_PART}{savepoint.name}-{uuid.uuid4().hex}"
        content = json.dumps(savepoint.as_json(), indent=1, sort_keys=True).encode()
        try:
            part.mkdir(mode=FOLDER_MODE)
            write_text(part / CONTENT, content.decode())
            failpoint.reach("savepoint-before-sums")
            write_text(part / SUMS, _sums(content))
            for one in (part / CONTENT, part / SUMS, part):
                sync(one)
            failpoint.reach("savepoint-before-rename")
            folder = self.root / savepoint.name
            try:
                part.rename(folder)  # over an empty folder only
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                raise Refused(f"there is a savepoint {savepoint.name} already", hint="choose another name") from None
            sync(self.root)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return folder

    def dispose(self, name: str) -> None:
        """Remove a savepoint, also one that cannot be used. Raises Refused where there is none."""
        if not NAME.fullmatch(name) or not (self.root / name).is_dir():
            raise Refused(f"there is no savepoint {name} in {self.root}", hint="surelane savepoint list")
        doomed = self.root / f"{_DISPOSED}{name}-{uuid.uuid4().hex}"
        (self.root / name).rename(doomed)
        sync(self.root)
        failpoint.reach("savepoint-disposed")
        for one in self.root.glob(f"{_DISPOSED}*"):  # also what an earlier call has left
            shutil.rmtree(one, ignore_errors=True)

    def _make_root(self) -> None:
        try:
            self.root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            hint = "let this user write there, or choose another savepoints.directory"
            raise ConfigInvalid(f"savepoints.directory: {self.root} cannot be made: {error}", hint=hint) from None
        if not os.access(self.root, os.W_OK):
            hint = "let this user write there, or choose another savepoints.directory"
            raise ConfigInvalid(f"savepoints.directory: {self.root} cannot be written to", hint=hint)


def _sums(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {CONTENT}\n"
