"""Spark's options: what the lane relies on, what was measured to be better, what the user configures."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.class_sharing import options_to_use
from app.private import UMASK
from app.spark.class_archive import archive, class_path

_LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
#: for a JVM that only plans epochs and keeps the checkpoint: compiling well costs more than it saves.
#: Measured over 500,000 messages: 6.4 CPU seconds instead of 11.9
_FOR_PLANNING = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
#: for the driver's heap: Java begins with a 64th of the machine's memory, where a start collects garbage eleven times
#: with 4 GB. Measured there, where nothing is computed: rows visible after 5.9 s instead of 6.8
_ROOM, _YOUNG = "-Xms384m", "-Xmn192m"
#: for one that computes the rows of a query. Code is compiled well four times as late as by default: what runs a while
#: only is not. Measured over a windowed count of 1,000,000 messages: 44.4 CPU seconds instead of 49.5, in 32.7 s
#: instead of 34.4
_FOR_COMPUTING = (
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=4000"
    " -XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
#: Hadoop's own starts the program `chmod` for each file, twice for an entry of the checkpoint; this one calls Java.
#: Measured over 200 empty epochs: 20 to 24 ms instead of 36 to 42, 18 to 20 CPU ms instead of 30 to 33
_FILES = {
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",  # it sets modes by itself, whatever the process' umask is
}
#: for a session that only plans: none of its plans runs, so no code is compiled for one, which saves 0.4 s of the 1.9 s
#: from the query's start to its first epoch; and each is written out in Spark's shorter form
_PLANS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.ui.explainMode": "simple"}
#: for Python workers: the daemon imports what the tasks that stage need before it forks them; numpy needs no pool of
#: threads
_PYTHON = {"spark.python.daemon.module": "app.stage.daemon", "spark.executorEnv.OPENBLAS_NUM_THREADS": "1"}
#: the folder of this package in the working directory of a cluster's executor (`app.spark.package`)
FOLDER = "surelane-package"
_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_EXECUTOR_JAVA = "spark.executor.extraJavaOptions"
_DRIVER_JAVA = "spark.driver.extraJavaOptions"
#: Java takes the last of an option that is given twice, and refuses two of these
_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
#: ours go where the user has chosen a collector
_WITH_OURS = re.compile(rf"{_COLLECTOR.pattern}|-Xmn\w+")
#: for an executor: its JVM only keeps Python workers, and comes up sooner after it was killed
EXECUTOR = {
    _EXECUTOR_JAVA: _FOR_PLANNING,
    "spark.network.crypto.enabled": "true",  # the tasks get settings with their secrets
}
#: the folder that has the package
_HERE = str(Path(__file__).resolve().parents[2])
AUTHENTICATE, SECRET = "spark.authenticate", "spark.authenticate.secret"
_ENCRYPTS = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
#: masters for which Spark makes the secret itself, one for each application
_MAKES_SECRET = ("local[", "yarn", "k8s://")
_CLASSPATH = "spark.driver.extraClassPath"
#: jars behind Spark's own: of a class that both have, Spark's is used
_JARS = "spark.jars"
#: what the lane relies on; `spark.conf` of the configuration may override all but these
REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    # names of columns are those of Postgres
    "spark.sql.caseSensitive": "true",
    # an epoch's rows must come back in one pass, in partition order
    "spark.sql.adaptive.enabled": "false",
    # strings exactly as they are in the message
    "spark.sql.json.enableExactStringParsing": "true",
    # of a query: a part of an epoch's state that was not written ends it, and is not found out epochs later
    "spark.sql.streaming.stateStore.commitValidation.enabled": "true",
}
#: the checkpoint's file manager, as measured, halves the cost of an entry on a local disk
DEFAULTS = {
    "spark.ui.enabled": "false",
    # shown by the UI only: by default the plans of 1,000 epochs stay in memory
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
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
    computes: bool = False,
) -> dict[str, str]:
    """Options of a session, with the Kafka connector's `jars`. `computes`: False for one that only plans.

    `more` jars come behind Spark's own: what they bundle (netty) must not come before Spark's.
    """
    sent = [*jars, *more] if computes and not is_local(master) else more
    driver = _driver(java_home, jars, sent, conf, master, computes=computes)
    is_known = {AUTHENTICATE: "true"} if authenticates(master, conf) else {}
    return {"spark.app.name": f"surelane {lane}", **is_known, **driver, **REQUIRED, "spark.master": master}


def authenticates(master: str, conf: Mapping[str, str]) -> bool:
    """Whether a connection to the ports of such a session needs a secret.

    A standalone cluster's master and workers need the same one: it has to be configured.
    """
    has_secret = master == "local" or master.startswith(_MAKES_SECRET) or SECRET in conf
    return conf.get(AUTHENTICATE, str(has_secret).lower()).strip().lower() == "true"


def encrypts(conf: Mapping[str, str]) -> bool:
    """Whether the traffic between driver and executors is encrypted."""
    return any(conf.get(name, "").strip().lower() == "true" for name in _ENCRYPTS)


def is_local(master: str) -> bool:
    """Whether the session runs on this machine alone."""
    return master.startswith("local")


def _driver(
    java_home: Path,
    jars: Sequence[Path],
    more: Sequence[Path],
    conf: Mapping[str, str],
    master: str,
    *,
    computes: bool,
) -> dict[str, str]:
    """Options of the driver's JVM: the jars are on its class path, where the class archive can have them too. Executors
    get `more`; they need the connector's only where they read topics themselves."""
    flags = _FOR_COMPUTING if computes else _FOR_PLANNING
    ours = f"{flags} {_ROOM} {'' if computes else _YOUNG} {JAVA_OPTIONS} {options_to_use(archive(java_home, jars))}"
    classpath = os.pathsep.join([*map(str, class_path(jars)), *filter(None, [conf.get(_CLASSPATH)])])
    defaults = {
        **(DEFAULTS if is_local(master) else EXECUTOR | {_EXECUTOR_JAVA: flags} | _without_addresses(DEFAULTS)),
        **_FILES,
        **_PYTHON,
        **_PLANS,
    }
    path = [_HERE, os.environ.get("PYTHONPATH")] if is_local(master) else [FOLDER]
    path = os.pathsep.join(filter(None, [*path, conf.get(_PYTHON_PATH)]))
    java_options = _with_users(ours, conf.get(_DRIVER_JAVA, ""))
    merged = {**defaults, **conf, _CLASSPATH: classpath, _PYTHON_PATH: path, _DRIVER_JAVA: java_options}
    behind = ",".join([*map(str, more), *filter(None, [conf.get(_JARS)])])
    return {**merged, _JARS: behind} if behind else merged


def _with_users(ours: str, users: str) -> str:
    """Java options: the user's behind ours, whose collector goes where the user has chosen one."""
    return f"{_WITH_OURS.sub('', ours) if _COLLECTOR.search(users) else ours} {users}".strip()


def _without_addresses(defaults: Mapping[str, str]) -> dict[str, str]:
    """Without the driver's addresses of this machine alone: executors on others have to reach it."""
    return {name: value for name, value in defaults.items() if name not in _ADDRESSES}
