"""The bill of materials has what the locks pin, no more and no less, in a form that others read."""

import json
import re
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from app.errors import EnvironmentMissing
from app.jars import LOCK_FOLDER, read_lock
from tools.locks.audit import audit
from tools.locks.sbom import document

PYTHON = sorted(LOCK_FOLDER.glob("requirements*.lock"))
JARS = sorted(LOCK_FOLDER.glob("jars-*.lock"))


def test_it_is_valid() -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document())) is None


def test_it_has_every_package_and_every_hash() -> None:
    found = {(one["name"], one["version"]): one for one in document()["components"] if "pypi" in one["purl"]}
    pins = {
        (name.lower(), version)
        for lock in PYTHON
        for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock.read_text(), re.MULTILINE)
    }
    assert len(pins) > 50
    assert set(found) == pins
    hashes = {digest for lock in PYTHON for digest in re.findall(r"sha256:([0-9a-f]{64})", lock.read_text())}
    assert {one["content"] for component in found.values() for one in component["hashes"]} == hashes


def test_it_has_every_jar() -> None:
    found = {one["hashes"][0]["content"]: one for one in document()["components"] if "maven" in one["purl"]}
    wanted = {jar.sha256: jar for lock in JARS for jar in read_lock(lock)}
    assert set(found) == set(wanted)
    for digest, jar in wanted.items():
        named = found[digest]
        assert (named["group"], named["name"], named["version"]) == (jar.group, jar.artifact, jar.version)
        assert jar.classifier in named["purl"]


def test_packages_of_tests_are_excluded() -> None:
    scopes = {one["name"]: one["scope"] for one in document()["components"]}
    assert (scopes["pyspark"], scopes["boto3"], scopes["aws-msk-iam-auth"]) == ("required",) * 3
    assert (scopes["pytest"], scopes["cfn-lint"]) == ("excluded",) * 2


def test_the_same_locks_give_the_same_text() -> None:
    assert json.dumps(document()) == json.dumps(document())


def test_an_audit_without_data_fails(tmp_path: Path) -> None:
    """As offline: the auditor ends with an error and no answer."""
    program = [sys.executable, "-c", "import sys; sys.exit('ConnectionError: no way to the index')"]
    with pytest.raises(EnvironmentMissing, match=r"was not audited.*no way to the index"):
        audit([tmp_path / "requirements.lock"], program)


def test_a_package_without_data_is_not_sound(tmp_path: Path) -> None:
    """As behind a mirror that has the packages and not what is known of them."""
    answer = {"dependencies": [{"name": "unknown", "skip_reason": "not found"}, {"name": "good", "vulns": []}]}
    program = [sys.executable, "-c", f"print({json.dumps(json.dumps(answer))})"]
    with pytest.raises(EnvironmentMissing, match="no data on 1 of 2 packages"):
        audit([tmp_path / "requirements.lock"], program)


def test_a_weakness_is_reported(tmp_path: Path) -> None:
    answer = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]},
        ]
    }
    program = [sys.executable, "-c", f"import sys; print({json.dumps(json.dumps(answer))}); sys.exit(1)"]
    lock = tmp_path / "requirements.lock"
    assert audit([lock], program) == ["bad 2 (requirements.lock): PYSEC-1; mended in 3"]
