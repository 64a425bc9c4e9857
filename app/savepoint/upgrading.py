"""Replaces the version of a lane: the old one stops it with a savepoint, the new one migrates and goes on from there.

    old: savepoint create          while the lane runs        new: does the configuration fit? else nothing was changed
    old: savepoint create --stop   the lane's last act        new: migrate
    new: run --from-savepoint      by the lane's init system or operator

The old version stops the lane, since its ledger is at the old revision. Until `migrate` the way back is to start the
old version again (`run --from-savepoint`); behind it, too, where there was nothing to migrate.
"""

import json
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import EnvironmentMissing, Refused
from app.installation import version
from app.ledger import migrations
from app.ledger.revision import current
from app.poison.guard_database import guard_engine
from app.savepoint.compatibility import blocking_text, compare
from app.savepoint.fingerprint import items
from app.savepoint.folder import SavepointFolder
from app.savepoint.savepoint import Savepoint
from app.snapshot.snapshot_directory import MAX_NAME_CHARACTERS

#: seconds for a call of the old version besides those that the lane may take to end
_CALL_SECONDS = 300.0
#: end of the name of the savepoint by which the configurations are compared
_CHECK = "-check"


@dataclass(frozen=True, kw_only=True)
class OldVersion:
    """The program of the version that runs the lane, and its configuration."""

    program: Sequence[str]
    config: Path | None

    def call(self, *arguments: str, seconds: float = _CALL_SECONDS) -> str:
        """Its stdout. Raises EnvironmentMissing where it cannot be run, Refused where it ends with another status."""
        own = ["--config", str(self.config)] if self.config is not None and arguments != ("--version",) else []
        command = [*self.program, *arguments, *own]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        except OSError as error:
            hint = "--from names the program of the version that runs the lane"
            raise EnvironmentMissing(f"{self.program[0]} cannot be run: {error}", hint=hint) from None
        except subprocess.TimeoutExpired:
            raise Refused(f"the old version did not end within {seconds:g} s: {' '.join(arguments)}") from None
        if done.returncode:
            raise Refused(
                f"the old version ended with status {done.returncode}: {' '.join(arguments)}",
                hint=done.stderr.strip() or "it printed nothing",
            )
        return done.stdout


@dataclass(frozen=True, kw_only=True)
class Upgraded:
    """The lane is stopped at the savepoint, and the ledger is at this version's revision."""

    savepoint: Savepoint
    #: versions, and revisions of the ledger's schema
    old: str
    new: str
    before: str | None
    after: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "savepoint": self.savepoint.name,
            "lane": self.savepoint.lane,
            "position": self.savepoint.position.nested(),
            "old": self.old,
            "new": self.new,
            "before": self.before,
            "after": self.after,
            "old_may_run": self.before == self.after,
        }


def upgrade(
    settings: Settings,
    old: OldVersion,
    name: str,
    *,
    allowed: Collection[str],
    with_snapshot: bool,
    seconds: int,
    progress: Callable[[str], None],
) -> Upgraded:
    """Upgrade the lane of `settings`, the new version's configuration. `seconds`: for the lane to end. Raises Refused,
    with the lane running as before, unless the configuration fits."""
    folder = SavepointFolder(settings.savepoints.directory)
    folder.check_free(name)
    words = old.call("--version").strip()
    progress("checking the configuration")
    _check(old, folder, settings, _check_name(name), allowed)
    progress("stopping the lane")
    more = ["--with-snapshot"] if with_snapshot else []
    old.call("savepoint", "create", name, "--stop", "--timeout", str(seconds), *more, seconds=seconds + _CALL_SECONDS)
    made = folder.get(name)
    progress("migrating")
    schema, target = settings.target.db_schema, settings.target
    engine = make_engine(target.url, target.owner_role, "surelane upgrade")
    with translated(f"migrating schema {schema} of the target"):
        before = current(engine, schema)
        migrations.upgrade(engine, schema)
        after = current(engine, schema)
    if settings.guard.url is not None:
        with translated(f"migrating schema {schema} of the guard's database"):
            migrations.upgrade(guard_engine(settings, "surelane upgrade"), schema)
    return Upgraded(savepoint=made, old=words, new=f"surelane {version()}", before=before, after=after)


def _check_name(name: str) -> str:
    return name[: MAX_NAME_CHARACTERS - len(_CHECK)].rstrip("-") + _CHECK


def _check(old: OldVersion, folder: SavepointFolder, settings: Settings, name: str, allowed: Collection[str]) -> None:
    """Compare the configurations by a savepoint of the running lane, which is disposed of."""
    printed = old.call("savepoint", "create", name, "--json")
    try:
        if name not in folder.names():
            raise Refused(
                f"the old version's savepoints are not in {folder.root}",
                hint="let savepoints.directory be the same place in both configurations",
            )
        found = Savepoint.of(json.loads(printed.strip().splitlines()[-1]))
        if text := blocking_text(compare(found.items, items(settings), allowed)):
            raise Refused(
                f"the new configuration does not go on from the lane as it runs: {text}",
                hint="nothing was changed; --allow-non-restored accepts a loss",
            )
    finally:
        old.call("savepoint", "dispose", name, "--yes")
