"""Compiled decoding reads bytes that anybody may have written: it stays within them, and makes the rows of Python.

In processes of their own, which a fault ends: the input stays in var/fuzz, `campaign.py` says how to try it again.
"""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.decode.scan_loader import Scanned
from tests.fuzz.campaign import Campaign, kept
from tests.fuzz.guarded import GuardedScanner

ROOT = Path(__file__).resolve().parents[2]
#: of mutations, without what starts them
MINUTES = os.environ.get("SURELANE_FUZZ_MINUTES")
SECONDS = 60 * float(MINUTES) if MINUTES else 10
SEED = os.environ.get("SURELANE_FUZZ_SEED", "1")
#: an ordinary run cuts at one of so many bytes
STEP = "5"
#: for what is done before and after, on a busy machine
_AROUND_SECONDS = 600
#: what a campaign of any length goes through: fewer would say that it does not reach the code
_LEAST_TAKEN = 400


def campaign(folder: Path, *more: str, seconds: float = 0) -> "subprocess.CompletedProcess[str]":
    """A campaign in a process of its own."""
    command = [sys.executable, "-m", "tests.fuzz.campaign", "--folder", str(folder), "--seconds", str(seconds), *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command,
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds + _AROUND_SECONDS,
        check=False,
    )


@pytest.mark.timeout(SECONDS + _AROUND_SECONDS + 60)
def test_no_input_leads_it_astray(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """With SURELANE_FUZZ_MINUTES for longer, SURELANE_FUZZ_SEED for other inputs."""
    more = [] if MINUTES else ["--unguided"]
    if not (MINUTES or pytestconfig.getoption("--full-matrix", default=False)):
        more += ["--step", STEP]
    found = campaign(tmp_path, "--seed", SEED, *more, seconds=SECONDS)
    if found.returncode:
        folder = ROOT / "var" / "fuzz"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "input.jsonl", folder / f"seed-{SEED}.jsonl")
    assert found.returncode == 0, f"status {found.returncode}, input in var/fuzz\n{found.stdout}\n{found.stderr}"
    facts = [line for line in found.stdout.splitlines() if '"taken"' in line]
    taken = int(facts[-1].split('"taken": ')[1].rstrip("}"))
    assert taken > _LEAST_TAKEN, found.stdout


def test_a_byte_beyond_the_end_is_noticed(tmp_path: Path) -> None:
    """Without the bytes that it is promised, it reads where nothing is: the same input shows that again."""
    command = ("--unguided", "--more", "0")
    assert campaign(tmp_path, *command).returncode == -signal.SIGSEGV
    input_file = tmp_path / "input.jsonl"
    again = campaign(tmp_path / "again", *command, "--only", str(input_file))
    assert again.returncode == -signal.SIGSEGV
    assert kept(input_file), "the input is kept"
    assert campaign(tmp_path / "promised", "--unguided", "--only", str(input_file)).returncode == 0


def test_another_row_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fewest messages that show it are kept."""
    scan = GuardedScanner.scan

    def a_millisecond_late(
        self: GuardedScanner, messages: list[bytes | None], keys: list[bytes | None]
    ) -> Scanned | None:
        found = scan(self, messages, keys)
        return found and replace(found, times=found.times + (np.arange(len(messages)) == 3))

    made = Campaign(tmp_path, 1)
    made.explore(0, None)
    monkeypatch.setattr(GuardedScanner, "scan", a_millisecond_late)
    with pytest.raises(SystemExit):
        made.explore(0, None)
    assert "differs" in capsys.readouterr().out
    assert 0 < len(kept(tmp_path / "input.jsonl")) <= 4
