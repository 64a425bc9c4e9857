"""`surelane state windows` as a process of its own, at the lowest priority: Spark reads a query's state for a page.

The query that runs gives nothing but reads of its files.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from app.cli.rendering import Document
from app.errors import EnvironmentMissing, Refused
from app.logs import masked
from app.process import signal_at_parents_end

#: seconds for a start of Spark and a state of some gigabytes
READ_SECONDS = 600.0
#: of a reading that waits for another one's
WAIT_SECONDS = 60.0
#: nothing else waits for it
_NICE = 19
#: characters of the end of what the verb complains of
_WORDS = 2_000


class WindowReader:
    """At most one process at a time: each has a JVM."""

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def read(self, query: str, config: Path | None) -> Document:
        """What the verb prints. Raises EnvironmentMissing with its words, Refused while others are read."""
        if not self._reading.acquire(timeout=WAIT_SECONDS):
            raise Refused("another state is being read", hint="open the page again")
        try:
            return self._read(query, config)
        finally:
            self._reading.release()

    def close(self) -> None:
        """End the process, if one reads."""
        if self._process is not None:
            self._process.terminate()

    def _read(self, query: str, config: Path | None) -> Document:
        options = ["--config", str(config)] if config is not None else []
        words = [sys.executable, "-m", "app.cli", "state", "windows", query, *options, "--json"]
        hint = f"surelane state windows {query}"
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=_modest,
        ) as process:
            self._process = process
            try:
                output, complaint = process.communicate(timeout=READ_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise EnvironmentMissing(f"the state was not read within {READ_SECONDS:.0f} s", hint=hint) from None
            finally:
                self._process = None
        if process.returncode:
            raise EnvironmentMissing(f"the state cannot be read: {masked(complaint[-_WORDS:]).strip()}", hint=hint)
        return json.loads(output.splitlines()[-1])


def _modest() -> None:
    """It ends with the console."""
    with suppress(OSError):
        os.nice(_NICE)
    signal_at_parents_end(signal.SIGTERM)
