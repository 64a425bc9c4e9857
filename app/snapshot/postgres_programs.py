"""Postgres' client programs: finds one that fits the server, and runs it with its password not in the arguments."""

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psycopg2.extensions
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.engine import URL

from app.credentials.passwords import filled
from app.errors import EnvironmentMissing
from app.private import UMASK, opened
from app.process import signal_at_parents_end
from app.snapshot.snapshot_directory import Progress

SYSTEM_FOLDERS = Path("/usr/lib/postgresql")
#: lines of a program's output that its error repeats
SHOWN_LINES = 8
#: pg_restore sets transaction_timeout from this version on; older servers refuse it
_SETS_TRANSACTION_TIMEOUT = 17
_VERSION = re.compile(r"\(PostgreSQL\)\D*(\d+)\S*")


def major(output: str) -> int:
    """The major version in the output of `--version`; 0 if there is none."""
    found = _VERSION.search(output)
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class Program:
    """A program of a fitting version."""

    path: Path
    #: output of `--version`
    version: str


class Programs:
    """Finds programs in `folder`; if None on PATH and in the folders of Debian's packages."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find(self, name: str, *, at_least: int = 0, exactly: int | None = None) -> Program:
        """The program in a fitting major version; raises EnvironmentMissing with the versions found.

        Of several that are new enough it takes the oldest: see `restores_into`.
        """
        fit: list[tuple[int, Program]] = []
        unfit: list[str] = []
        for path in self._candidates(name):
            version = _version(path)
            number = major(version)
            if number >= at_least and exactly in (None, number):
                fit.append((number, Program(path, version)))
            else:
                unfit.append(f"{path} is {number or 'of an unknown version'}")
        if fit:
            return min(fit, key=lambda one: one[0])[1]
        wanted = f"of version {exactly}" if exactly else f"of version {at_least} or newer"
        package = "postgresql" if exactly else "postgresql-client"
        raise EnvironmentMissing(
            f"there is no {name} {wanted}, as the server asks for" + (f": {'; '.join(unfit)}" if unfit else ""),
            hint=f"on Debian or Ubuntu: apt-get install -y {package}-{exactly or at_least}; or name the folder that "
            "it is in: snapshots.bin_dir",
        )

    def _candidates(self, name: str) -> Iterator[Path]:
        if self._folder is not None:
            folders = [self._folder]
        else:
            packaged = [path for path in SYSTEM_FOLDERS.glob("*/bin") if path.parent.name.isdigit()]
            newest_first = sorted(packaged, key=lambda path: int(path.parent.name), reverse=True)
            on_path = shutil.which(name)
            folders = [*([Path(on_path).parent] if on_path else []), *newest_first]
        for folder in dict.fromkeys(folders):
            if os.access(folder / name, os.X_OK):
                yield folder / name


def restores_into(program: Program, server: int) -> Program:
    """Return `program`, a pg_restore; raises EnvironmentMissing if it sets a parameter unknown to the server."""
    if server < _SETS_TRANSACTION_TIMEOUT <= major(program.version):
        raise EnvironmentMissing(
            f"{program.path} is {major(program.version)}: it restores into servers of version "
            f"{_SETS_TRANSACTION_TIMEOUT} and newer only, this one is {server}",
            hint=f"have postgresql-client-{server} on this machine when the dump is made and when it is restored, or "
            "name its folder: snapshots.bin_dir",
        )
    return program


def _version(path: Path) -> str:
    try:
        return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    except OSError as error:
        return str(error)  # a binary of another architecture, for example


@dataclass(frozen=True)
class Connecting:
    """How a program connects to a database: a DSN for its arguments, and the password for its environment."""

    dsn: str
    password: str | None

    @classmethod
    def to(cls, url: URL, application: str) -> "Connecting":
        """From a URL: everything but the password as a libpq DSN."""
        _, options = PGDialect_psycopg2().create_connect_args(filled(url))
        password = options.pop("password", None)
        return cls(psycopg2.extensions.make_dsn(**{**options, "application_name": application}), password)

    @property
    def environment(self) -> dict[str, str]:
        """The caller's environment, without PG* variables other than the password's: they would mix with the URL's."""
        kept = ("PGPASSFILE", "PGPASSWORD")
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name in kept}
        return {**plain, "LC_ALL": "C", **({"PGPASSWORD": self.password} if self.password else {})}


def run(program: Program, words: Sequence[str], progress: Progress, connecting: Connecting | None = None) -> None:
    """Run a program to its end and report its output as progress; it dies with this process.

    Raises EnvironmentMissing for a status other than 0.
    """
    environment = connecting.environment if connecting else {**os.environ, "LC_ALL": "C"}
    output: deque[str] = deque(maxlen=SHOWN_LINES)
    with subprocess.Popen(
        [program.path, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        preexec_fn=_die_with_parent,
        umask=UMASK,
    ) as process:
        try:
            for line in _lines(process.stdout):
                progress(f"{program.path.name}: {line}")
                output.append(line)
        finally:
            if process.poll() is None:
                process.terminate()
    if process.returncode:
        raise EnvironmentMissing(
            f"{program.path.name} ended with status {process.returncode}: {'; '.join(output)}",
            hint="mend what it says, then call this again: nothing half-made is left",
        )


def run_as(user: pwd.struct_passwd | None, program: Program, words: Sequence[str], out: Path) -> int:
    """Run a program that leaves a server running; return its status. Output goes to a file: a pipe would stay open."""
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with opened(out, "w") as file:
        files = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
        command = [str(program.path), *words]
        done = subprocess.run(command, cwd="/", env=environment, check=False, **files, **identity)
    return done.returncode


def _lines(stream: IO[bytes] | None) -> Iterator[str]:
    """The lines of the stream; also progress lines, which end in a carriage return."""
    rest = b""
    while stream is not None and (chunk := stream.read1(1 << 16)):  # pyright: ignore[reportAttributeAccessIssue]  # buffered
        *whole, rest = re.split(rb"[\r\n]+", rest + chunk)
        yield from (line.decode(errors="replace").strip() for line in whole if line.strip())
    if rest.strip():
        yield rest.decode(errors="replace").strip()


def _die_with_parent() -> None:
    """Kill the program with its parent: else it would write on while another process removes its snapshot."""
    signal_at_parents_end(signal.SIGKILL)
