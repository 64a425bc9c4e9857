"""Starts the JVM of Spark's session early: it comes up while this process still imports what it needs.

    start_jvm:  JVM ................................... port and secret in a file
    meanwhile:  PySpark, Arrow, SQLAlchemy, librdkafka are imported ......... begin_session (app.spark.session) connects

PySpark itself would start it at the first session, by Spark's script.
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
from app.spark.launch_command import LAUNCHER_OPTIONS, launch_command

_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t", **{character: f"\\{character}" for character in "\\ =:#!"}}
#: option: Python on the executors' machines; Spark itself reads it only where it starts the driver's Python, too
PYTHON = "spark.pyspark.python"
#: seconds between two checks whether it is up
_LOOK_SECONDS = 0.01


class Jvm:
    """A JVM that is coming up. It ends with this process, however that ends."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        options: Mapping[str, str],
        folder: "tempfile.TemporaryDirectory[str]",
    ) -> None:
        """`options`: Spark's; `folder`: readable by its owner alone, has the options and, once the JVM is up, its port
        and secret. A SIGKILL of this process before `address` leaves it behind."""
        self.process, self.options = process, options
        self._folder = folder

    def address(self) -> bytes:
        """Wait until the JVM is up. Returns its port and its secret, as PySpark's gateway writes them.

        Raises SparkGone when it ends instead: another one may come up, with more memory for example.
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


def start_jvm(
    options: Mapping[str, str],
    java_home: Path,
    *,
    hidden: Collection[str] = (),
    defaults: Mapping[str, str] | None = None,
) -> Jvm:
    """Start the JVM of a session. It gets Spark's options in a file: every user can read a command line.

    `hidden`: environment variables that may have Surelane's secrets; neither the JVM nor its children get them.
    `defaults`: environment variables for it, where they are not set. Raises EnvironmentMissing when it cannot be
    started.
    """
    is_local = options["spark.master"].startswith("local")
    python = sys.executable if is_local else options.get(PYTHON)  # local workers use this process' Python
    if python:
        os.environ.setdefault("PYSPARK_PYTHON", python)
    home, folder = spark_home(), tempfile.TemporaryDirectory(prefix="surelane-jvm-")
    file = Path(folder.name, "options")
    file.write_text("".join(f"{_escaped(name)} {_escaped(value)}\n" for name, value in options.items()), "utf-8")
    kind = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    arguments = ["--properties-file", str(file), "--load-spark-defaults", *kind]
    environment = {**(defaults or {}), **_environment(home, java_home, folder.name, hidden, is_local=is_local)}
    command = launch_command(arguments, file, home, environment)
    try:
        process = subprocess.Popen(
            command or [home / "bin" / "spark-submit", *arguments],
            stdin=subprocess.PIPE,
            env=environment,
            preexec_fn=ignore_stop_signals,  # signals may reach the whole group; the JVM ends when its stdin closes
            umask=UMASK,  # for the checkpoint and Spark's spill files
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
        "SPARK_LAUNCHER_OPTS": " ".join(LAUNCHER_OPTIONS),
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if is_local else {}),  # only this sets the UI's address
        **{name: value for name, value in os.environ.items() if name not in hidden},
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(home),  # else a script starts another Python to find it
        "PYTHONHASHSEED": "0",  # as Spark's script sets it
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(_address_file(folder)),
    }


def _escaped(text: str) -> str:
    """Escaped for Java's Properties, in UTF-8."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def _address_file(folder: str) -> Path:
    return Path(folder) / "address"
