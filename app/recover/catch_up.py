"""The replay of a recovery: runs and watches `surelane run --until-caught-up` on the restored target."""

import datetime
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Engine

from app.config.settings import Settings
from app.db.sqlstate import translated
from app.errors import (
    BadMessage,
    BreakerTripped,
    CrashLoop,
    Diverged,
    EnvironmentMissing,
    Fenced,
    SurelaneError,
    TargetMismatch,
    TopicChanged,
    TransactionTooLong,
)
from app.model.offsets import Offsets
from app.private import opened
from app.process import signal_at_parents_end
from app.snapshot.target_info import seen

#: environment variables of `app.config`
URL_VARIABLE = "SURELANE_TARGET__URL"
#: set to null: the URL has the password, or needs none
PASSWORD_VARIABLE = "SURELANE_TARGET__PASSWORD_FROM"
#: seconds between two polls of the lane
LOOK_SECONDS = 0.5
#: seconds that the lane may take to stop at an epoch's end
STOP_SECONDS = 60.0
#: lines of the lane's log that an error quotes
TAIL_LINES = 20
#: exit status of the lane -> error to raise here
_BY_STATUS = {
    int(kind.exit_status): kind
    for kind in (BadMessage, BreakerTripped, CrashLoop, Diverged, Fenced, TargetMismatch, TopicChanged)
} | {int(TransactionTooLong.exit_status): TransactionTooLong}


def replay(
    settings: Settings,
    engine: Engine,
    command: Sequence[str],
    goal: Offsets,
    log: Path,
    look: Callable[[], None],
    progress: Callable[[str, Offsets], None],
) -> Offsets:
    """Run `command` on the target of `settings` until it ends; returns how far it has read.

    Every poll calls `look`, which stops the command by raising, and `progress` with how far it has read. The command's
    log goes to the file `log`. The command ends with this process, however that ends.
    """
    url = settings.target.url.render_as_string(hide_password=False)
    environment = {**os.environ, URL_VARIABLE: url, PASSWORD_VARIABLE: "null"}
    with (
        opened(log, "ab") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            preexec_fn=_stop_with_parent,
        ) as process,
    ):
        try:
            _watch(process, goal, lambda: _reached(settings, engine), look, progress)
        finally:
            _stop(process)
    if process.returncode:
        raise _BY_STATUS.get(process.returncode, EnvironmentMissing)(
            f"the lane ended with status {process.returncode} while it replayed: {_last_words(log)}",
            hint=f"mend what it says (all of it is in {log}), then call this again: it goes on",
        )
    return reached(settings, engine)


def reached(settings: Settings, engine: Engine) -> Offsets:
    """How far the lanes of the configuration have read; raises SurelaneError where the target does not answer."""
    with translated("reading the restored ledger"), engine.connect() as connection:
        found = seen(connection, settings)
    return Offsets.of({tp: offset for lane in found.lanes for tp, offset in lane.read.items()})


def _watch(
    process: "subprocess.Popen[bytes]",
    goal: Offsets,
    position: Callable[[], Offsets | None],
    look: Callable[[], None],
    progress: Callable[[str, Offsets], None],
) -> None:
    begun_at, first = time.monotonic(), position()
    while True:
        try:
            process.wait(LOOK_SECONDS)
            return
        except subprocess.TimeoutExpired:
            look()
        now = position()
        if now is not None and first is not None:
            left = now.left_to(goal)
            progress(_progress_text(left, first.left_to(goal) - left, time.monotonic() - begun_at), now)


def _progress_text(left: int, done: int, seconds: float) -> str:
    if done <= 0:
        return f"replay: {left:,} messages left, the lane is starting"
    return f"replay: {left_text(left, done, seconds)}"


def left_text(left: int, done: int, seconds: float) -> str:
    """What is left of a replay and for about how long, by what was done in these seconds."""
    words = f"{left:,} messages left"
    if not done or not seconds:
        return words
    rate = done / seconds
    return f"{words}, {rate:,.0f}/s, about {datetime.timedelta(seconds=round(left / rate))}"


def _reached(settings: Settings, engine: Engine) -> Offsets | None:
    """None while the target does not answer, which the lane handles by itself."""
    try:
        return reached(settings, engine)
    except SurelaneError:
        return None


def _last_words(log: Path) -> str:
    """The message of the lane's `stopped` event; the log's last lines where there is none."""
    lines = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    for line in reversed(lines):
        with suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and event.get("event") == "stopped":
                return str(event.get("message"))
    return "\n".join(lines)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _stop_with_parent() -> None:
    """SIGTERM makes the supervisor stop its lane at the epoch's end."""
    signal_at_parents_end(signal.SIGTERM)
