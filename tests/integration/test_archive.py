"""Target and archive in one epoch: SIGKILL between every step, and both have it, or none."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.archive.archive_participant import Archive
from app.archive.committed_files import Folder
from app.archive.reader import ArchiveReader
from app.config.settings import CommitMode
from app.failpoint import VARIABLE
from app.ledger.store import Ledger
from app.protocol.start_table import settle
from app.protocol.target_participant import PreparedTarget
from app.spark.local import LocalCheckpoint
from tests.archive_victim import archive_of, lane_of
from tests.fix_bare_lane import TOPIC
from tests.fix_doubt import EPOCH, counted
from tests.fix_lane import ROOT
from tests.fix_target import SCHEMA, Target
from tests.workload import COUNTER

SECONDS = 60.0
BEFORE = ("after-begin", "after-ledger", "archive-before-fsync", "archive-after-fsync")
AFTER = ("archive-before-rename", "archive-after-rename")
#: where it dies, in which mode, whether the checkpoint has decided it, whether it is committed in the end
CASES = [
    *((place, CommitMode.TWO_PHASE, False, False) for place in (*BEFORE, "after-pre-commit")),
    *((place, CommitMode.TWO_PHASE, True, True) for place in ("after-pre-commit", "before-commit", *AFTER)),
    *((place, CommitMode.LEDGER, False, False) for place in BEFORE[1:]),
    *((place, CommitMode.LEDGER, False, True) for place in ("after-pre-commit", *AFTER)),
    *((place, CommitMode.AT_LEAST_ONCE, False, True) for place in AFTER),
]
#: around the places where one of the two has something to show and the other has not
SAMPLE = [
    ("archive-after-fsync", CommitMode.TWO_PHASE, False, False),
    ("after-pre-commit", CommitMode.TWO_PHASE, True, True),
    ("archive-before-rename", CommitMode.TWO_PHASE, True, True),
    ("archive-after-fsync", CommitMode.LEDGER, False, False),
    ("archive-before-rename", CommitMode.LEDGER, False, True),
]


@pytest.mark.costly(2)
@pytest.mark.parametrize(
    ("place", "mode", "decided", "committed"),
    [case if case in SAMPLE else pytest.param(*case, marks=pytest.mark.full) for case in CASES],
    ids=lambda value: getattr(value, "value", str(value)),
)
def test_killed(target: Target, tmp_path: Path, place: str, mode: CommitMode, decided: bool, committed: bool) -> None:
    """What a start settles; then the epoch once more where it was not committed, and the next one."""
    target.create(COUNTER)
    kill(target, tmp_path, place, mode)
    assert target.ledger() is not None
    (tmp_path / "commits").mkdir()
    if decided:
        (tmp_path / "commits" / "1").touch()
    archive = archive_of(tmp_path, target.lane)
    restart(target, tmp_path, archive)
    agree(target, tmp_path, epochs=2 if committed else 1)
    restart(target, tmp_path, archive)
    lane = lane_of(target, target.lane, mode, archive)
    for number in range(3):
        if number < (2 if committed else 1):
            lane.sent += lane._place(counted(number * EPOCH))  # pyright: ignore[reportPrivateUsage]
        else:
            lane.apply(counted(number * EPOCH))
    agree(target, tmp_path, epochs=3)
    lane.close()
    archive.close()


def kill(target: Target, folder: Path, place: str, mode: CommitMode) -> None:
    """The second time it comes by."""
    server = target.server
    facts = {"data_dir": str(server.data_dir), "port": server.port, "database": target.database, "lane": target.lane}
    command = [
        sys.executable,
        "-m",
        "tests.archive_victim",
        json.dumps({**facts, "mode": mode.value, "archive": str(folder)}),
    ]
    environment = os.environ | {VARIABLE: f"{place}=kill@2", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=environment, start_new_session=True, capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def restart(target: Target, folder: Path, archive: Archive) -> None:
    """What a start does about what it finds."""
    ledger = Ledger(SCHEMA, target.lane)
    with target.as_lane.connect() as connection:
        generation = ledger.newest_generation(connection)
        connection.rollback()
        prepared = PreparedTarget(connection, target.as_lane, ledger, generation)
        settle(connection, ledger, LocalCheckpoint(folder), "none", target=prepared, others=(archive,))


def agree(target: Target, folder: Path, epochs: int) -> None:
    """Both have so many epochs, and nothing else."""
    end, reader = epochs * EPOCH, ArchiveReader(folder, target.lane)
    assert target.prepared() == []
    assert dict(target.position()) == {TOPIC: end}
    assert reader.spans() == {TOPIC: [(0, end)]}
    assert (reader.faults(), Folder(folder, target.lane).parts()) == ([], [])
    kept = {(one.generation, one.epoch) for file in Folder(folder, target.lane).files() for one in file.head.epochs}
    assert kept == {(row.generation, row.epoch) for row in target.epochs()}
    rows = [json.loads(one.value or b"")["after"] for one in reader.read(*TOPIC, 0, end)]
    assert rows == [{"id": number, "hits": number} for number in range(end)]
