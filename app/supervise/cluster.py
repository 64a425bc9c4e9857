"""What resident tasks want of a Spark session: cores, and on a cluster a channel that nobody listens to."""

from app.config.settings import Settings
from app.errors import ConfigInvalid
from app.spark.cores import cores
from app.spark.options import EXECUTOR, authenticates, encrypts, is_local

#: where nobody says how many: one lane merges on one connection, and more than this it cannot keep up with
USUAL_TASKS = 4


def tasks_of(settings: Settings) -> int:
    """How many there are to be. One core of this machine is the driver's; on a cluster a task waits until it has one.

    Raises ConfigInvalid where the session will never have so many.
    """
    master, wanted = settings.spark.master, settings.stage.tasks
    most = cores(master, settings.spark.conf)
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
    """Settings of source and target go to the tasks, with their passwords. Raises ConfigInvalid."""
    master, conf = settings.spark.master, settings.spark.conf
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
