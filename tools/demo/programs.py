"""Finds and runs pgbench of the Postgres installation that the stack uses."""

import subprocess
from pathlib import Path

from app.errors import EnvironmentMissing
from tools.devstack.postgres_binaries import bin_dir

HINT = (
    "on Debian or Ubuntu: apt-get install -y postgresql-contrib;"
    " or let Surelane fetch a Postgres that has it: SURELANE_FORCE_BUNDLED=postgres"
)


def pgbench() -> Path:
    """Path of the program; raises EnvironmentMissing if this Postgres installation lacks it."""
    program = bin_dir() / "pgbench"
    if not program.is_file():
        raise EnvironmentMissing(f"this Postgres has no pgbench: {program} is missing", hint=HINT)
    return program


def initialise(url: str, steps: str) -> None:
    """Run `pgbench -i` to create pgbench's tables; `steps` are those of its option -I (g: generate the rows)."""
    command = [str(pgbench()), "--initialize", "--quiet", f"--init-steps={steps}", "--scale=1", url]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentMissing(f"pgbench could not make its tables:\n{done.stderr}")
