"""A restored cluster: settings with which it starts, and does not affect the original or other servers."""

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.errors import EnvironmentMissing
from app.private import write_text
from app.server_user import must_reach, server_user
from app.snapshot import postgres_programs as programs
from app.snapshot.postgres_programs import Program

LOOPBACK = "127.0.0.1"
MARKER = "surelane-restored.json"
START_SECONDS = 600
LOG_TAIL_CHARACTERS = 2_000
_HEAD = "# surelane snapshot restore"
#: settings with paths outside the copy, which are the original's
_PLACES = re.compile(r"^(?=\s*(data_directory|hba_file|ident_file|external_pid_file)\b)", re.MULTILINE)
#: for a base backup without configuration files: the server's are elsewhere (Debian's /etc)
_CONF = "# The original's configuration was not in its data directory, so it is not in the snapshot.\n"
_HBA = f"local all all peer\nhost all all {LOOPBACK}/32 scram-sha-256\n"
_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600


@dataclass(frozen=True)
class Cluster:
    """A data directory, with its server."""

    folder: Path

    @property
    def log_file(self) -> Path:
        """The server's log, beside the data directory."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def configure(self, port: int, max_prepared_transactions: int) -> None:
        """Write the settings that must differ from the original's to postgresql.auto.conf, which overrides others."""
        for name, text in (("postgresql.conf", _CONF), ("pg_hba.conf", _HBA), ("pg_ident.conf", "")):
            if not (self.folder / name).exists():
                write_text(self.folder / name, text)
        conf = self.folder / "postgresql.conf"
        conf.write_text(_PLACES.sub(f"{_HEAD}: ", conf.read_text()))
        settings = {
            "port": str(port),
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_prepared_transactions": str(max_prepared_transactions),
            "archive_mode": "off",  # else it writes to the original's archive
            "synchronous_standby_names": "",  # no standby would answer
            "max_logical_replication_workers": "0",  # else subscriptions consume from their publishers
            "logging_collector": "off",  # else it writes to the original's log
        }
        auto = self.folder / "postgresql.auto.conf"
        kept = (auto.read_text() if auto.exists() else "").partition(_HEAD)[0]
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        write_text(auto, f"{kept}{_HEAD}; the last one of each counts\n{lines}")

    def hand_over(self) -> None:
        """Give all files to the user that the server runs as, and remove access of others."""
        user = server_user()
        for path in [self.folder, *self.folder.rglob("*")]:
            if not path.is_symlink():
                path.chmod(_DIRECTORY_MODE if path.is_dir() else _FILE_MODE)
            if user:
                os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)

    def mark(self, **facts: object) -> None:
        """Write the facts to the marker file."""
        part = self.folder / f"{MARKER}.part"
        write_text(part, json.dumps(facts))
        part.rename(self.folder / MARKER)

    def marked(self) -> dict[str, object] | None:
        """The facts that `mark` wrote; None if there is no readable marker."""
        try:
            return json.loads((self.folder / MARKER).read_text())
        except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
            return None

    def runs(self, pg_ctl: Program) -> bool:
        """Whether the server runs."""
        return self._call(pg_ctl, "status") == 0

    def start(self, pg_ctl: Program) -> None:
        """Start the server, which outlives this process. Raises EnvironmentMissing if it does not start."""
        words = ["--wait", f"--timeout={START_SECONDS}", f"--log={self.log_file}", "--silent"]
        if self._call(pg_ctl, "start", *words):
            output = self.log_file.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if self.log_file.exists() else ""
            raise EnvironmentMissing(
                f"the restored server in {self.folder} does not start: {output or self._output_file.read_text()}",
                hint=f"mend what it says (is the port free?), see {self.log_file}; then call restore again",
            )

    def make_log(self) -> None:
        """Create the log file, writable by the server's user."""
        self.log_file.touch(mode=_FILE_MODE)
        if user := server_user():
            shutil.chown(self.log_file, user.pw_uid, user.pw_gid)

    @property
    def _output_file(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.pg_ctl")

    def _call(self, pg_ctl: Program, verb: str, *words: str) -> int:
        try:
            return programs.run_as(server_user(), pg_ctl, [verb, f"--pgdata={self.folder}", *words], self._output_file)
        finally:
            if verb == "status":
                self._output_file.unlink(missing_ok=True)


def reachable(folder: Path) -> None:
    """Raise an error unless the server's user can reach the folder."""
    if user := server_user():
        must_reach(folder, user)
