"""The command line of Spark's JVM, as Spark's launcher makes it, kept in the cache.

Spark's scripts run a dozen programs and a small JVM for it: 0.3 CPU seconds of each start. The launcher's output
depends on nothing but its arguments, the options, some environment variables and Spark's folders.
"""

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from app.cache import cache_dir

#: for the small JVM that only puts the real one's command line together
LAUNCHER_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: variables that Spark's launcher reads
_READ = ("SPARK_", "PYSPARK_", "JAVA_", "HADOOP_", "YARN_")
#: an option that each lane has another value of, and the launcher does not read
_UNREAD = "spark.app.name "
#: the launcher wants it, and uses it for a Spark only that was built in place
_SCALA = "2.13"
#: a file that every start writes anew
_VARYING = "\0"
#: seconds for the launcher, on a busy machine
_SECONDS = 60.0


def launch_command(
    arguments: Sequence[str], options: Path, home: Path, environment: Mapping[str, str]
) -> Sequence[str] | None:
    """The command that starts `SparkSubmit` with `arguments`. None: only Spark's own script knows it.

    `options`: file of Spark's options, one of the arguments, whose path may differ each time; `home`: Spark's folder;
    `environment`: of the JVM, with JAVA_HOME.
    """
    folder = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    if (folder / "spark-env.sh").exists():  # a program, which may set anything
        return None
    file = cache_dir() / "launch" / f"{_key(arguments, options, home, folder, environment)}.json"
    kept = _kept(file)
    if kept is None:
        kept = [_VARYING if word == str(options) else word for word in _made(arguments, home, environment)]
        if not kept:
            return None
        _keep(file, kept)
    return [str(options) if word == _VARYING else word for word in kept]


def _key(arguments: Sequence[str], options: Path, home: Path, folder: Path, environment: Mapping[str, str]) -> str:
    read = sorted(item for item in environment.items() if item[0].startswith(_READ))
    files = [Path(environment["JAVA_HOME"], "release"), home / "jars", *sorted(folder.glob("*"))]
    states = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.exists()]
    others = [word for word in arguments if word != str(options)]
    lines = [line for line in options.read_text("utf-8").splitlines() if not line.startswith(_UNREAD)]
    parts = [others, lines, str(home), read, states, LAUNCHER_OPTIONS]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _made(arguments: Sequence[str], home: Path, environment: Mapping[str, str]) -> Sequence[str]:
    """Ask the launcher; empty where its answer is none. Spark's script then says why."""
    java = Path(environment["JAVA_HOME"], "bin", "java")
    classes = ["-cp", str(home / "jars" / "*"), "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    try:
        done = subprocess.run(
            [str(java), "-Xmx128m", *LAUNCHER_OPTIONS, *classes, *arguments],
            env={**environment, "SPARK_SCALA_VERSION": _SCALA},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    begin, _, words = done.stdout.partition("\0\n")
    return [] if done.returncode or begin.strip() else words.removesuffix("\0").split("\0")


def _kept(file: Path) -> Sequence[str] | None:
    """None also for a file that another version or a crash left."""
    try:
        words = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return words if isinstance(words, list) and words and all(isinstance(word, str) for word in words) else None


def _keep(file: Path, words: Sequence[str]) -> None:
    """Write it for its owner alone: Java's options may have a password. A cache that cannot be written costs time."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, prefix=".part-", delete=False) as part:
            json.dump(words, part)
        Path(part.name).replace(file)
