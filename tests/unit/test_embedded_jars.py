"""Nothing is handed out whose hash is not the pinned one."""

import hashlib
from pathlib import Path

import pytest

from app import jars
from app.errors import EnvironmentMissing

CONTENT = b"the jar that was pinned"
COORDINATES = "org.example:thing:1.0"


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock file with one jar for the set "spark", and an empty cache."""
    folder = tmp_path / "locks"
    folder.mkdir()
    file = folder / "jars-spark.lock"
    file.write_text(f"# a head\n{COORDINATES} sha256:{hashlib.sha256(CONTENT).hexdigest()}\n")
    monkeypatch.setattr(jars, "LOCK_FOLDER", folder)
    monkeypatch.setenv("SURELANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SURELANE_JARS", raising=False)
    return file


class Registry:
    """Stands in for the network: hands out `content` and counts how often it was asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.downloads = 0

    def __call__(self, jar: jars.Jar, scratch: Path) -> Path:
        self.downloads += 1
        path = scratch / jar.file_name
        path.write_bytes(self.content)
        return path


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    stand_in = Registry(CONTENT)
    monkeypatch.setattr(jars, "_download", stand_in)
    return stand_in


def test_a_jar_is_fetched_once(lock: Path, registry: Registry) -> None:
    (path,) = jars.jars("spark")
    assert path.read_bytes() == CONTENT
    assert jars.jars("spark") == [path]
    assert registry.downloads == 1


def test_a_damaged_jar_in_the_cache_is_fetched_again(lock: Path, registry: Registry) -> None:
    (path,) = jars.jars("spark")
    path.write_bytes(CONTENT[:-1])
    assert jars.jars("spark") == [path]
    assert path.read_bytes() == CONTENT
    assert registry.downloads == 2


def test_a_wrong_download_is_refused_and_not_kept(lock: Path, registry: Registry, tmp_path: Path) -> None:
    registry.content = b"something else"
    with pytest.raises(EnvironmentMissing, match=r"thing-1\.0\.jar: the download is not the pinned one"):
        jars.jars("spark")
    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_ready_jars_are_taken_as_they_are_when_the_hash_is_right(
    lock: Path, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled,) = jars.copy_to("spark", tmp_path / "ready")
    monkeypatch.setenv("SURELANE_JARS", str(tmp_path / "ready"))
    assert jars.jars("spark") == [filled]
    filled.write_bytes(b"changed later")
    with pytest.raises(EnvironmentMissing, match=r"thing-1\.0\.jar"):
        jars.jars("spark")


@pytest.mark.parametrize("line", ["org.example:thing:1.0", "org.example:thing:1.0 sha256:abc", "org.example:thing"])
def test_a_lock_line_without_a_hash_is_refused(lock: Path, line: str) -> None:
    lock.write_text(line)
    with pytest.raises(EnvironmentMissing, match="not a pinned artifact"):
        jars.read_lock(lock)


@pytest.mark.parametrize("name", ["spark", "kafka", "connect", "flink", "jdbc-sink"])
def test_the_lock_files_of_the_project_can_be_read(name: str) -> None:
    pinned = jars.read_lock(Path(jars.__file__).parent.parent / f"jars-{name}.lock")
    assert pinned
    assert len({jar.path for jar in pinned}) == len(pinned)
