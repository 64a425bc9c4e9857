"""Starts `surelane recover run` as a process of its own, which goes on when the console ends.

Its journal and its output are in the snapshot's folder, where any console finds them.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from app.cli.caller import Caller
from app.cli.recover import TO_VARIABLE
from app.console.served_lanes import ServedLane
from app.errors import Refused
from app.logs import masked
from app.private import opened
from app.recover.journal import course
from app.snapshot.snapshot_directory import StoredSnapshot

log = structlog.get_logger()

#: what the recovery writes, beside its journal
OUTPUT = "recovery-run.log"
#: bytes of its end that a page shows
OUTPUT_BYTES = 8 << 10
#: seconds for the process to lock the journal, or to end
START_SECONDS = 60.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class RecoveryCall:
    """The options of the call."""

    #: None: where an earlier call has begun
    to: str | None
    port: int | None = None
    foreign: bool = False
    anew: bool = False


def start(lane: ServedLane, stored: StoredSnapshot, call: RecoveryCall, caller: Caller, reason: str) -> None:
    """Returns when the recovery is at work, or has ended well. Raises Refused with its words where it ends before."""
    words = _words(lane, stored.manifest.name, call, caller, reason)
    file, before = stored.folder / OUTPUT, len(course(stored).orders)
    environment = os.environ | ({TO_VARIABLE: call.to} if call.to is not None else {})
    with opened(file, "ab") as output:
        begun = output.tell()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and len(course(stored).orders) <= before and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    if process.returncode:
        raise Refused(f"the recovery ended with status {process.returncode}: {_text(file, begun)}")
    threading.Thread(target=_wait, args=(process, lane.name, stored.manifest.name), daemon=True).start()


def output(stored: StoredSnapshot) -> str | None:
    """The end of what recoveries from this snapshot have written that a page started; None: no page has."""
    file = stored.folder / OUTPUT
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return None
    return _text(file, max(0, size - OUTPUT_BYTES))


def _words(lane: ServedLane, snapshot: str, call: RecoveryCall, caller: Caller, reason: str) -> Sequence[str]:
    # a place is given by the environment: it may have a password
    options = ["--port", str(call.port)] if call.port is not None and call.to is not None else []
    options += ["--config", str(lane.file)] if lane.file is not None else []
    options += ["--roll-back-foreign"] if call.foreign else []
    options += ["--anew"] if call.anew else []
    verb = [sys.executable, "-m", "app.cli", "recover", "run", "--snapshot", snapshot]
    return [*verb, *options, "--by", caller.user, "--reason", reason]


def _text(file: Path, begin: int) -> str:
    with file.open("rb") as opened_file:
        opened_file.seek(begin)
        return masked(opened_file.read(OUTPUT_BYTES).decode("utf-8", "replace")).strip()


def _wait(process: "subprocess.Popen[bytes]", lane: str, snapshot: str) -> None:
    status = process.wait()
    log.info("recovery ended", lane=lane, snapshot=snapshot, status=status)
