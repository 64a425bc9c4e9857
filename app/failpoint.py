"""Failpoints: named places where a test makes the process die, fail or wait. Off unless the environment asks.

SURELANE_FAILPOINT="after-prepare=kill@2"          SIGKILL of the process group the 2nd time it is reached
SURELANE_FAILPOINT="after-merge=wait:/some/dir"    make /some/dir/after-merge, go on when it is gone
"""

import os
import signal
import time
from collections import Counter
from pathlib import Path

VARIABLE = "SURELANE_FAILPOINT"

#: every failpoint, in the order in which an epoch passes them
NAMES = (
    "epoch-start",  # the epoch is planned, nothing was done
    "after-decode",
    "after-begin",  # the transaction is open and fenced
    "after-merge",
    "after-ledger",  # everything is written, nothing decided
    "archive-before-fsync",  # these four with an archive only: its file has all messages, and no end yet
    "archive-after-fsync",  # it is whole and durable, the target is not asked
    "after-pre-commit",  # prepared, or committed in the one-phase modes; the checkpoint does not know
    "before-commit",  # commits/N exists, COMMIT PREPARED was not sent
    "archive-before-rename",  # the target has committed
    "archive-after-rename",
    "after-commit",
)
#: those of `surelane snapshot`, which an epoch does not pass
SNAPSHOT_NAMES = (
    "snapshot-before-manifest",  # the content is there
    "snapshot-before-rename",  # so is the manifest
    "restore-before-rename",  # everything is copied, under another name
    "restore-before-start",  # of a restored server
    "restore-before-reading",  # it runs
)
#: those of `surelane recover run`: the step is done, and the journal does not say so yet
RECOVER_NAMES = (
    "recover-check",
    "recover-restore",
    "recover-in-doubt",
    "recover-ledger",
    "recover-replay",
    "recover-verify",
)
#: those of `surelane replay`, whose epochs pass NAMES, too
REPLAY_NAMES = ("replay-tables",)  # they are made in another database, which is not marked yet
#: of `surelane verify`
VERIFY_NAMES = ("verify-table",)  # a table is through, and on record
#: those of the archive when it combines files
ARCHIVE_NAMES = (
    "archive-before-combined",  # the new file is whole and durable under another name
    "archive-after-combined",  # it is there, and so are those that it is made of
)
#: seconds between two looks at the file that holds a waiting failpoint
_LOOK_SECONDS = 0.01

_reached: Counter[str] = Counter()


def reach(name: str) -> None:
    """Do what the environment asks for at this place; nothing by default."""
    wanted = os.environ.get(VARIABLE)
    if not wanted or not wanted.startswith(f"{name}="):
        return
    _reached[name] += 1
    action, _, count = wanted.removeprefix(f"{name}=").partition("@")
    if _reached[name] != int(count or 1):
        return
    if action == "kill":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    verb, _, folder = action.partition(":")
    if verb != "wait":
        raise ValueError(f"{VARIABLE}: unknown action {action!r}")
    held = Path(folder) / name
    held.touch()
    while held.exists():
        time.sleep(_LOOK_SECONDS)
