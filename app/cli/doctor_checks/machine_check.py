"""Checks of this machine: Java, jars, packages, Spark's ports and cores, and the checkpoint's folder."""

import os
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from app.cli.doctor_checks.finding import Finding, failed, fault, ok, warn
from app.config.settings import SecurityProtocol, Settings
from app.errors import ConfigInvalid, EnvironmentMissing
from app.jars import LOCK_FOLDER, jars, read_lock
from app.java import java_home
from app.spark.session_options import authenticates
from app.worker.session_resources import check_channel, tasks_of

#: packages whose versions every bug report needs
PACKAGES = ("pyspark", "pyarrow", "confluent-kafka", "sqlalchemy", "psycopg2-binary", "pydantic", "alembic")


def machine(settings: Settings, *, only_looks: bool = False) -> list[Finding]:
    """`only_looks`: for a process beside the lane, which writes nothing."""
    return [
        java(),
        spark_jars(settings),
        packages(),
        connector(),
        ports(settings),
        tasks(settings),
        checkpoint(settings, only_looks=only_looks),
    ]


def java() -> Finding:
    """Whether there is a Java that Spark runs on."""
    try:
        return ok("java", f"Java at {java_home()}")
    except EnvironmentMissing as error:
        return failed("java", error)


def spark_jars(settings: Settings) -> Finding:
    """Whether the jars of Spark's Kafka connector are complete and have the hashes of the lock file."""
    try:
        more = jars("msk") if settings.source.security.protocol is SecurityProtocol.MSK_IAM else []
        return ok("jars", f"{len([*jars('spark'), *more])} jars for Spark, hashes as pinned")
    except EnvironmentMissing as error:
        return failed("jars", error)


def packages() -> Finding:
    """The installed versions."""
    missing = [name for name in PACKAGES if not _version(name)]
    if missing:
        return fault("packages", f"not installed: {', '.join(missing)}", "start through ./run, which installs them")
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return ok("packages", f"Python {sys.version.split()[0]}, {versions}")


def connector() -> Finding:
    """Whether Spark and its Kafka connector have the same version: they share private interfaces."""
    wanted = {
        jar.version for jar in read_lock(LOCK_FOLDER / "jars-spark.lock") if jar.artifact.startswith("spark-sql-kafka")
    }
    installed = _version("pyspark") or "not installed"
    if wanted == {installed}:
        return ok("connector", f"pyspark and its Kafka connector are both {installed}")
    return fault(
        "connector",
        f"pyspark is {installed}, its Kafka connector {', '.join(wanted)}",
        "start through ./run, which installs the versions that belong together",
    )


def ports(settings: Settings) -> Finding:
    """Whether connections to Spark need a secret: driver and executors run whatever code they receive."""
    spark = settings.spark
    if not authenticates(spark.master, spark.conf):
        return fault(
            "spark ports",
            f"Spark at {spark.master} takes any connection: driver and executors run what is sent to them",
            "leave spark.authenticate on; a standalone cluster has a secret of its own: spark.authenticate.secret in "
            "spark.conf, as docs/SECURITY.md has it below Spark's ports",
        )
    try:
        check_channel(settings)
    except ConfigInvalid as error:
        return failed("spark ports", error)
    if not spark.master.startswith("local") and spark.conf.get("spark.ui.enabled", "false").lower() == "true":
        hint = "leave spark.ui.enabled off, or put spark.ui.filters in front of it"
        return warn("spark ports", "Spark's UI has no login and listens on every address", hint)
    return ok("spark ports", "a connection to Spark needs its secret")


def tasks(settings: Settings) -> Finding:
    """Whether the session has a core for each stage task."""
    try:
        return ok("stage tasks", f"{tasks_of(settings)}, each with a core of Spark at {settings.spark.master}")
    except ConfigInvalid as error:
        return failed("stage tasks", error)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def checkpoint(settings: Settings, *, only_looks: bool) -> Finding:
    """Whether the checkpoint's folder can be written; tried with a file, unless `only_looks`."""
    url = urlsplit(settings.checkpoint)
    if url.scheme not in ("", "file"):
        message = f"{settings.checkpoint} is reached through Spark and was not tried"
        return warn(
            "checkpoint", message, f"the start checks it; {url.scheme}:// needs its jars and access in spark.conf"
        )
    place = Path(url.path)
    existing = next(folder for folder in (place, *place.parents) if folder.exists())
    if only_looks and existing.is_dir() and not os.access(existing, os.W_OK):
        message = f"{existing} is read-only here, where the lane does not run: not tried. The checkpoint is {place}"
        return warn("checkpoint", message, "surelane doctor on the lane's machine tries it")
    if not existing.is_dir() or not (only_looks or _can_write(existing)):
        hint = f"let user {os.geteuid()} write there, or choose another checkpoint (SURELANE_CHECKPOINT)"
        return fault("checkpoint", f"{existing} cannot be written, the checkpoint is to be {place}", hint)
    return ok("checkpoint", f"{place} can be written; lost with this disk, it is made anew from the ledger")


def _can_write(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
