"""`./run audit`: check the Python lock files for known vulnerabilities. Needs a network, to query the package index.

Exit status: 0 when none is known, 10 when some are, 4 when the data cannot be fetched; then it reports that the lock
file was not audited. Jars are not audited: ./run sbom lists them for a service with Maven data.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.errors import EnvironmentMissing, ExitStatus
from app.jars import LOCK_FOLDER

#: seconds for one lock file
TIMEOUT_SECONDS = 600
#: characters of the end of pip-audit's output that an error message shows
_SHOWN_CHARACTERS = 300


def audit(locks: Sequence[Path], program: Sequence[str] = (sys.executable, "-m", "pip_audit")) -> list[str]:
    """One line for each known vulnerability; raises EnvironmentMissing if a lock file cannot be audited."""
    return sorted({line for lock in locks for line in _weaknesses(lock, program)})


def _weaknesses(lock: Path, program: Sequence[str]) -> list[str]:
    options = ["--require-hashes", "--disable-pip", "--format=json", "--progress-spinner=off"]
    command = [*program, *options, "--requirement", str(lock)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_audited(lock, str(error)) from None
    try:
        found: Any = json.loads(done.stdout)
        packages = found["dependencies"]
        skipped = [package["name"] for package in packages if "skip_reason" in package]
        lines = [_line(lock, package, one) for package in packages for one in package.get("vulns", ())]
    except (ValueError, KeyError, TypeError):
        raise _not_audited(lock, done.stderr.strip()) from None
    if skipped:  # no data on a package does not mean that it has no vulnerability
        raise _not_audited(lock, f"no data on {len(skipped)} of {len(packages)} packages ({skipped[0]}, ...)")
    return lines


def _line(lock: Path, package: dict[str, Any], weakness: dict[str, Any]) -> str:
    mended = ", ".join(weakness.get("fix_versions", ())) or "no version yet"
    return f"{package['name']} {package['version']} ({lock.name}): {weakness['id']}; mended in {mended}"


def _not_audited(lock: Path, why: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"{lock.name} was not audited, the data on known weaknesses cannot be had: {why[-_SHOWN_CHARACTERS:]}",
        hint="call ./run audit where the package index can be reached; ./run test does not need it",
    )


def main() -> int:
    """Findings go to stdout, a failure of the audit to stderr; returns the exit status."""
    try:
        found = audit(sorted(LOCK_FOLDER.glob("requirements*.lock")))
    except EnvironmentMissing as error:
        print(f"surelane: {error}", file=sys.stderr)
        return int(error.exit_status)
    for line in found:
        print(line)
    print(f"known weaknesses: {len(found)} (Python packages; jars are not checked)")
    return int(ExitStatus.FAULTS_FOUND if found else ExitStatus.OK)


if __name__ == "__main__":
    sys.exit(main())
