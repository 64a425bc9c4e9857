"""Which of several versions of Postgres' programs is taken."""

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from app.errors import EnvironmentMissing
from app.snapshot import postgres_programs as programs
from app.snapshot.postgres_programs import Connecting, Program, Programs, restores_into


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two in the folders of packages, and a newer one on PATH."""
    for folder, version in (("15/bin", "15.9"), ("17/bin", "17.5"), ("path", "18.1 (Debian 18.1-1)")):
        program = tmp_path / folder / "pg_restore"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'pg_restore (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/usr/bin:/bin")


@pytest.mark.parametrize(("server", "taken"), [(9, "15"), (15, "15"), (16, "17"), (17, "17"), (18, "18")])
def test_the_oldest_that_is_new_enough(server: int, taken: str) -> None:
    assert f" {taken}." in Programs(None).find("pg_restore", at_least=server).version


def test_the_very_version_or_none() -> None:
    assert " 15." in Programs(None).find("pg_restore", exactly=15).version
    with pytest.raises(EnvironmentMissing, match=r"of version 16.* is 18; .* is 17; .* is 15"):
        Programs(None).find("pg_restore", exactly=16)
    with pytest.raises(EnvironmentMissing, match="of version 19 or newer"):
        Programs(None).find("pg_restore", at_least=19)


def test_only_in_the_folder_that_is_named(tmp_path: Path) -> None:
    assert " 17." in Programs(tmp_path / "17/bin").find("pg_restore", at_least=15).version


def test_into_an_older_server_an_older_one_restores() -> None:
    for server, program in ((15, "15"), (17, "17"), (17, "18"), (19, "18")):
        found = Program(Path("pg_restore"), f"pg_restore (PostgreSQL) {program}.1")
        assert restores_into(found, server) is found
    with pytest.raises(EnvironmentMissing, match="is 18: it restores into servers of version 17 and newer"):
        restores_into(Programs(None).find("pg_restore", at_least=18), 16)


def test_a_password_comes_from_where_every_connection_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL's before the environment's; of other PG* variables none."""
    for name in ("PGPASSWORD", "PGPASSFILE", "PGHOST", "PGOPTIONS"):
        monkeypatch.setenv(name, "of the caller")

    def variables(url: str) -> dict[str, str]:
        environment = Connecting.to(make_url(url), "test").environment
        return {name: value for name, value in environment.items() if name.startswith("PG")}

    own = {"PGPASSFILE": "of the caller"}
    assert variables("postgresql+psycopg2://me@host/db") == {**own, "PGPASSWORD": "of the caller"}
    assert variables("postgresql+psycopg2://me:mine@host/db") == {**own, "PGPASSWORD": "mine"}
