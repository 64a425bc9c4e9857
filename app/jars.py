"""The jars of the service and of its local stack: named by Maven coordinates, pinned by SHA-256 in `jars-*.lock`.

`jars("spark")` returns the paths and fetches what the cache lacks. Each returned file has the hash of the lock: a
damaged file in the cache is fetched again, a damaged download is an error. A download goes to a temporary folder and
is moved into place once its hash is verified, so an interrupted run leaves no partial jar.

`SURELANE_JARS` names a folder with all jars, `<set>/<file>` (the image has one); then nothing is fetched.
`python -m app.jars SET FOLDER` fills such a folder. `SURELANE_MAVEN_REPOSITORY` names another repository to fetch from.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, get_args

from app.cache import cache_dir, locked
from app.errors import EnvironmentMissing

SetName = Literal["spark", "msk", "kafka", "connect", "flink", "jdbc-sink", "seatunnel"]

LOCK_FOLDER = Path(__file__).resolve().parent.parent
#: concurrent downloads: enough to hide the latency of many small files, few enough not to burden the repository
DOWNLOADS_AT_ONCE = 8
#: attempts for each download
DOWNLOAD_ATTEMPTS = 3
DOWNLOAD_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Jar:
    """One artifact of a lock file."""

    group: str
    artifact: str
    version: str
    classifier: str  #: empty for the main artifact
    type: str  #: "jar", or "tar.gz" for a Connect plugin
    sha256: str  #: in hex

    @classmethod
    def parse(cls, coordinates: str, sha256: str) -> Self:
        """From `group:artifact:version[:classifier:type]`."""
        group, artifact, version, *rest = coordinates.split(":")
        classifier, kind = rest or ("", "jar")
        return cls(group=group, artifact=artifact, version=version, classifier=classifier, type=kind, sha256=sha256)

    @property
    def file_name(self) -> str:
        tail = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{tail}.{self.type}"

    @property
    def path(self) -> Path:
        """Relative path in a Maven repository."""
        return Path(*self.group.split("."), self.artifact, self.version, self.file_name)

    def intact_at(self, path: Path) -> bool:
        return path.is_file() and sha256_of(path) == self.sha256


def sha256_of(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read_lock(path: Path) -> list[Jar]:
    """The artifacts of one lock file: lines `group:artifact:version[:classifier:type] sha256:HEX`."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return [_jar(line, path) for line in lines if line and not line.startswith("#")]


def _jar(line: str, path: Path) -> Jar:
    coordinates, mark, sha256 = line.partition(" sha256:")
    if not mark or len(sha256) != 64 or coordinates.count(":") not in (2, 4):
        raise EnvironmentMissing(f"{path.name}: not a pinned artifact: {line}", hint="git checkout -- jars-*.lock")
    return Jar.parse(coordinates, sha256)


def artifacts(set_name: SetName) -> list[Path]:
    """All files of a set, `tar.gz` archives included, in the order of the lock file; fetched if needed."""
    wanted = read_lock(LOCK_FOLDER / f"jars-{set_name}.lock")
    if ready := os.environ.get("SURELANE_JARS"):
        return _ready(wanted, Path(ready) / set_name)
    store = cache_dir() / "jars"
    if missing := _not_intact(wanted, store):
        with locked(store / f".{set_name}.lock"):
            missing = _not_intact(missing, store)  # another run may have fetched them while this one waited
            _fetch(missing, store, set_name)
    return [store / jar.path for jar in wanted]


def jars(set_name: SetName) -> list[Path]:
    """The jars of a set, fetched if needed, each with the hash of the lock file."""
    return [path for path in artifacts(set_name) if path.suffix == ".jar"]


def classpath(set_name: SetName) -> str:
    return os.pathsep.join(str(path) for path in jars(set_name))


def _ready(wanted: list[Jar], folder: Path) -> list[Path]:
    if bad := [jar.file_name for jar in wanted if not jar.intact_at(folder / jar.file_name)]:
        raise EnvironmentMissing(
            f"{folder} lacks jars of the lock file, or holds others under their names: {', '.join(bad)}",
            hint="unset SURELANE_JARS, or fill the folder again: python -m app.jars SET FOLDER",
        )
    return [folder / jar.file_name for jar in wanted]


def _not_intact(wanted: list[Jar], store: Path) -> list[Jar]:
    with ThreadPoolExecutor() as pool:
        intact = pool.map(lambda jar: jar.intact_at(store / jar.path), wanted)
        return [jar for jar, good in zip(wanted, intact, strict=True) if not good]


def _fetch(missing: list[Jar], store: Path, set_name: str) -> None:
    if not missing:
        return
    _say(f"fetching {len(missing)} jars ({set_name}), once for this user")
    store.mkdir(parents=True, exist_ok=True)
    part_folder = tempfile.TemporaryDirectory(dir=store, prefix=".part-")
    with part_folder as scratch, ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        for done, jar in enumerate(pool.map(lambda jar: _fetch_one(jar, Path(scratch), store), missing), start=1):
            if done % 10 == 0 or done == len(missing):
                _say(f"  {done}/{len(missing)} {jar.file_name}")


def _fetch_one(jar: Jar, scratch: Path, store: Path) -> Jar:
    part = _download(jar, scratch)
    if (found := sha256_of(part)) != jar.sha256:
        raise EnvironmentMissing(
            f"{jar.file_name}: the download is not the pinned one: sha256 {found}, expected {jar.sha256}",
            hint="check the network or SURELANE_MAVEN_REPOSITORY for something that changes downloads, then run again",
        )
    place = store / jar.path
    place.parent.mkdir(parents=True, exist_ok=True)
    part.replace(place)
    return jar


def _download(jar: Jar, scratch: Path) -> Path:
    from jgo.maven import MavenContext  # slow import: only for a run that fetches

    mirror = os.environ.get("SURELANE_MAVEN_REPOSITORY")
    failure: Exception | None = None
    for attempt in range(DOWNLOAD_ATTEMPTS):
        maven = MavenContext(
            repo_cache=scratch / str(attempt),
            remote_repos={"mirror": mirror.rstrip("/")} if mirror else None,
            timeout=DOWNLOAD_TIMEOUT_SECONDS,
        )
        component = maven.project(jar.group, jar.artifact).at_version(jar.version)
        try:
            return component.artifact(jar.classifier, jar.type).resolve()
        except (RuntimeError, OSError) as error:  # jgo raises RuntimeError for "not found", OSError for the network
            failure = error
    raise EnvironmentMissing(
        f"{jar.file_name} could not be fetched: {failure}",
        hint="check the network; behind a company's mirror set SURELANE_MAVEN_REPOSITORY=<its Maven address>",
    )


def copy_to(set_name: SetName, folder: Path) -> list[Path]:
    """Fill `folder/<set>` for SURELANE_JARS; the build of the image calls it."""
    place = folder / set_name
    place.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy2(path, place)) for path in artifacts(set_name)]


def _say(text: str) -> None:
    print(f"surelane: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [("spark" | "msk" | "kafka" | "connect" | "flink" | "jdbc-sink" | "seatunnel") as name, target]:
            copy_to(name, Path(target))
        case _:
            sys.exit(f"usage: python -m app.jars {{{'|'.join(get_args(SetName))}}} FOLDER")
