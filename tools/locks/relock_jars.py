"""`./run lock`: rewrite `jars-*.lock` from the roots in each file's head, with the hash of every artifact.

The head lists what to pin: `# closure of: COORDINATES...` with all run-time dependencies, `# as they are:
COORDINATES...` without. To update a version, change it there and run `./run lock`.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jgo.maven import Dependency, MavenContext

from app.jars import DOWNLOAD_TIMEOUT_SECONDS, DOWNLOADS_AT_ONCE, LOCK_FOLDER, Jar, sha256_of

CLOSURE, EXACTLY = "# closure of: ", "# as they are: "


def relock(file: Path) -> None:
    """Rewrite one lock file; its head stays."""
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        maven = MavenContext(repo_cache=Path(scratch), timeout=DOWNLOAD_TIMEOUT_SECONDS)
        wanted = _closure(maven, _coordinates(head, CLOSURE)) | set(_coordinates(head, EXACTLY))
        lines = sorted(pool.map(lambda coordinates: _pinned(maven, coordinates), wanted))
    file.write_text("\n".join([*head, *lines, ""]))


def _coordinates(head: list[str], mark: str) -> list[str]:
    return [word for line in head if line.startswith(mark) for word in line.removeprefix(mark).split()]


def _closure(maven: MavenContext, roots: list[str]) -> set[str]:
    """The roots and their run-time dependencies, in the form of the lock file."""
    if not roots:
        return set()
    requested, needed = maven.resolver.resolve([maven.create_dependency(root) for root in roots])
    return {_written(dependency) for dependency in [*requested, *needed]}


def _written(dependency: Dependency) -> str:
    tail = f":{dependency.classifier}:{dependency.type}" if dependency.classifier else ""
    return f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}{tail}"


def _pinned(maven: MavenContext, coordinates: str) -> str:
    jar = Jar.parse(coordinates, sha256="")
    component = maven.project(jar.group, jar.artifact).at_version(jar.version)
    path = component.artifact(jar.classifier, jar.type).resolve()
    return f"{coordinates} sha256:{sha256_of(path)}"


if __name__ == "__main__":
    for lock in sorted(LOCK_FOLDER.glob("jars-*.lock")):
        print(f"surelane: {lock.name}")
        relock(lock)
