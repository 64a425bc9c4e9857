"""pgbench: found beside the Postgres server that the stack runs."""

import subprocess
from pathlib import Path

from app.errors import EnvironmentMissing
from tools.devstack.postgres_binaries import bin_dir

HINT = (
    "on Debian or Ubuntu: apt-get install -y postgresql-contrib;"
    " or let Surelane fetch a Postgres that has it: SURELANE_FORCE_BUNDLED=postgres"
)


def pgbench() -> Path:
    """The program; raises EnvironmentMissing when this Postgres was installed without it."""
    program = bin_dir() / "pgbench"
    if not program.is_file():
        raise EnvironmentMissing(f"this Postgres has no pgbench: {program} is missing", hint=HINT)
    return program


def initialise(url: str, steps: str) -> None:
    """`pgbench -i`: make pgbench's tables; `steps` as its option -I has them (g: generate the rows)."""
    command = [str(pgbench()), "--initialize", "--quiet", f"--init-steps={steps}", "--scale=1", url]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentMissing(f"pgbench could not make its tables:\n{done.stderr}")
