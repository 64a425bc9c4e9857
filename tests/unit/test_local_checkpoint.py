"""A checkpoint on disk, read without Spark; that it reads what Spark writes is asked in the lane's own tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import Diverged, EnvironmentMissing
from app.model.offsets import TopicPartition
from app.spark.entries import IDENTITY_FILE, NEW_IDENTITY_FILE
from app.spark.local import LocalCheckpoint, local_folder

TP = TopicPartition("t", 0)
IDENTITY = json.dumps({"lane": "orders", "checkpoint": "c", "generation": 2, "start": '{"t": {"0": 3}}'})


def made(folder: Path, **files: str) -> LocalCheckpoint:
    """With these files; `offsets_1` is offsets/1."""
    for name, text in files.items():
        path = folder / name.replace("_", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return LocalCheckpoint(folder)


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("/a/b", "/a/b"),
        ("/a%20b", "/a%20b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b%20c"),
        ("file://localhost/a", "/a"),
        ("file://elsewhere/a", None),
        ("hdfs://host/b", None),
        ("hdfs://name:8020/a", None),
        ("dbfs:/a", None),
    ],
)
def test_what_is_local(location: str, folder: str | None) -> None:
    assert local_folder(location) == (Path(folder) if folder else None)


def test_entries(tmp_path: Path) -> None:
    one = made(tmp_path, offsets_0='v1\n{}\n{"t": {"0": 5}}', offsets_1='v1\n{}\n{"t": {"0": 9}}', commits_0="v1\n{}")
    (tmp_path / IDENTITY_FILE).write_text(IDENTITY)
    identity = one.identity()
    assert identity is not None
    assert (identity.checkpoint, identity.generation) == ("c", 2)
    assert one.last_planned() == 1
    assert [(one.is_planned(n), one.is_complete(n)) for n in range(3)] == [(True, True), (True, False), (False, False)]
    assert dict(one.span(0).start) == {TP: 3}
    assert (dict(one.span(1).start), dict(one.span(1).end)) == ({TP: 5}, {TP: 9})


def test_nothing_there(tmp_path: Path) -> None:
    one = LocalCheckpoint(tmp_path / "gone")
    assert (one.identity(), one.last_planned(), one.is_complete(0)) == (None, None, False)
    (tmp_path / "file").touch()
    assert LocalCheckpoint(tmp_path / "file").identity() is None


def test_the_half_way_of_a_new_identity(tmp_path: Path) -> None:
    (tmp_path / NEW_IDENTITY_FILE).write_text(IDENTITY)
    assert LocalCheckpoint(tmp_path).identity() is not None


def test_a_checkpoint_of_another_program(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="another program"):
        made(tmp_path, offsets_0="v1\n{}\n{}").identity()


def test_what_may_not_be_read_is_no_missing_entry(tmp_path: Path) -> None:
    """Else it would look like an epoch that was not decided."""
    (tmp_path / IDENTITY_FILE).mkdir()
    with pytest.raises(EnvironmentMissing, match="cannot be read"):
        LocalCheckpoint(tmp_path).identity()
    long = LocalCheckpoint(tmp_path / ("x" * 300))
    for look in (long.identity, long.last_planned, lambda: long.is_complete(0)):
        with pytest.raises(EnvironmentMissing):
            look()


def test_reading_it_needs_no_spark() -> None:
    """Neither a JVM nor the seconds that its Python side takes to be imported."""
    code = "import sys, app.cli.indoubt; sys.exit(any(name.startswith('pyspark') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
