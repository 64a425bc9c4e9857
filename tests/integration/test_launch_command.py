"""The command of Spark's JVM is the one that Spark's script makes, and is made once."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.java import java_home
from app.spark.home import spark_home
from app.spark.launch_command import launch_command

_NOTHING = "#!/bin/sh\nexit 1\n"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("SURELANE_CACHE", str(tmp_path / "cache"))
    return {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(spark_home()),
        "SPARK_SUBMIT_OPTS": "-Dof.the=environment",
    }


def _options(folder: Path, text: str = "spark.driver.memory 333m\n") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "options"
    file.write_text(text + "spark.driver.extraJavaOptions -Dwith.spaces='a b' -Dquoted=x\n")
    return file


def _command(options: Path, environment: Mapping[str, str]) -> list[str] | None:
    words = ["--properties-file", str(options), "--load-spark-defaults", "pyspark-shell"]
    found = launch_command(words, options, spark_home(), environment)
    return None if found is None else list(found)


def _of_the_script(options: Path, environment: Mapping[str, str], folder: Path) -> list[str]:
    """What Spark's script runs: a Java that prints its arguments stands in where the launcher has made the command."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    real = Path(environment["JAVA_HOME"], "bin", "java")
    java.write_text(
        f'#!/bin/bash\nfor word; do [[ $word == *launcher.Main ]] && exec {real} "$@"; done\nprintf "%s\\0" "$0" "$@"\n'
    )
    java.chmod(0o755)
    words = ["--properties-file", str(options), "--load-spark-defaults", "pyspark-shell"]
    done = subprocess.run(
        [spark_home() / "bin" / "spark-submit", *words],
        env={**environment, "JAVA_HOME": str(folder / "java")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.removesuffix("\0").replace(str(java), str(real)).split("\0")


def test_it_is_the_scripts(tmp_path: Path, environment: dict[str, str]) -> None:
    options = _options(tmp_path / "a")
    made = _command(options, environment)
    assert made == _of_the_script(options, environment, tmp_path)
    assert made is not None
    assert {"-Xmx333m", "-Dof.the=environment", "-Dwith.spaces=a b", str(options)} < set(made)


def test_it_is_made_once_for_lanes_with_equal_options(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their options are at another path, and have another name of the application."""
    text = "spark.driver.memory 333m\nspark.app.name surelane "
    first, second = _options(tmp_path / "a", f"{text}one\n"), _options(tmp_path / "b", f"{text}other\n")
    made = _command(first, environment)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("the launcher is asked again"))
    assert made is not None
    assert _command(second, environment) == [str(second) if word == str(first) else word for word in made]


@pytest.mark.parametrize("change", ["options", "variable", "configuration", "cut file", "not a command"])
def test_it_is_made_anew(tmp_path: Path, environment: dict[str, str], change: str) -> None:
    """After each change of what the launcher reads, and where the kept one is unusable."""
    configuration = tmp_path / "conf"
    configuration.mkdir()
    environment["SPARK_CONF_DIR"] = str(configuration)
    options = _options(tmp_path / "a")
    before = _command(options, environment)
    (kept,) = (tmp_path / "cache" / "launch").glob("*.json")
    assert kept.stat().st_mode & 0o077 == 0, "Java's options may have a password"
    match change:
        case "options":
            _options(tmp_path / "a", "spark.driver.memory 444m\n")
        case "variable":
            environment["SPARK_SUBMIT_OPTS"] = "-Danother=1"
        case "configuration":
            (configuration / "java-opts").write_text("-Dof.a=file")
            (configuration / "spark-defaults.conf").write_text("spark.driver.defaultJavaOptions -Dof.a=file\n")
        case "cut file":
            kept.write_text(kept.read_text()[:100])
        case _:
            kept.write_text('{"a": 1}')
    after = _command(options, environment)
    assert after is not None
    assert (after == before) == (change in ("cut file", "not a command"))


@pytest.mark.parametrize("reason", ["spark-env.sh", "no launcher", "the launcher fails"])
def test_where_only_the_script_knows(tmp_path: Path, environment: dict[str, str], reason: str) -> None:
    options = _options(tmp_path / "a")
    match reason:
        case "spark-env.sh":
            (tmp_path / "conf").mkdir()
            (tmp_path / "conf" / "spark-env.sh").write_text("export SPARK_SUBMIT_OPTS=-Dof.a=program\n")
            environment["SPARK_CONF_DIR"] = str(tmp_path / "conf")
        case "no launcher":
            environment["JAVA_HOME"] = str(tmp_path / "none")
        case _:
            java = tmp_path / "java" / "bin" / "java"
            java.parent.mkdir(parents=True)
            java.write_text(_NOTHING)
            java.chmod(0o755)
            environment["JAVA_HOME"] = str(tmp_path / "java")
    assert _command(options, environment) is None
    assert not (tmp_path / "cache" / "launch").exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    (tmp_path / "cache").write_text("no folder")
    assert _command(_options(tmp_path / "a"), environment) is not None
