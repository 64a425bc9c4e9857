"""Programs of Prometheus, PgBouncer, and Chromium, for the tests: the machine's own, else out of Debian's packages.

No package index has them, so apt-get fetches the packages, which it checks by the distribution's signatures. They are
unpacked into the cache, not installed: no root is needed, nothing of the machine changes, and no service is started.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from app.cache import cache_dir, locked

#: of each program the packages that have it; the first was split from the second in newer releases
PACKAGES = {
    "promtool": ("promtool", "prometheus"),
    "prometheus": ("prometheus",),
    "amtool": ("amtool", "prometheus-alertmanager"),
    "prometheus-alertmanager": ("prometheus-alertmanager",),
    "prometheus-postgres-exporter": ("prometheus-postgres-exporter",),
    "pgbouncer": ("pgbouncer", "libc-ares2", "libevent-2.1-7", "libevent-2.1-7t64"),
}
#: where Debian's Alertmanager has its templates, for good: unpacked, they are beside it, and it is started there
TEMPLATES = b"/usr/share/prometheus/alertmanager"
HERE = b"/proc/self/cwd".ljust(len(TEMPLATES), b"/")
#: seconds for one call of apt-get
APT_TIMEOUT_SECONDS = 120


def program(name: str, *, fetched: bool = False) -> Path:
    """The program; the test is skipped, and says why, where there is none and none can be had.

    `fetched`: not the machine's own, which may need files that only this machine has.
    """
    if not fetched and (found := shutil.which(name)):
        return Path(found)
    folder, output = cache_dir() / "debian" / "bin", ""
    if not (folder / name).is_file():
        with locked(cache_dir() / ".debian.lock"):
            output = _fetch_missing(folder, fetched=fetched) if not (folder / name).is_file() else ""
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not on PATH and could not be fetched: {output}")
    return folder / name


def _fetch_missing(folder: Path, *, fetched: bool) -> str:
    """All that are not there, in one go, since it takes long to ask what there is; gives why one was not had."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return "this machine has no apt-get"
    folder.mkdir(parents=True, exist_ok=True)
    output = ""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
        for lists in ("the machine's", "our own"):
            wanted = [name for name in PACKAGES if fetched or not shutil.which(name)]
            missing = [name for name in wanted if not (folder / name).is_file()]
            if missing:
                output = _fetch(missing, folder, Path(scratch), own_lists=lists == "our own")
    return output


def _fetch(names: list[str], folder: Path, scratch: Path, *, own_lists: bool) -> str:
    options = _options(scratch, own_lists=own_lists)
    output = _run(["apt-get", *options, "update"], scratch) if own_lists else ""
    for package in dict.fromkeys(package for name in names for package in PACKAGES[name]):
        output = _run(["apt-get", *options, "download", package], scratch) or output
        for archive in scratch.glob(f"{package}_*.deb"):
            output = _run(["dpkg-deb", "--extract", str(archive), str(scratch / "whole")], scratch) or output
            archive.unlink()
    for name in names:
        places = (scratch / "whole" / "usr" / sub / name for sub in ("bin", "sbin"))
        if binary := next((place for place in places if place.is_file()), None):
            libraries(folder).mkdir(exist_ok=True)
            for library in (scratch / "whole").glob("usr/lib/*/*.so*"):
                library.replace(libraries(folder) / library.name)
            for template in (scratch / "whole").glob(f"{TEMPLATES.decode()[1:]}/*.tmpl"):
                template.replace(folder / template.name)
            binary.write_bytes(binary.read_bytes().replace(TEMPLATES, HERE))
            binary.rename(folder / name)
    return output.splitlines()[-1] if output else ""


def libraries(folder: Path) -> Path:
    """For LD_LIBRARY_PATH: what fetched programs in `folder` need and the machine may lack."""
    return folder.with_name("lib")


def tree(package: str, *others: str) -> Path:
    """A folder with a package and all that it depends on and the machine lacks, unpacked; the test is skipped, and says
    why, where that cannot be had."""
    folder, output = cache_dir() / "debian" / package, ""
    if not folder.is_dir():
        with locked(cache_dir() / f".debian-{package}.lock"):
            output = _fetch_tree(folder, package, *others) if not folder.is_dir() else ""
    if not folder.is_dir():
        pytest.skip(f"{package} could not be fetched: {output}")
    return folder


def _fetch_tree(folder: Path, *packages: str) -> str:
    """Gives why it was not had."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return "this machine has no apt-get"
    folder.parent.mkdir(parents=True, exist_ok=True)
    output = ""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
        place = Path(scratch)
        for own_lists in (False, True):
            options = _options(place, own_lists=own_lists)
            output = _run(["apt-get", *options, "update"], place) if own_lists else ""
            wanted = ["apt-get", *options, "--simulate", "--no-install-recommends", "install", *packages]
            lines = _printed(wanted, place).splitlines()
            missing = [line.split()[1] for line in lines if line.startswith("Inst ")]
            if missing and not (output := _run(["apt-get", *options, "download", *missing], place)):
                for archive in place.glob("*.deb"):
                    output = _run(["dpkg-deb", "--extract", str(archive), str(place / "whole")], place) or output
                if not output:
                    (place / "whole").rename(folder)
                    return ""
    return output.splitlines()[-1] if output else "apt-get does not know it"


def _options(scratch: Path, *, own_lists: bool) -> list[str]:
    """The machine's lists of packages may be missing or old, and only root may renew them."""
    for sub in ("lists/partial", "archives/partial"):
        (scratch / sub).mkdir(parents=True, exist_ok=True)
    options = {"Dir::Cache": str(scratch), "Debug::NoLocking": "true", "APT::Sandbox::User": ""}
    if own_lists:
        options["Dir::State::Lists"] = str(scratch / "lists")
    return ["--quiet=2", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]


def _run(command: list[str], folder: Path) -> str:
    """What it says on stderr; a failure is seen by what is not there afterwards."""
    done = _ended(command, folder)
    return done.stderr.strip() if done is not None else f"{command[0]} took longer than {APT_TIMEOUT_SECONDS} s"


def _printed(command: list[str], folder: Path) -> str:
    """Its output; empty for a failure."""
    done = _ended(command, folder)
    return done.stdout if done is not None and done.returncode == 0 else ""


def _ended(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str] | None":
    """None: it took too long."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=APT_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
