"""`dump`: pg_dump of the target's database in the directory format, restored into a new database.

The ledger is read in the database snapshot that pg_dump uses, so the position is exact. Prepared transactions are not
in it. The lane's staging tables are left out: the lane truncates them between epochs and would wait for the dump's
locks. The dump's other locks block only DDL.

Restore: a database that does not exist is created under another name, filled, marked by its comment and renamed, so
it is whole once it has its name. An empty database that exists is filled in one transaction.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic_core import PydanticCustomError
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from app import failpoint
from app.config.settings import Settings
from app.config.values import postgres_url
from app.db.engine import make_engine
from app.db.locks import try_lock
from app.db.sql import literal, quoted, run
from app.db.sqlstate import translated
from app.errors import ConfigInvalid, EnvironmentMissing, Refused
from app.snapshot import postgres_programs as programs
from app.snapshot.driver import Restored, RestorePlace
from app.snapshot.manifest import SnapshotContent
from app.snapshot.postgres_programs import Connecting, Programs
from app.snapshot.snapshot_directory import DATA, Progress, StoredSnapshot
from app.snapshot.target_info import NAME, seen, server

#: milliseconds that pg_dump waits for a lock, such as an ALTER TABLE's
LOCK_WAIT_MS = 60_000
#: the database to connect to for creating and renaming others
MAINTENANCE_DATABASE = "postgres"
_PART = ".surelane-part"
_MAX_NAME_BYTES = 63
_EXPORT = text("select pg_export_snapshot()")
_DATABASE = text("select shobj_description(oid, 'pg_database') comment from pg_database where datname = :name")
_HOLDS = text("""
    select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
""")
#: through jsonb, since column names depend on the server's version
_LOCALE = text("""
    select pg_encoding_to_char(encoding) encoding, datcollate, datctype, to_jsonb(d) ->> 'datlocprovider' provider,
        coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale') locale
    from pg_database d where datname = current_database()
""")
#: pg_database.datlocprovider -> the words of CREATE DATABASE
_PROVIDERS = {"i": ("icu", "icu_locale"), "b": ("builtin", "builtin_locale")}
_MISSING_ROLES = text("""
    select wanted from unnest(cast(:roles as text[])) wanted where to_regrole(quote_ident(wanted)) is null
""")


class Dump:
    """The driver `dump`. See `Driver`."""

    def __init__(self, settings: Settings, beside: Callable[[Connection], None] | None = None) -> None:
        """`beside`: called in `create` with a connection that reads exactly the content of the dump."""
        self._settings, self._beside = settings, beside
        self._programs = Programs(Path(settings.snapshots.bin_dir) if settings.snapshots.bin_dir else None)
        self._url = settings.snapshots.url or settings.target.url
        self._role = settings.target.owner_role if settings.snapshots.url is None else None

    def create(self, name: str, part: Path, progress: Progress) -> SnapshotContent:
        engine = make_engine(self._url, self._role, NAME).execution_options(isolation_level="REPEATABLE READ")
        with translated("snapshot: reading the target"), engine.connect() as connection:
            run(connection, "set idle_in_transaction_session_timeout = 0")
            connection.commit()
            exported = connection.execute(_EXPORT).scalar_one()
            facts, found = server(connection), seen(connection, self._settings)
            if self._beside is not None:
                self._beside(connection)
            locale = dict(connection.execute(_LOCALE).mappings().one())
            program = self._programs.find("pg_dump", at_least=facts.major)
            words = [
                *("--format=directory", f"--file={part / DATA}", f"--jobs={self._settings.snapshots.jobs}"),
                *(f"--snapshot={exported}", f"--lock-wait-timeout={LOCK_WAIT_MS}", "--verbose"),
                f"--exclude-table={quoted(self._settings.target.db_schema)}.stage_*",
                *([f"--role={self._role}"] if self._role else []),
            ]
            self._run(program, words, progress, self._url)
        return SnapshotContent(server=facts, first=found, last=None, program=program.version, more=locale)

    def faults(self, stored: StoredSnapshot, progress: Progress) -> list[str]:
        """Have pg_restore list the dump's contents."""
        program = self._programs.find("pg_restore", at_least=_made_by(stored))
        try:
            programs.run(program, ["--list", "--file=/dev/null", str(stored.data)], progress)
        except EnvironmentMissing as error:
            return [error.message]
        return []

    def delete(self, stored: StoredSnapshot) -> None:
        """Do nothing: all files are in the directory of snapshots."""

    def restore(self, stored: StoredSnapshot, destination: RestorePlace, progress: Progress) -> Restored:
        if destination.port is not None or destination.max_prepared_transactions is not None:
            hint = "they are for a base backup, which makes a server; a dump goes into one that is there"
            raise ConfigInvalid("--port and --max-prepared-transactions mean nothing for a dump", hint=hint)
        url = self._checked(destination.to)
        name = str(url.database)
        with translated(f"restoring into {name}"), _maintenance(url) as connection:
            if not try_lock(connection, f"restore into {name}"):  # no lane has this name: it has spaces
                raise Refused(f"another restore into {name} is at work", hint="wait for its end")
            before = self._is_there(connection, stored, url)
            if not before:
                _roles_are_there(connection, stored, destination)
                self._fill(connection, stored, url, destination, progress)
        with translated("reading what was restored"), make_engine(url, None, NAME).connect() as connection:
            return Restored(url=url, seen=seen(connection, self._settings), before=before)

    def _checked(self, to: str) -> URL:
        """The destination's URL; raises ConfigInvalid for an invalid one, Refused for a name that is too long."""
        try:
            url = postgres_url(to)
        except PydanticCustomError as error:
            raise ConfigInvalid(f"--to: {error.message()}", hint=(error.context or {}).get("hint")) from None
        name = str(url.database)
        if len(f"{name}{_PART}".encode()) > _MAX_NAME_BYTES:
            raise Refused(f"{name!r} is too long a name for a database to restore into", hint="choose a shorter one")
        return url

    def _is_there(self, connection: Connection, stored: StoredSnapshot, url: URL) -> bool:
        """Whether an earlier call restored it; raises Refused for a database with other content."""
        row = connection.execute(_DATABASE, {"name": url.database}).first()
        if row is None:
            return False
        if row.comment == _mark(stored):
            return True
        with make_engine(url, None, NAME).connect() as inside:
            if not inside.execute(_HOLDS).scalar_one():
                return False
        if row.comment == _mark(
            stored, begun=True
        ):  # one transaction fills it, so a database that has some of it has all
            _comment(connection, str(url.database), _mark(stored))
            return True
        raise Refused(
            f"database {url.database} is there and not empty: a snapshot is never restored over anything",
            hint="name a database that does not exist; it is made",
        )

    def _fill(
        self, connection: Connection, stored: StoredSnapshot, url: URL, destination: RestorePlace, progress: Progress
    ) -> None:
        name = str(url.database)
        found = self._programs.find("pg_restore", at_least=_made_by(stored))
        program = programs.restores_into(found, server(connection).major)
        words = ["--exit-on-error", "--verbose", *([] if destination.owners else ["--no-owner", "--no-privileges"])]
        if connection.execute(_DATABASE, {"name": name}).first() is not None:
            _comment(connection, name, _mark(stored, begun=True))
            self._run(program, [*words, "--single-transaction", str(stored.data)], progress, url)
            failpoint.reach("restore-before-rename")
            _comment(connection, name, _mark(stored))
            return
        part = f"{name}{_PART}"
        run(connection, f"drop database if exists {quoted(part)} with (force)")
        run(connection, f"create database {quoted(part)} template template0{_locale(stored)}")
        jobs = f"--jobs={self._settings.snapshots.jobs}"
        self._run(program, [*words, jobs, str(stored.data)], progress, url.set(database=part))
        failpoint.reach("restore-before-rename")
        _comment(connection, part, _mark(stored))
        run(connection, f"alter database {quoted(part)} rename to {quoted(name)}")

    def _run(self, program: programs.Program, words: list[str], progress: Progress, url: URL) -> None:
        connecting = Connecting.to(url, NAME)
        programs.run(program, [*words, f"--dbname={connecting.dsn}"], progress, connecting)


def _made_by(stored: StoredSnapshot) -> int:
    """The least major version of pg_restore for it: that of its pg_dump, or of its server."""
    found = programs.major(stored.manifest.content.program)
    return max(found, stored.manifest.content.server.major)


def _locale(stored: StoredSnapshot) -> str:
    """Options of CREATE DATABASE for the original's encoding and collation."""
    more = stored.manifest.content.more
    words = {"encoding": more["encoding"], "lc_collate": more["datcollate"], "lc_ctype": more["datctype"]}
    if more["provider"] in _PROVIDERS:
        provider, option = _PROVIDERS[more["provider"]]
        words |= {"locale_provider": provider, option: more["locale"]}
    return "".join(f" {name} {literal(value)}" for name, value in words.items())


def _mark(stored: StoredSnapshot, *, begun: bool = False) -> str:
    manifest = stored.manifest
    return f"Surelane: snapshot {manifest.name}, {manifest.sums[:16]}{', being restored' if begun else ''}"


def _comment(connection: Connection, database: str, words: str) -> None:
    run(connection, f"comment on database {quoted(database)} is {literal(words)}")


def _roles_are_there(connection: Connection, stored: StoredSnapshot, destination: RestorePlace) -> None:
    roles = list(stored.manifest.content.server.roles)
    if not destination.owners or not roles:
        return
    missing = connection.execute(_MISSING_ROLES, {"roles": roles}).scalars().all()
    if missing:
        statements = " ".join(f"CREATE ROLE {quoted(role)} LOGIN;" for role in missing)
        raise Refused(
            f"roles of the snapshot that this server does not have: {', '.join(missing)}. Nothing was changed",
            hint=f"{statements} Or --no-owner: everything belongs to the role that restores",
        )


@contextmanager
def _maintenance(url: URL) -> Iterator[Connection]:
    """An autocommit connection for CREATE DATABASE; its session locks end with it."""
    engine = make_engine(url.set(database=MAINTENANCE_DATABASE), None, NAME)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        yield connection
