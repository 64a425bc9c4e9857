"""The JVM of Spark's session, started by itself: it comes up while this process still imports what it needs.

    start_jvm:  spark-submit --> launcher --> JVM ..... port and secret in a file
    meanwhile:  PySpark, Arrow, SQLAlchemy, librdkafka are imported .......... make_session (app.spark.session) connects

PySpark would start it at the first session, by the same script.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from app.errors import EnvironmentMissing, SparkGone
from app.private import UMASK
from app.process import ignore_stop_signals
from app.spark.home import spark_home

#: of the small JVM that only puts the real one's command line together
LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t", **{character: f"\\{character}" for character in "\\ =:#!"}}
#: of the executors' machines; Spark itself sees it only where it starts the driver's Python, too
PYTHON = "spark.pyspark.python"
#: seconds between two looks at whether it is up
_LOOK_SECONDS = 0.01


class Jvm:
    """One that is coming up. It lives no longer than this process, and ends with it however that ends."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        options: Mapping[str, str],
        folder: "tempfile.TemporaryDirectory[str]",
    ) -> None:
        """`options` of Spark; `folder`, which its owner alone may read: the options, and where it
        writes how to talk to it. A SIGKILL of this process before `address` leaves that folder behind."""
        self.process, self.options = process, options
        self._folder = folder

    def address(self) -> bytes:
        """Wait until it is up; gives its port and its secret, as PySpark's gateway writes them.

        Raises SparkGone when it ends instead: another one may have more luck, with memory say.
        """
        file = _address_file(self._folder.name)
        while not file.exists():
            if (status := self.process.poll()) is not None:
                self._folder.cleanup()
                raise SparkGone(
                    f"Spark's JVM ended with status {status} before it was up",
                    hint="read what it wrote to stderr; is there memory for the spark.driver.memory of spark.conf, and "
                    "are its spark.driver.extraJavaOptions what this Java knows?",
                )
            time.sleep(_LOOK_SECONDS)
        address = file.read_bytes()
        self._folder.cleanup()
        return address


def start_jvm(options: Mapping[str, str], java_home: Path, *, hidden: Collection[str] = ()) -> Jvm:
    """Start the JVM of a session with these options of Spark, in a file: every user can read a command line.

    `hidden`: variables that may hold secrets of ours; neither the JVM nor what it starts gets them. Raises
    EnvironmentMissing when Spark's script cannot be started.
    """
    is_local = options["spark.master"].startswith("local")
    python = sys.executable if is_local else options.get(PYTHON)  # local workers run in what this process runs in
    if python:
        os.environ.setdefault("PYSPARK_PYTHON", python)
    home, folder = spark_home(), tempfile.TemporaryDirectory(prefix="surelane-jvm-")
    file = Path(folder.name, "options")
    file.write_text("".join(f"{_escaped(name)} {_escaped(value)}\n" for name, value in options.items()), "utf-8")
    words = ["--properties-file", file, "--load-spark-defaults"]
    kind = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    try:
        process = subprocess.Popen(
            [home / "bin" / "spark-submit", *words, *kind],
            stdin=subprocess.PIPE,
            env=_environment(home, java_home, folder.name, hidden, is_local=is_local),
            preexec_fn=ignore_stop_signals,  # they may come to the whole group; the JVM ends when its stdin closes
            umask=UMASK,  # the checkpoint, and what Spark spills
        )
    except OSError as error:
        raise EnvironmentMissing(
            f"Spark cannot be started: {error}", hint="is SPARK_HOME, or the installed PySpark, whole?"
        ) from error
    return Jvm(process, options, folder)


def _environment(
    home: Path, java_home: Path, folder: str, hidden: Collection[str], *, is_local: bool
) -> dict[str, str]:
    return {
        "SPARK_LAUNCHER_OPTS": LAUNCHER_OPTIONS,
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if is_local else {}),  # the UI goes by it alone
        **{name: value for name, value in os.environ.items() if name not in hidden},
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(home),  # else a script starts another Python to find it
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(_address_file(folder)),
    }


def _escaped(text: str) -> str:
    """As Java's Properties reads it, in UTF-8."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def _address_file(folder: str) -> Path:
    return Path(folder) / "address"
