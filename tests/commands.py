"""Verbs for a lane under test: most of them in this process, which has the imports that a new one takes seconds for."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import structlog

from app.cli.main import main
from tests.fix_lane import LaneUnderTest

#: verbs that start processes, and have signals of their own
_APART = ("run", "recover", "state")


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class _Written(io.TextIOWrapper):
    """What is written to it, by characters or bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)

    @property
    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(errors="surrogateescape")


def ended(*arguments: str) -> Ended:
    """Call a verb."""
    return apart(*arguments) if arguments[0] in _APART else here(*arguments)


def command(made: LaneUnderTest, *arguments: str) -> Ended:
    """Call a verb with the lane's configuration."""
    return ended(*arguments, "--config", str(made.config_file))


def expected(made: LaneUnderTest, *arguments: str, status: int = 0) -> Ended:
    """The same; fails where it ends otherwise."""
    found = command(made, *arguments)
    assert found.status == status, found.err
    return found


def called(made: LaneUnderTest, *arguments: str) -> Any:
    """What it prints as JSON when it ends well."""
    return expected(made, *arguments, "--json").json


def here(*arguments: str) -> Ended:
    """Call a verb in this process, whatever it is."""
    before, sys.argv = sys.argv, ["surelane", *arguments]
    structlog.reset_defaults()
    out, err, status = _Written(), _Written(), 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        sys.argv = before
    return Ended(status, out.text, err.text)


def apart(*arguments: str) -> Ended:
    """Call a verb in a process of its own."""
    words = [sys.executable, "-m", "app.cli", *arguments]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    return Ended(found.returncode, found.stdout, found.stderr)
