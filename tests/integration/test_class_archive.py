"""Spark's JVM starts from the class archive; without one, or with one that does not fit, it starts all the same."""

import shlex
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.class_sharing import options_to_use
from app.jars import jars
from app.java import java, java_home
from app.spark.class_archive import archive, class_path
from app.spark.session_options import JAVA_OPTIONS, options

#: what names the classes that every new session calls
_EXTENSIONS = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"


def test_the_sessions_jvm_has_the_archive_in_memory(spark: SparkSession) -> None:
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    pid = java.java.lang.ProcessHandle.current().pid()
    assert str(archive(java_home(), jars("spark"))) in Path(f"/proc/{pid}/maps").read_text()


def test_nothing_on_the_class_path_extends_every_session() -> None:
    """Machine learning's extension made Scala's reflection come up with each session: a second. Setting up leaves it
    out, as the image does."""
    extending = [jar for jar in class_path(jars("spark")) if _EXTENSIONS in zipfile.ZipFile(jar).namelist()]
    assert extending == []


def test_another_java_or_other_jars_have_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELANE_CACHE", str(tmp_path))
    (tmp_path / "java").mkdir()
    one = archive(tmp_path / "java", [])
    assert archive(tmp_path / "java", [tmp_path / "a.jar"]) != one
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="21.0.9"')
    assert archive(tmp_path / "java", []) != one
    assert options_to_use(one) == ""


def test_the_class_path_has_sparks_jars_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and its copy in an image list their files in different orders; an archive fits one order."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "c.jar", "a.jar", "no-jar.txt"):
        (tmp_path / "jars" / name).touch()
    own = [tmp_path / "z.jar"]
    assert [path.name for path in class_path(own)] == ["z.jar", "a.jar", "b.jar", "c.jar"]


@pytest.mark.parametrize("computes", [False, True])
def test_a_users_java_options_come_behind_ours(*, computes: bool) -> None:
    """Java accepts them together, and theirs win: of an option that is given twice, and of two collectors."""
    conf = {"spark.driver.extraJavaOptions": "-XX:+UseG1GC -XX:TieredStopAtLevel=3"}
    made = options("lane", "local[1]", conf, java_home(), jars("spark"), computes=computes)
    words = shlex.split(made["spark.driver.extraJavaOptions"])
    command = [java(), *words, "-XX:+PrintFlagsFinal", "-version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    flags = {row[1]: row[3] for row in rows if len(row) > 3}
    assert (flags["UseG1GC"], flags["UseSerialGC"], flags["UseParallelGC"]) == ("true", "false", "false")
    assert flags["TieredStopAtLevel"] == "3"
    assert not any(word.startswith("-Xmn") for word in words), "a size of the young generation is the collector's own"
    assert JAVA_OPTIONS in words
