"""The replay: the lane itself, `surelane run --until-caught-up`, on the restored target, watched from outside."""

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

#: how `app.config` calls it
URL_VARIABLE = "SURELANE_TARGET__URL"
#: the URL says it, or has it
PASSWORD_VARIABLE = "SURELANE_TARGET__PASSWORD_FROM"
#: seconds between two looks at the lane
LOOK_SECONDS = 0.5
#: seconds that the lane gets to stop at an epoch's end
STOP_SECONDS = 60.0
#: of the lane's log, in an error
TAIL_LINES = 20
#: what a lane that ended with this status would have raised here
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
    progress: Callable[[str], None],
) -> Offsets:
    """Run `command` on the target of `settings` until it ends, and give how far it has read; `look` may stop it.

    Its log goes to a file. It ends with this process, however that ends.
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
            _watch(process, lambda: _left(settings, engine, goal), look, progress)
        finally:
            _stop(process)
    if process.returncode:
        raise _BY_STATUS.get(process.returncode, EnvironmentMissing)(
            f"the lane ended with status {process.returncode} while it replayed: {_last_words(log)}",
            hint=f"mend what it says (all of it is in {log}), then call this again: it goes on",
        )
    return reached(settings, engine)


def reached(settings: Settings, engine: Engine) -> Offsets:
    """How far the lanes of the configuration have read."""
    with translated("reading the restored ledger"), engine.connect() as connection:
        found = seen(connection, settings)
    return Offsets.of({tp: offset for lane in found.lanes for tp, offset in lane.read.items()})


def missing(position: Offsets, goal: Offsets) -> int:
    """Offsets between the two."""
    return sum(max(0, offset - position.get(tp, 0)) for tp, offset in goal.items())


def _watch(
    process: "subprocess.Popen[bytes]",
    left: Callable[[], int | None],
    look: Callable[[], None],
    progress: Callable[[str], None],
) -> None:
    begun_at, first = time.monotonic(), left()
    while True:
        try:
            process.wait(LOOK_SECONDS)
            return
        except subprocess.TimeoutExpired:
            look()
        now = left()
        if now is not None and first is not None:
            progress(_told(now, first - now, time.monotonic() - begun_at))


def _told(left: int, done: int, seconds: float) -> str:
    if done <= 0:
        return f"replay: {left:,} messages left, the lane is starting"
    rate = done / seconds
    return f"replay: {left:,} messages left, {rate:,.0f}/s, about {datetime.timedelta(seconds=round(left / rate))}"


def _left(settings: Settings, engine: Engine, goal: Offsets) -> int | None:
    """None while the target does not answer: the lane knows better what to do then."""
    try:
        return missing(reached(settings, engine), goal)
    except SurelaneError:
        return None


def _last_words(log: Path) -> str:
    """Why it stopped; the log's end where it could not say so."""
    lines = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    for line in reversed(lines):
        with suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and told.get("event") == "stopped":
                return str(told.get("message"))
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
    """A supervisor that gets SIGTERM stops its lane at the epoch's end."""
    signal_at_parents_end(signal.SIGTERM)
