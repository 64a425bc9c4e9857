"""Creates, lists, checks, deletes and restores the snapshots of one configuration, with any driver."""

import datetime
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from app.config.settings import Settings, SnapshotDriver
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import Diverged, EnvironmentMissing, Refused, SurelaneError
from app.snapshot.basebackup import BaseBackup
from app.snapshot.driver import Driver, Restored, RestorePlace
from app.snapshot.dump import Dump
from app.snapshot.manifest import Manifest, TargetView
from app.snapshot.rds import AmazonRds
from app.snapshot.snapshot_directory import (
    MAX_NAME_CHARACTERS,
    NAME,
    Directory,
    Listing,
    Progress,
    StoredSnapshot,
    faults,
    free_name,
    write_sums,
)
from app.snapshot.snapshot_records import Recorded, Records
from app.snapshot.target_info import pinned, rate

_APPLICATION = "surelane snapshot"
_IS_COPY = text("select pg_is_in_recovery()")
_DRIVERS: dict[SnapshotDriver, Callable[[Settings], Driver]] = {
    SnapshotDriver.BASEBACKUP: BaseBackup,
    SnapshotDriver.DUMP: Dump,
    SnapshotDriver.RDS: AmazonRds,
}


@dataclass(frozen=True)
class Made:
    """The result of `create`."""

    stored: StoredSnapshot
    #: names of the snapshots that were deleted for `keep`
    deleted: list[str]
    #: why the target has no record of it, so metrics lack it
    trouble: str | None


class Snapshots:
    """The snapshots of the lane of `settings`."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        self.directory = Directory(Path(settings.snapshots.directory))
        self._records = Records(settings.target.db_schema)

    def create(
        self,
        name: str | None = None,
        driver: SnapshotDriver | None = None,
        keep: int | None = None,
        beside: Callable[[Connection], None] | None = None,
    ) -> Made:
        """Take a snapshot. `keep`: keep so many of the lane's snapshots by this driver, delete the oldest; `beside`:
        see `Dump`, which is the driver then."""
        begun = datetime.datetime.now(datetime.UTC)
        name = _checked(name) if name else free_name(self.directory.has, self._settings.lane, begun)
        kind = driver or self._driver
        with translated("snapshot: reading the ledger"), self._engine().connect() as connection:
            cluster_id, topics = pinned(connection, self._settings)
            speed = rate(connection, self._settings)
        maker = _DRIVERS[kind](self._settings) if beside is None else Dump(self._settings, beside)
        with _disk(f"making snapshot {name}"), self.directory.begun(name) as part:
            content = maker.create(name, part, self._progress)
            sums, files, size = write_sums(part, self._progress)
            manifest = Manifest(
                name=name,
                driver=kind,
                lane=self._settings.lane,
                schema=self._settings.target.db_schema,
                made_at=begun,
                ended_at=datetime.datetime.now(datetime.UTC),
                content=content,
                cluster_id=cluster_id,
                topics=topics,
                rate=speed,
                files=files,
                bytes=size if content.bytes is None else content.bytes,
                sums=sums,
            )
            stored = self.directory.keep(part, manifest)
        trouble = self._record()
        return Made(stored, self._retain(kind, keep), trouble)

    def listing(self) -> Listing:
        return self.directory.listing()

    def faults(self, name: str) -> list[str]:
        """Faults of a snapshot: files against their checksums, then the driver's check. Empty for a sound one."""
        stored = self.directory.get(name)
        return [*faults(stored, self._progress), *self._of(stored).faults(stored, self._progress)]

    def delete(self, name: str) -> None:
        """Delete a snapshot: what the driver keeps elsewhere, the record, and the files."""
        if any(name == broken for broken, _ in self.listing().broken):
            self._forget(name)  # its driver is not known: what RDS may have of it stays
            self.directory.delete(name)
            return
        stored = self.directory.get(name)
        self._of(stored).delete(stored)
        self._forget(name)
        self.directory.delete(name)

    def restore(
        self, name: str, destination: RestorePlace, *, verified: bool = False
    ) -> tuple[StoredSnapshot, Restored]:
        """Restore a snapshot to another place, and record its exact position. `verified`: skip the files' checksums.

        Raises Refused for a snapshot with faults, Diverged if the content lacks what the manifest promises.
        """
        stored = self.directory.get(name)
        found = [] if verified else faults(stored, self._progress)
        if found:
            listed = "".join(f"\n  {one}" for one in found[:10])
            raise Refused(
                f"snapshot {name} is not what was made, so it is not restored:{listed}",
                hint="take another one: surelane snapshot list",
            )
        with _disk(f"restoring snapshot {name}"):
            restored = self._of(stored).restore(stored, destination, self._progress)
        if restored.seen and not restored.before:
            _reaches(restored.seen, stored.manifest.content.first)
            if not stored.manifest.exact:
                stored = self.directory.set_actual(stored, restored.seen)
        return stored, restored

    @property
    def _driver(self) -> SnapshotDriver:
        return self._settings.snapshots.driver

    def _of(self, stored: StoredSnapshot) -> Driver:
        return _DRIVERS[stored.manifest.driver](self._settings)

    def _retain(self, kind: SnapshotDriver, keep: int | None) -> list[str]:
        if keep is None:
            return []
        mine = [one.manifest for one in self.listing().snapshots]
        names = [one.name for one in mine if (one.driver, one.lane) == (kind, self._settings.lane)]
        doomed = names[:-keep]
        for name in doomed:
            self.delete(name)
        return doomed

    def _record(self) -> str | None:
        """Record all snapshots of the lane, also those whose process died before it did. Returns why that failed."""
        place = f"{socket.gethostname()}:{self.directory.root}"
        mine = [one.manifest for one in self.listing().snapshots if one.manifest.lane == self._settings.lane]
        try:
            with translated("snapshot: writing the record"), self._engine().begin() as connection:
                if _is_copy(connection):
                    return "it is a standby, which cannot be written"
                for one in mine:
                    self._records.write(
                        connection,
                        Recorded(
                            name=one.name,
                            lane=one.lane,
                            driver=one.driver.value,
                            at=one.made_at,
                            position=one.seen.position,
                            exact=one.exact,
                            bytes=one.bytes,
                            place=place,
                        ),
                    )
        except SurelaneError as error:
            return error.message
        return None

    def _forget(self, name: str) -> None:
        with translated("snapshot: writing the record"), self._engine().begin() as connection:
            if not _is_copy(connection):
                self._records.delete(connection, name)

    def _engine(self) -> Engine:
        target = self._settings.target
        return make_engine(target.url, target.owner_role, _APPLICATION)


@contextmanager
def _disk(doing: str) -> Iterator[None]:
    """Turn an OSError inside into EnvironmentMissing."""
    try:
        yield
    except OSError as error:
        hint = "is there space, and may this user write there? Then call it again: nothing half-made is left"
        raise EnvironmentMissing(f"{doing}: {error}", hint=hint) from error


def _reaches(found: TargetView, first: TargetView) -> None:
    """Raise Diverged if the restored ledger is before `first`, read when the snapshot began."""
    least = first.position
    if any(found.position.get(tp, 0) < offset for tp, offset in least.items()):
        raise Diverged(
            f"the restored ledger is at {found.position}, but the target was at {least} when the snapshot was begun",
            hint="do not use what was restored, and report it: this must not be",
        )


def _is_copy(connection: Connection) -> bool:
    return bool(connection.execute(_IS_COPY).scalar_one())


def _checked(name: str) -> str:
    if not NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise Refused(
            f"{name!r} cannot name a snapshot",
            hint=f"a small letter first, then small letters, digits and single -, at most {MAX_NAME_CHARACTERS}",
        )
    return name
