"""`./run sbom [FILE]`: write a bill of materials (CycloneDX 1.6) of all Python packages and jars in the lock files.

It describes an installation from these locks, not this machine. The same locks give the same text, so that bills can
be compared.
"""

import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.jars import LOCK_FOLDER, Jar, read_lock

#: a pip lock file: `name==version [; marker] \\`, then lines with the hashes
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
#: locks that only checks, tests and benchmarks use
DEVELOPMENT = frozenset({"requirements-dev.lock", "requirements-uv.lock"})
FOR_BENCHMARKS = frozenset({"jars-flink.lock", "jars-jdbc-sink.lock", "jars-seatunnel.lock"})


def document(folder: Path = LOCK_FOLDER) -> dict[str, Any]:
    """The bill of materials of all lock files in `folder`."""
    components: dict[str, dict[str, Any]] = {}
    for lock in sorted(folder.glob("requirements*.lock")):
        for component in _packages(lock):
            _add(components, component, lock.name)
    for lock in sorted(folder.glob("jars-*.lock")):
        for jar in read_lock(lock):
            _add(components, _of_jar(jar), lock.name)
    parts = [_finished(components[ref]) for ref in sorted(components)]
    content = json.dumps(parts, sort_keys=True).encode()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "surelane", "bom-ref": "surelane"}},
        "components": parts,
    }


def _packages(lock: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in lock.read_text().splitlines():
        if pinned := _PINNED.match(line):
            name, version, marker = pinned[1].lower(), pinned[2], pinned[3]
            found.append(
                {
                    "type": "library",
                    "bom-ref": f"pkg:pypi/{name}@{version}",
                    "purl": f"pkg:pypi/{name}@{version}",
                    "name": name,
                    "version": version,
                    "hashes": [],
                    "properties": [{"name": "surelane:marker", "value": marker}] if marker else [],
                }
            )
        elif found and (digest := _HASH.search(line)):
            found[-1]["hashes"].append({"alg": "SHA-256", "content": digest[1]})
    return found


def _of_jar(jar: Jar) -> dict[str, Any]:
    query = {"classifier": jar.classifier, "type": jar.type if jar.type != "jar" else ""}
    qualifiers = "&".join(f"{name}={quote(value)}" for name, value in query.items() if value)
    purl = f"pkg:maven/{jar.group}/{jar.artifact}@{jar.version}" + (f"?{qualifiers}" if qualifiers else "")
    return {
        "type": "library",
        "bom-ref": purl,
        "purl": purl,
        "group": jar.group,
        "name": jar.artifact,
        "version": jar.version,
        "hashes": [{"alg": "SHA-256", "content": jar.sha256}],
        "properties": [],
    }


def _add(components: dict[str, dict[str, Any]], component: dict[str, Any], lock: str) -> None:
    """Merge a component into the one of the same reference; `surelane:lock` properties name the locks that pin it."""
    known = components.setdefault(component["bom-ref"], component)
    known["hashes"] += [one for one in component["hashes"] if one not in known["hashes"]]
    known["properties"] += [one for one in component["properties"] if one not in known["properties"]]
    known["properties"].append({"name": "surelane:lock", "value": lock})


def _finished(component: dict[str, Any]) -> dict[str, Any]:
    locks = {one["value"] for one in component["properties"] if one["name"] == "surelane:lock"}
    only_here = locks <= DEVELOPMENT | FOR_BENCHMARKS
    return {**component, "scope": "excluded" if only_here else "required"}


if __name__ == "__main__":
    text = json.dumps(document(), indent=2) + "\n"
    match sys.argv[1:]:
        case []:
            sys.stdout.write(text)
        case [file]:
            Path(file).write_text(text)
        case _:
            sys.exit("usage: python -m tools.locks.sbom [FILE]")
