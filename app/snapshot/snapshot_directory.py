"""The directory of snapshots: whole ones, unfinished ones, and leftovers of dead processes."""

import datetime
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import failpoint
from app.errors import ConfigInvalid, Refused
from app.private import write_text
from app.snapshot.manifest import Manifest, TargetView

#: RDS accepts these names, too
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MAX_NAME_CHARACTERS = 63
#: characters kept free for hyphens, and for a number if several begin within a second
_NUMBER_CHARACTERS = 5
MANIFEST, SUMS, ACTUAL, DATA = "manifest.json", "SHA256SUMS", "actual.json", "data"
_PART, _DELETED = ".part-", ".deleted-"
_READ_BYTES = 1 << 20
#: only the owner may read: the files contain the whole database
_MODE = 0o700
Progress = Callable[[str], None]


@dataclass(frozen=True)
class StoredSnapshot:
    """A whole snapshot."""

    folder: Path
    manifest: Manifest

    @property
    def data(self) -> Path:
        """The folder of the driver's files."""
        return self.folder / DATA


@dataclass(frozen=True)
class Listing:
    """The content of the directory."""

    #: the oldest first
    snapshots: list[StoredSnapshot]
    #: names of those in progress, or left by a process that died
    unfinished: list[str]
    #: name, and why its manifest cannot be read
    broken: list[tuple[str, str]]


class Directory:
    """The directory `snapshots.directory`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def listing(self) -> Listing:
        """All snapshots; empty if the directory does not exist."""
        found: list[StoredSnapshot] = []
        broken: list[tuple[str, str]] = []
        folders = sorted(one for one in self.root.iterdir() if one.is_dir()) if self.root.is_dir() else []
        for folder in folders:
            if NAME.fullmatch(folder.name):
                try:
                    found.append(_stored(folder))
                except (OSError, ValueError, KeyError, TypeError) as error:
                    broken.append((folder.name, f"{MANIFEST}: {error}"))
        found.sort(key=lambda one: (one.manifest.made_at, one.manifest.name))
        unfinished = [one.name.removeprefix(_PART) for one in folders if one.name.startswith(_PART)]
        return Listing(found, unfinished, broken)

    def get(self, name: str) -> StoredSnapshot:
        """The whole snapshot of this name; raises Refused if there is none, or its manifest cannot be read."""
        folder = self.root / name
        if not NAME.fullmatch(name) or not folder.is_dir():
            raise Refused(f"there is no snapshot {name} in {self.root}", hint="surelane snapshot list")
        try:
            return _stored(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused(f"{folder / MANIFEST} cannot be read: {error}", hint="surelane snapshot delete it") from None

    def has(self, name: str) -> bool:
        """Whether the name is taken."""
        return (self.root / name).exists()

    @contextmanager
    def begun(self, name: str) -> Iterator[Path]:
        """A locked folder to make the snapshot in; it is removed on exit unless `keep` has renamed it.

        Raises Refused if the name is taken, ConfigInvalid if the directory cannot be made.
        """
        if self.has(name):
            raise Refused(f"there is a snapshot {name} already", hint="choose another --name, or delete it")
        self._make_root()
        part = self.root / f"{_PART}{name}"
        with ExitStack() as stack:
            with _held(self.root, wait=True):  # else another process could remove the folder before it is locked
                self._clear()
                try:
                    part.mkdir(mode=_MODE)
                except FileExistsError:
                    raise Refused(
                        f"another process makes a snapshot {name} right now", hint="choose another --name"
                    ) from None
                stack.enter_context(_held(part))
            try:
                yield part
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def keep(self, part: Path, manifest: Manifest) -> StoredSnapshot:
        """Write the manifest, fsync, and rename: from then on the snapshot exists."""
        failpoint.reach("snapshot-before-manifest")
        _write(part / MANIFEST, json.dumps(manifest.as_json(), indent=1))
        sync(part)
        failpoint.reach("snapshot-before-rename")
        folder = self.root / manifest.name
        part.rename(folder)
        sync(self.root)
        return _stored(folder)

    def set_actual(self, stored: StoredSnapshot, seen: TargetView) -> StoredSnapshot:
        """Record what the first restore found inside."""
        _write(stored.folder / ".part", json.dumps(seen.as_json(), indent=1))
        (stored.folder / ".part").rename(stored.folder / ACTUAL)
        sync(stored.folder)
        return StoredSnapshot(stored.folder, stored.manifest.with_actual(seen))

    def delete(self, name: str) -> None:
        """Rename the snapshot, then remove its files. Works for one that cannot be read, too."""
        doomed = self.root / f"{_DELETED}{name}"
        with _held(self.root, wait=True):
            shutil.rmtree(doomed, ignore_errors=True)
            (self.root / name).rename(doomed)
            sync(self.root)
            shutil.rmtree(doomed)

    def _make_root(self) -> None:
        try:
            self.root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        except OSError as error:
            hint = "let this user write there, or choose another snapshots.directory"
            raise ConfigInvalid(f"snapshots.directory: {self.root} cannot be made: {error}", hint=hint) from None

    def _clear(self) -> None:
        """Remove what dead processes left: folders of live ones are locked."""
        for folder in [*self.root.glob(f"{_PART}*"), *self.root.glob(f"{_DELETED}*")]:
            try:
                with _held(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            except (BlockingIOError, FileNotFoundError):
                continue


def write_sums(part: Path, progress: Progress) -> tuple[str, int, int]:
    """Write the checksums of all files in DATA for `sha256sum --check`; return the list's checksum, files, bytes."""
    lines: list[str] = []
    size = 0
    for path in _files(part / DATA):
        progress(f"checksums: {path.relative_to(part)}")
        lines.append(f"{_sha256(path)}  {path.relative_to(part)}\n")
        size += path.stat().st_size
    text = "".join(lines)
    _write(part / SUMS, text)
    return hashlib.sha256(text.encode()).hexdigest(), len(lines), size


def faults(stored: StoredSnapshot, progress: Progress) -> list[str]:
    """Files that differ from their checksums, are missing, or are new; one text each."""
    file = stored.folder / SUMS
    try:
        text = file.read_bytes()
    except OSError as error:
        return [f"{SUMS}: {error.strerror}"]
    if hashlib.sha256(text).hexdigest() != stored.manifest.sums:
        return [f"{SUMS}: is not the one that was written"]
    wanted = {name: checksum for checksum, _, name in (line.partition("  ") for line in text.decode().splitlines())}
    found: list[str] = []
    for path in _files(stored.data):
        name = str(path.relative_to(stored.folder))
        progress(f"checksums: {name}")
        if name not in wanted:
            found.append(f"{name}: was not there when it was made")
        elif _sha256(path) != wanted.pop(name):
            found.append(f"{name}: is not what was written")
    return [*found, *(f"{name}: is missing" for name in wanted if not (stored.folder / name).exists())]


def sync_tree(folder: Path) -> None:
    """fsync all files and folders in a folder."""
    for path in _files(folder):
        sync(path)
    for path in [folder, *(one for one in folder.rglob("*") if one.is_dir())]:
        sync(path)


def _stored(folder: Path) -> StoredSnapshot:
    manifest = Manifest.of(_json(folder / MANIFEST))
    if manifest.name != folder.name:
        raise ValueError(f"it is of the snapshot {manifest.name}")
    if (folder / ACTUAL).exists():
        manifest = manifest.with_actual(TargetView.of(_json(folder / ACTUAL)))
    return StoredSnapshot(folder, manifest)


def _json(path: Path) -> dict[str, Any]:
    plain = json.loads(path.read_text("utf-8"))
    if not isinstance(plain, dict):
        raise ValueError("it holds no object")
    return plain


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            found.update(chunk)
    return found.hexdigest()


def _write(path: Path, text: str) -> None:
    write_text(path, text)
    sync(path)


def free_name(is_taken: Callable[[str], bool], lane: str, at: datetime.datetime) -> str:
    """A name of lane and time that is free: two may begin within a second."""
    name = timed_name(lane, at)
    numbered = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(one for one in numbered if not is_taken(one))


def timed_name(lane: str, at: datetime.datetime) -> str:
    when = at.strftime("%Y%m%d-%H%M%S")
    shown = re.sub(r"[^a-z0-9]+", "-", lane)[: MAX_NAME_CHARACTERS - len(when) - _NUMBER_CHARACTERS].strip("-")
    return f"{shown}-{when}"


def sync(path: Path) -> None:
    """fsync a file, or a folder's names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Lock a restore's destination, which need not exist; raises Refused if another restore holds the lock."""
    file = place.with_name(f".{place.name}.surelane-lock")
    file.touch(mode=0o600)
    with ExitStack() as stack:
        try:
            stack.enter_context(_held(file))
        except BlockingIOError:
            raise Refused(f"another restore to {place} is at work", hint="wait for its end") from None
        yield
        file.unlink(missing_ok=True)


@contextmanager
def _held(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold an exclusive flock; raises BlockingIOError if another process has it, unless `wait`. It ends with the
    process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
