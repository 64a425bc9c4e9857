"""A real Postgres server without containers: a separate data directory, loopback only, trust authentication.

For root the server runs as another user (Postgres refuses root), which must be able to reach the directory.
`fsync` stays on: the tests kill servers and then check what is durable.
"""

import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil
import psycopg2
from psycopg2 import sql

from app.errors import EnvironmentMissing
from app.server_user import must_reach, server_user
from tools.devstack.ports import LOOPBACK, known_port, remembered_port
from tools.devstack.postgres_programs import run_program
from tools.devstack.process import has_ended, running, send
from tools.devstack.wait import wait_for

Rows = list[tuple[object, ...]]
StopMode = Literal["smart", "fast", "immediate"]
STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}

SUPERUSER = "postgres"
INITDB_OPTIONS = (
    "--auth=trust",
    f"--username={SUPERUSER}",
    "--encoding=UTF8",
    "--locale=C",
    "--data-checksums",
    "--no-sync",
)
START_SECONDS = 60
STOP_SECONDS = 60.0
KILL_SECONDS = 10.0

SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "100",
    "shared_buffers": "128MB",
}


@dataclass(frozen=True)
class Postgres:
    """A server that keeps its data in `data_dir`."""

    data_dir: Path
    port: int | None = None  #: None: a free port is chosen, then kept in data_dir
    settings: Mapping[str, str] = field(default_factory=dict)  #: override SETTINGS

    @property
    def cluster(self) -> Path:
        """PGDATA."""
        return self.data_dir / "cluster"

    @property
    def log_file(self) -> Path:
        return self.data_dir / "postgres.log"

    @property
    def pid(self) -> int | None:
        """Pid of the postmaster; None when the server is down."""
        process = self._process()
        return process.pid if process else None

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        port = self.port or known_port(self.data_dir / "port")
        if port is None:
            raise EnvironmentMissing("this Postgres has never been started", hint="./run stack up")
        return f"postgresql://{user}@{LOOPBACK}:{port}/{database}"

    def start(self) -> None:
        """Start the server if it is not running; returns when it accepts connections."""
        if self._serves():
            return
        self._make_cluster()
        self._clear_pid_file()
        self._write_settings()
        options = ["--wait", f"--timeout={START_SECONDS}", f"--log={self.log_file}", "--silent"]
        run_program("pg_ctl", ["start", f"--pgdata={self.cluster}", *options], self.log_file)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; SIGKILL after STOP_SECONDS. "immediate" is a crash: the next start recovers from WAL."""
        if process := self._process():
            send(process, STOP_SIGNALS[mode])
            if not has_ended(process, STOP_SECONDS):
                self.kill()

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Send SIGKILL to all processes of the server, as the loss of the machine would end them."""
        members = self._members()
        for member in members:
            send(member, signal.SIGKILL)
        for member in members:
            has_ended(member, KILL_SECONDS)

    def create_database(self, name: str, owner: str = SUPERUSER) -> None:
        """Create a database; `owner` owns it and its schema public. An existing one stays unchanged."""
        self.create_role(owner)
        if self.execute("SELECT FROM pg_database WHERE datname = %s", name):
            return
        self.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(owner)))
        self.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(sql.Identifier(owner)), database=name)

    def create_role(self, name: str) -> None:
        """Create a role with LOGIN and no other privilege; an existing one stays unchanged."""
        if not self.execute("SELECT FROM pg_roles WHERE rolname = %s", name):
            self.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
            # by default a schema with the role's name comes before public, and Surelane's schema has such a name
            self.execute(sql.SQL("ALTER ROLE {} SET search_path = public").format(sql.Identifier(name)))

    def execute(self, statement: str | sql.Composable, *values: object, database: str = "postgres") -> Rows:
        """Run one statement as the superuser in autocommit mode; returns its rows, empty if it has none."""
        connection = psycopg2.connect(self.url(database))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchall() if cursor.description is not None else []
        finally:
            connection.close()

    def _process(self) -> psutil.Process | None:
        """The postmaster of postmaster.pid: line 1 is its pid, line 3 its start time."""
        file = self.cluster / "postmaster.pid"
        lines = file.read_text().splitlines() if file.exists() else []
        return running(int(lines[0]), float(lines[2])) if len(lines) > 2 else None

    def _serves(self) -> bool:
        """Whether the server is running; waits while it is starting or ending."""
        reason = "Postgres to accept connections"
        wait_for(lambda: self._process() is None or self._accepts(), reason=reason, seconds=START_SECONDS)
        return self._process() is not None

    def _accepts(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg2.OperationalError:
            return False
        return True

    def _members(self) -> list[psutil.Process]:
        """All processes of this server, found by their working directory, which is PGDATA."""
        candidates = psutil.process_iter(["name", "cwd"])
        return [it for it in candidates if it.info["name"] == "postgres" and it.info["cwd"] == str(self.cluster)]

    def _clear_pid_file(self) -> None:
        """Remove the pid file of a killed server: a zombie, or another process with the same pid, would keep it valid.

        First waits until no process of that server is left: two servers would corrupt one directory.
        """
        wait_for(lambda: not self._members(), reason="the end of the former Postgres", seconds=KILL_SECONDS)
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)

    def _make_cluster(self) -> None:
        """Run initdb under a temporary name, so that an interrupted run does not leave an incomplete cluster."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if self.cluster.exists():
            return
        part = self.data_dir / "cluster.part"
        shutil.rmtree(part, ignore_errors=True)
        if user := server_user():
            must_reach(self.data_dir, user)
            shutil.chown(self.data_dir, user.pw_uid, user.pw_gid)
        run_program("initdb", [f"--pgdata={part}", *INITDB_OPTIONS], self.log_file)
        with (part / "postgresql.conf").open("a") as main:
            main.write("include 'surelane.conf'\n")
        part.rename(self.cluster)

    def _write_settings(self) -> None:
        port = self.port or remembered_port(self.data_dir / "port")
        settings = {**SETTINGS, "port": str(port), **self.settings}
        (self.cluster / "surelane.conf").write_text("".join(f"{key} = '{value}'\n" for key, value in settings.items()))
