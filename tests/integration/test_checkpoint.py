"""The files of a checkpoint on a local disk, as Hadoop writes them for Spark."""

import shutil
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from app.errors import SparkFailed, Unreachable
from app.model.offsets import Offsets, TopicPartition
from app.private import FILE_MODE
from app.spark.checkpoint import Checkpoint
from app.spark.entries import IDENTITY_FILE
from app.spark.local import LocalCheckpoint
from app.spark.session import ComingSession
from tests.waiting import eventually

FILES = 100
#: measurements: other programs of the JVM, a Python worker for example, may end during one
TRIES = 5
TP = TopicPartition("orders", 0)
VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def test_a_file_costs_no_program(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's own file system starts `chmod` for every file and for its checksums, a millisecond or two each."""
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    jvm = psutil.Process(int(java.java.lang.ProcessHandle.current().pid()))

    def programs() -> float:
        used = jvm.cpu_times()  # of what it started and has ended
        return used.children_user + used.children_system

    checkpoint = Checkpoint(ComingSession.of(spark), str(tmp_path / "checkpoint"))
    identity = checkpoint.create("orders", Offsets())

    def used_by_files() -> float:
        before = programs()
        for _ in range(FILES):
            checkpoint.write_identity(identity)
        return programs() - before

    assert 0 in (used_by_files() for _ in range(TRIES))
    assert checkpoint.is_empty()

    file = tmp_path / "checkpoint" / IDENTITY_FILE
    assert file.with_name(f".{IDENTITY_FILE}.crc").exists(), "what a damaged file is known by"
    assert stat.S_IMODE(file.stat().st_mode) == FILE_MODE


def test_a_folder_behind_a_link(spark: SparkSession, tmp_path: Path) -> None:
    """On another disk, say: what is in it is seen, and what is put aside stays there."""
    real, link = tmp_path / "disk" / "checkpoint", tmp_path / "checkpoint"
    real.mkdir(parents=True)
    link.symlink_to(real)
    for location in (str(link), link.as_uri()):
        checkpoint = Checkpoint(ComingSession.of(spark), location)
        assert checkpoint.is_empty()
        checkpoint.create("orders", Offsets())
        (real / "offsets").mkdir()
        assert not checkpoint.is_empty()
        aside = Path(checkpoint.archive())
        assert (aside / IDENTITY_FILE).exists()
        assert (aside.parent, aside.is_symlink()) == (real.parent, False)
        checkpoint.create("orders", Offsets())
        assert (link / IDENTITY_FILE).exists()
        shutil.rmtree(real)
        real.mkdir()


@pytest.mark.parametrize("version", ["1", "2"])
def test_entries_are_those_of_a_query(
    version: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """They are found again, and none is written twice; that a query goes on behind them is in `test_before_query`."""
    checkpoint = Checkpoint(ComingSession.of(spark), str(tmp_path / "checkpoint"))
    start, ends = Offsets.of({TP: 0}), [Offsets.of({TP: end}) for end in (3, 5)]
    checkpoint.create("orders", start)
    by_spark = tmp_path / "query"
    spark.conf.set(VERSION, version)
    request.addfinalizer(lambda: spark.conf.unset(VERSION))
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = ticks.writeStream.format("noop").option("checkpointLocation", str(by_spark)).start()
    eventually(lambda: query.recentProgress, why="an epoch of a query")
    query.stop()
    for number, end in enumerate(ends):
        checkpoint.plan(number, end)
        assert (checkpoint.last_planned(), checkpoint.is_complete(number)) == (number, False)
        checkpoint.complete(number)
        assert checkpoint.options(number) == LocalCheckpoint(by_spark).options(0)
    assert [checkpoint.span(number).end for number in (0, 1)] == ends
    assert (tmp_path / "checkpoint" / "commits" / "0").read_text() == (by_spark / "commits" / "0").read_text()
    for write in (lambda: checkpoint.plan(1, start), lambda: checkpoint.complete(1)):
        with pytest.raises(SparkFailed, match="another query"):
            write()
    assert checkpoint.span(1).end == ends[1]


def test_an_entry_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = Checkpoint(ComingSession.of(spark), str(tmp_path / "checkpoint"))
    checkpoint.create("orders", Offsets.of({TP: 0}))
    checkpoint.plan(0, Offsets.of({TP: 3}))
    (tmp_path / "checkpoint" / "commits").touch()  # no folder
    with pytest.raises(Unreachable, match="commits/0 cannot be written"):
        checkpoint.complete(0)
