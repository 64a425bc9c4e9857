"""Failpoints: named places in the code where a test kills the process or makes it wait. Off by default.

SURELANE_FAILPOINT="after-prepare=kill@2"          SIGKILL to the process group the 2nd time it is reached
SURELANE_FAILPOINT="after-merge=wait:/some/dir"    create /some/dir/after-merge, continue once it is deleted
"""

import os
import signal
import time
from collections import Counter
from pathlib import Path

VARIABLE = "SURELANE_FAILPOINT"

#: every failpoint, in the order in which an epoch passes them
NAMES = (
    "epoch-start",  # the epoch is planned; no work has begun
    "after-decode",
    "after-begin",  # the transaction begins, and passes the fence, with the next statement
    "after-merge",
    "after-ledger",  # data and ledger row are written; no decision yet
    "archive-before-fsync",  # these four with an archive only: its file has all messages, but not its end line
    "archive-after-fsync",  # the file is complete and durable; the target has not pre-committed
    "after-pre-commit",  # prepared, or committed in the one-phase modes; no commits/N yet
    "before-commit",  # commits/N exists, COMMIT PREPARED was not sent
    "archive-before-rename",  # the target has committed
    "archive-after-rename",
    "after-commit",
)
#: of these: at the server the epoch's transaction is open and has the data
WRITTEN_NAMES = ("after-merge", "after-ledger")
#: failpoint of an epoch that is begun as soon as it is planned
EARLY_NAMES = ("done-early",)  # it is pre-committed, and Spark need not have called the lane with it yet
#: failpoints of a start
START_NAMES = (
    "start-checkpoint",  # a new checkpoint was begun; the target knows nothing of it
    "start-ledger",  # the generation is active
)
#: failpoints of a query whose rows go to files; its epochs pass NAMES, too
FILES_NAMES = (
    "files-before-fsync",  # they have their names, in the pending folder
    "files-before-rename",  # the target has committed
    "files-after-rename",
)
#: failpoints of what sends a query's rows to Kafka
TOPIC_NAMES = (
    "topic-before-commit",  # Kafka has the batch, in an open transaction
    "topic-after-commit",  # it is committed, and still in the outbox
)
#: failpoints of `surelane state rescale`
RESCALE_NAMES = (
    "rescale-before-ledger",  # the checkpoint has the epoch with the new partitions
    "rescale-after-ledger",
)
#: failpoints of `surelane state rebuild`
REBUILD_NAMES = (
    "rebuild-settled",  # nothing is prepared any more, and nothing forgotten
    "rebuild-before-commit",  # of the transaction that forgets state and position
    "rebuild-after-commit",
)
#: failpoint of a lane that resumes a table
RESUME_NAMES = ("table-resume",)  # some of its parked messages are applied
#: failpoints of `surelane snapshot`; an epoch does not pass them
SNAPSHOT_NAMES = (
    "snapshot-before-manifest",  # the content is written
    "snapshot-before-rename",  # the manifest is written, too
    "restore-before-rename",  # everything is copied under a temporary name
    "restore-before-start",  # the restored server is not started
    "restore-before-reading",  # the restored server runs
)
#: failpoints of `surelane savepoint`
SAVEPOINT_NAMES = (
    "savepoint-before-sums",  # the content is written
    "savepoint-before-rename",  # the checksum, too
    "savepoint-disposed",  # renamed, and not removed yet
)
#: failpoints of `surelane recover run`: the step is done, and not yet in the journal
RECOVER_NAMES = (
    "recover-check",
    "recover-restore",
    "recover-in-doubt",
    "recover-ledger",
    "recover-replay",
    "recover-verify",
)
#: failpoints of `surelane replay`, whose epochs pass NAMES, too
REPLAY_NAMES = ("replay-tables",)  # the tables exist in another database, which is not marked yet
#: failpoints of `surelane verify`
VERIFY_NAMES = ("verify-table",)  # the comparison of a table is done and recorded
#: failpoints of the archive while it combines files
ARCHIVE_NAMES = (
    "archive-before-combined",  # the new file is complete and durable under a temporary name
    "archive-after-combined",  # the new file exists beside the files that it combines
)
#: seconds between two checks of the file that blocks a waiting failpoint
_LOOK_SECONDS = 0.01

_reached: Counter[str] = Counter()


def is_wanted(*names: str) -> bool:
    """Whether SURELANE_FAILPOINT names one of these failpoints."""
    return os.environ.get(VARIABLE, "").startswith(tuple(f"{name}=" for name in names))


def reach(name: str) -> None:
    """Kill or wait here if SURELANE_FAILPOINT names this failpoint; does nothing by default."""
    if not is_wanted(name):
        return
    _reached[name] += 1
    action, _, count = os.environ[VARIABLE].removeprefix(f"{name}=").partition("@")
    if _reached[name] != int(count or 1):
        return
    if action == "kill":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    verb, _, folder = action.partition(":")
    if verb != "wait":
        raise ValueError(f"{VARIABLE}: unknown action {action!r}")
    block = Path(folder) / name
    block.touch()
    while block.exists():
        time.sleep(_LOOK_SECONDS)
