"""The files of a checkpoint on a local disk, as Hadoop writes them for Spark."""

import shutil
import stat
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from app.model.offsets import Offsets
from app.private import FILE_MODE
from app.spark.checkpoint import Checkpoint
from app.spark.entries import IDENTITY_FILE

FILES = 100
#: measurements: other programs of the JVM, a Python worker for example, may end during one
TRIES = 5


def test_a_file_costs_no_program(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's own file system starts `chmod` for every file and for its checksums, a millisecond or two each."""
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    jvm = psutil.Process(int(java.java.lang.ProcessHandle.current().pid()))

    def programs() -> float:
        used = jvm.cpu_times()  # of what it started and has ended
        return used.children_user + used.children_system

    checkpoint = Checkpoint(spark, str(tmp_path / "checkpoint"))
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
        checkpoint = Checkpoint(spark, location)
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
