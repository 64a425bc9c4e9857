"""The windows that a query's state has: Spark reads them from the checkpoint, in a process of its own.

It is `surelane state windows`, at the lowest priority: the query that runs gives nothing but reads of its files.
"""

import json
import os
import signal
import subprocess
import sys
import threading

from app.cli.rendering import Document
from app.console.parameters import NoSuchThing, Parameters
from app.console.served_lanes import ServedLane
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


class WindowReading:
    """At most one reading at a time: each is a JVM."""

    def __init__(self) -> None:
        self._reading = threading.Lock()

    def windows(self, lane: ServedLane, asked: Parameters) -> Document:
        """The document of `surelane state windows`."""
        query = _query(lane, asked)
        if not self._reading.acquire(timeout=WAIT_SECONDS):
            raise Refused("another state is being read", hint="open the page again")
        try:
            found = _read(lane, query)
        finally:
            self._reading.release()
        return found | {"read": True}

    def windows_not_yet(self, lane: ServedLane, asked: Parameters) -> Document:
        """The same before anything is read."""
        return {"query": _query(lane, asked), "windows": [], "more": False, "read": False}


def _query(lane: ServedLane, asked: Parameters) -> str:
    name = asked.text("query") or ""
    settings = lane.settings
    known = [*settings.queries] if settings.query is None else [settings.lane.partition(".")[2]]
    if name not in known:
        raise NoSuchThing(f"lane {lane.name} has no query {name[:100]}")
    return name


def _read(lane: ServedLane, query: str) -> Document:
    config = ["--config", str(lane.file)] if lane.file is not None else []
    words = [sys.executable, "-m", "app.cli", "state", "windows", query, *config, "--json"]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=READ_SECONDS,
            check=False,
            preexec_fn=_modest,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentMissing(
            f"the state was not read within {READ_SECONDS:.0f} s", hint=f"surelane state windows {query}"
        ) from None
    if done.returncode:
        raise EnvironmentMissing(
            f"the state cannot be read: {masked(done.stderr[-_WORDS:]).strip()}", hint=f"surelane state windows {query}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def _modest() -> None:
    """Ends with the console."""
    os.nice(_NICE)
    signal_at_parents_end(signal.SIGTERM)
