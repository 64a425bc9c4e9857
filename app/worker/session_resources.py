"""What resident tasks require of a Spark session: cores, and on a cluster an encrypted channel."""

import os
from collections.abc import Mapping

from app.config.credentials import variables_with_secrets
from app.config.settings import Settings
from app.errors import ConfigInvalid
from app.spark.cores import cores
from app.spark.session_options import EXECUTOR, authenticates, encrypts, is_local

#: variables with which libpq and Amazon's libraries log in; local processes inherit them
_LIBPQ = "PG"
_AMAZON = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION")
#: default number of tasks: a lane merges on one connection, which cannot keep up with more
USUAL_TASKS = 4


def tasks_of(settings: Settings, processors: int | None = None) -> int:
    """The number of tasks. Locally the driver takes one core; on a cluster a task waits until it gets one.

    `processors`: see `cores`. Raises ConfigInvalid where the session has too few cores.
    """
    master, wanted = settings.spark.master, settings.stage.tasks
    most = cores(master, settings.spark.conf, processors)
    if wanted is not None and most is not None and wanted > most:
        raise ConfigInvalid(
            f"stage.tasks: {wanted}, but Spark at {master} gives the session {most} cores, and each task takes one",
            hint=f"write stage.tasks: {most} or less, or give the session more: spark.master: local[{wanted}]; on a "
            "cluster spark.cores.max, or spark.executor.instances and spark.executor.cores, in spark.conf",
        )
    if wanted is not None or most is None:
        return wanted or USUAL_TASKS
    return max(1, min(most - 1 if is_local(master) else most, USUAL_TASKS))


def check_channel(settings: Settings) -> None:
    """Raises ConfigInvalid for an unprotected channel: tasks receive passwords of source and target."""
    master, conf = settings.spark.master, settings.spark.conf
    if is_local(master):
        return
    if not authenticates(master, conf):
        raise ConfigInvalid(
            f"Spark at {master} takes any connection, and passwords of source and target go to its tasks",
            hint="write spark.authenticate.secret in spark.conf, the one that master and workers have: "
            "docs/SECURITY.md, Spark's ports",
        )
    if not encrypts({**EXECUTOR, **conf}):
        raise ConfigInvalid(
            f"what goes to Spark at {master} is not encrypted, and passwords of source and target are among it",
            hint='leave spark.network.crypto.enabled out of spark.conf, or write "true"',
        )


def variables_of_tasks(settings: Settings) -> Mapping[str, str]:
    """Environment variables with credentials that tasks need and do not inherit."""
    wanted = variables_with_secrets(settings)
    if not is_local(settings.spark.master):
        wanted |= {*_AMAZON, *(name for name in os.environ if name.startswith(_LIBPQ))}
    return {name: os.environ[name] for name in wanted if name in os.environ}
