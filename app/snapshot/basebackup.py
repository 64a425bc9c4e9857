"""`basebackup`: pg_basebackup of the whole server with the WAL it needs, restored as a separate server.

Consistent as of the backup's end: the ledger read before its begin is in it, the one read after its end may not be.
Prepared transactions are in it, with their locks. A server with fewer slots than that does not start, so the restored
one has at least as many as the original.

Restore: copy under another name beside the destination, configure, mark, rename, start, read the ledger.
"""

import shutil
from pathlib import Path

from sqlalchemy import text

from app import failpoint
from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import ConfigInvalid, EnvironmentMissing, Refused, TargetMismatch
from app.snapshot import postgres_programs as programs
from app.snapshot.driver import Restored, RestorePlace, too_few_slots
from app.snapshot.manifest import SnapshotContent
from app.snapshot.postgres_programs import Connecting, Programs
from app.snapshot.restored_cluster import LOOPBACK, Cluster, reachable
from app.snapshot.snapshot_directory import DATA, Progress, StoredSnapshot, alone, sync_tree
from app.snapshot.target_info import NAME, look, looking, seen, server

_TABLESPACES = text("select spcname from pg_tablespace where spcname not in ('pg_default', 'pg_global') order by 1")
_MAY = text("select rolsuper or rolreplication, current_user from pg_roles where rolname = current_user")
#: options of a URL's query that address the original
_WAY = ("host", "hostaddr", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding")


class BaseBackup:
    """The driver `basebackup`. See `Driver`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._programs = Programs(Path(settings.snapshots.bin_dir) if settings.snapshots.bin_dir else None)
        self._url = settings.snapshots.url or settings.target.url

    def create(self, name: str, part: Path, progress: Progress) -> SnapshotContent:
        self._check()
        with looking(self._settings) as connection:
            facts, first = server(connection), seen(connection, self._settings)
        program = self._programs.find("pg_basebackup", at_least=facts.major)
        connecting = Connecting.to(self._url, NAME)
        words = [
            *(f"--pgdata={part / DATA}", "--format=plain", "--wal-method=stream", "--checkpoint=fast"),
            *("--manifest-checksums=SHA256", f"--label=surelane {name}", "--progress", f"--dbname={connecting.dsn}"),
        ]
        programs.run(program, words, progress, connecting)
        with looking(self._settings) as connection:
            last = seen(connection, self._settings)
        return SnapshotContent(server=facts, first=first, last=last, program=program.version)

    def faults(self, stored: StoredSnapshot, progress: Progress) -> list[str]:
        """Run pg_verifybackup: it checks the files against the backup's manifest, and reads the WAL."""
        program = self._programs.find("pg_verifybackup", exactly=stored.manifest.content.server.major)
        try:
            programs.run(program, ["--quiet", str(stored.data)], progress)
        except EnvironmentMissing as error:
            return [error.message]
        return []

    def delete(self, stored: StoredSnapshot) -> None:
        """Do nothing: all files are in the directory of snapshots."""

    def restore(self, stored: StoredSnapshot, destination: RestorePlace, progress: Progress) -> Restored:
        cluster = Cluster(Path(destination.to).expanduser().absolute())
        limit = _slots(stored, destination)
        if destination.port is None:
            raise ConfigInvalid("say on which port the restored server is to listen", hint="--port 5433")
        pg_ctl = self._programs.find("pg_ctl", exactly=stored.manifest.content.server.major)
        if not cluster.folder.parent.is_dir():
            raise ConfigInvalid(f"{cluster.folder.parent} is not there", hint="make it, or choose another --to")
        reachable(cluster.folder)
        with alone(cluster.folder):
            if not _is_there(cluster, stored):
                self._copy(stored, cluster, destination.port, limit, progress)
            if not cluster.runs(pg_ctl):
                progress("starting the restored server")
                cluster.configure(destination.port, limit)
                cluster.hand_over()
                cluster.make_log()
                failpoint.reach("restore-before-start")
                cluster.start(pg_ctl)
            failpoint.reach("restore-before-reading")
            read_before = bool((cluster.marked() or {}).get("asked"))
            there = self._settings.target.url.difference_update_query(_WAY)
            url = there.set(host=LOOPBACK, port=_port(cluster, destination.port))
            restored = look(url, self._settings, before=read_before)
            if restored.seen:
                cluster.mark(**_marks(stored), asked=True)
            return restored

    def _copy(self, stored: StoredSnapshot, cluster: Cluster, port: int, limit: int, progress: Progress) -> None:
        part = Cluster(cluster.folder.with_name(f".{cluster.folder.name}.surelane-part"))
        shutil.rmtree(part.folder, ignore_errors=True)
        progress("copying")
        shutil.copytree(stored.data, part.folder, symlinks=True)
        part.configure(port, limit)
        part.mark(**_marks(stored))
        part.hand_over()
        sync_tree(part.folder)
        failpoint.reach("restore-before-rename")
        part.folder.rename(cluster.folder)

    def _check(self) -> None:
        """Check preconditions before the long copy: REPLICATION and no tablespaces."""
        with translated("snapshot: reading the server"), make_engine(self._url, None, NAME).connect() as connection:
            allowed, user = connection.execute(_MAY).one()
            tablespaces = connection.execute(_TABLESPACES).scalars().all()
        if not allowed:
            hint = f'ALTER ROLE "{user}" REPLICATION; or name another role in snapshots.url. Or use the driver dump'
            raise TargetMismatch(f"{user} may not take a base backup: it lacks REPLICATION", hint=hint)
        if tablespaces:
            raise Refused(
                f"the server has tablespaces ({', '.join(tablespaces)}), which this driver would lay in one folder",
                hint="use the driver dump",
            )


def _slots(stored: StoredSnapshot, destination: RestorePlace) -> int:
    """max_prepared_transactions of the restored server; raises Refused if it is too low to start."""
    least = stored.manifest.content.server.max_prepared_transactions
    wanted = least if destination.max_prepared_transactions is None else destination.max_prepared_transactions
    if wanted < least:
        hint = f"--max-prepared-transactions {least} or more, or leave it out"
        raise too_few_slots(f"max_prepared_transactions {wanted} is too low", stored, hint)
    return wanted


def _is_there(cluster: Cluster, stored: StoredSnapshot) -> bool:
    if not cluster.folder.exists() or (cluster.folder.is_dir() and not any(cluster.folder.iterdir())):
        return False
    if _marks(stored).items() <= (cluster.marked() or {}).items():
        return True
    raise Refused(
        f"{cluster.folder} is there and not empty: a snapshot is never restored over anything",
        hint="name a folder that does not exist; it is made",
    )


def _marks(stored: StoredSnapshot) -> dict[str, object]:
    return {"snapshot": stored.manifest.name, "sums": stored.manifest.sums}


def _port(cluster: Cluster, default: int) -> int:
    """The server's port: a server that ran already may listen on another port than `default`."""
    file = cluster.folder / "postmaster.pid"
    lines = file.read_text().splitlines() if file.exists() else []
    return int(lines[3]) if len(lines) > 3 and lines[3].isdigit() else default
