"""`./run test` takes the tests that start a lane by turns: all turns together have each of them once."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.sampling import TURNS

ROOT = Path(__file__).resolve().parents[2]
#: two whose tests start a lane, one with bare lanes, and the crash matrix, which is sampled by itself
FILES = (
    "integration/test_early.py",
    "integration/test_cluster.py",
    "integration/test_apply.py",
    "crash/test_matrix.py",
)


def collected(*options: str) -> set[str]:
    """Names of the tests of FILES that would run."""
    files = [str(ROOT / "tests" / file) for file in FILES]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, *files]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}  # -v there would change what is printed
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_every_test_has_its_turn() -> None:
    turns = [collected("--turn", str(turn)) for turn in range(TURNS)]
    times = Counter(name for turn in turns for name in turn)
    assert set(times) == collected()
    by_turns = {name for name in times if "test_early" in name or "test_cluster" in name}
    assert by_turns
    assert dict(times) == {name: 1 if name in by_turns else TURNS for name in times}
    assert all(by_turns & turn for turn in turns)
