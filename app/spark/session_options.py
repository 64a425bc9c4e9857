"""What Spark is told when it starts: what the lane relies on, what was measured to be better, what the user wants."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.private import UMASK
from app.spark.class_archive import archive, class_path, options_to_use

_LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
#: of one that plans epochs and keeps the checkpoint: what it saves by compiling well is less than compiling costs.
#: Measured over 500,000 messages: 6.4 CPU seconds instead of 11.9
_FOR_PLANNING = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
#: Hadoop's own starts the program `chmod` for each file, twice for an entry of the checkpoint; this one asks Java.
#: Measured over 200 empty epochs: 20 to 24 ms instead of 36 to 42, 18 to 20 CPU ms instead of 30 to 33
_FILES = {
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",  # it sets modes by itself, whatever the process' umask is
}
#: of a session that only plans: none of its plans is run, so no code is compiled for one, which is 0.4 s of the 1.9 s
#: from the query's start to its first epoch; and each is written out in Spark's shorter way
_PLANS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.ui.explainMode": "simple"}
#: of Python workers: what the tasks that stage import is imported before they are forked, and numpy needs no pool of
#: threads
_PYTHON = {"spark.python.daemon.module": "app.stage.daemon", "spark.executorEnv.OPENBLAS_NUM_THREADS": "1"}
#: in the working directory of an executor of a cluster: this package (`app.spark.package`)
FOLDER = "surelane-package"
_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
#: of an executor: its JVM does nothing but keep Python workers, and is there again after it was killed the sooner
EXECUTOR = {
    "spark.executor.extraJavaOptions": _FOR_PLANNING,
    "spark.network.crypto.enabled": "true",  # settings with their secrets go to the tasks
}
#: where the package is
_HERE = str(Path(__file__).resolve().parents[2])
AUTHENTICATE, SECRET = "spark.authenticate", "spark.authenticate.secret"
#: where it is given, `SparkContext.defaultParallelism` does not say the session's cores
PARALLELISM = "spark.default.parallelism"
_ENCRYPTS = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
#: masters for which Spark makes the secret itself, one for each application
_MAKES_SECRET = ("local[", "yarn", "k8s://")
_CLASSPATH = "spark.driver.extraClassPath"
#: a class that Spark has, too, is Spark's
_JARS = "spark.jars"
#: what the lane relies on; `spark.conf` of the configuration may override the rest, never these
REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    # columns are called as Postgres calls them
    "spark.sql.caseSensitive": "true",
    # an epoch's rows must come back in one pass, in partition order
    "spark.sql.adaptive.enabled": "false",
    # strings of a message exactly as they stood in it
    "spark.sql.json.enableExactStringParsing": "true",
}
#: measured: halves the cost of a checkpoint entry on a local disk against the default manager
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def options(
    lane: str,
    master: str,
    conf: Mapping[str, str],
    java_home: Path,
    jars: Sequence[Path],
    *,
    more: Sequence[Path] = (),
) -> dict[str, str]:
    """Of a session with the Kafka connector's `jars`; it only plans.

    `more` jars come behind Spark's own, with what they have inside (netty) not in front of Spark's.
    """
    told = _driver(java_home, jars, more, conf, master)
    is_known = {AUTHENTICATE: "true"} if authenticates(master, conf) else {}
    return {"spark.app.name": f"surelane {lane}", **is_known, **told, **REQUIRED, "spark.master": master}


def authenticates(master: str, conf: Mapping[str, str]) -> bool:
    """Whether a connection to the ports of such a session needs a secret.

    A standalone cluster's master and workers need to have the same: it has to be given.
    """
    has_secret = master == "local" or master.startswith(_MAKES_SECRET) or SECRET in conf
    return conf.get(AUTHENTICATE, str(has_secret).lower()).strip().lower() == "true"


def encrypts(conf: Mapping[str, str]) -> bool:
    """Whether nobody on the way between driver and executors can read what they send each other."""
    return any(conf.get(name, "").strip().lower() == "true" for name in _ENCRYPTS)


def is_local(master: str) -> bool:
    """Whether the session is this machine's alone."""
    return master.startswith("local")


def _driver(
    java_home: Path,
    jars: Sequence[Path],
    more: Sequence[Path],
    conf: Mapping[str, str],
    master: str,
) -> dict[str, str]:
    """The JVM on this machine: the jars are on its class path, where the class archive can have them too. Executors, if
    there are any, need none."""
    java_options = f"{_FOR_PLANNING} {JAVA_OPTIONS} {options_to_use(archive(java_home, jars))}".strip()
    classpath = os.pathsep.join([*map(str, class_path(jars)), *filter(None, [conf.get(_CLASSPATH)])])
    defaults = {
        **(DEFAULTS if is_local(master) else EXECUTOR | _without_addresses(DEFAULTS)),
        **_FILES,
        **_PYTHON,
        **_PLANS,
        "spark.driver.extraJavaOptions": java_options,
    }
    path = [_HERE, os.environ.get("PYTHONPATH")] if is_local(master) else [FOLDER]
    path = os.pathsep.join(filter(None, [*path, conf.get(_PYTHON_PATH)]))
    told = {**defaults, **conf, _CLASSPATH: classpath, _PYTHON_PATH: path}
    behind = ",".join([*map(str, more), *filter(None, [conf.get(_JARS)])])
    return {**told, _JARS: behind} if behind else told


def _without_addresses(defaults: Mapping[str, str]) -> dict[str, str]:
    """Executors on other machines have to reach the driver."""
    return {name: value for name, value in defaults.items() if name not in _ADDRESSES}
