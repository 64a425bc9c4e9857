"""How many tasks a session can run at the same time, as far as its options determine it."""

import os
import re
from collections.abc import Mapping

_LOCAL = re.compile(r"local\[(\d+|\*)(?:\s*,\s*\d+)?\]")
_STANDALONE = "spark://"
#: masters that start a configured number of executors; Spark's defaults of executors and of cores for each
_COUNTED, _INSTANCES, _CORES = ("yarn", "k8s://"), "2", "1"


def cores(master: str, conf: Mapping[str, str], processors: int | None = None) -> int | None:
    """None: as many as the cluster has, which is known once its executors have registered. `processors`: what Java
    counts on this machine, None: those that this process may use."""
    found = _cores(master, conf, processors or len(os.sched_getaffinity(0)))
    return None if found is None else found // int(conf.get("spark.task.cpus", "1"))


def _cores(master: str, conf: Mapping[str, str], processors: int) -> int | None:
    if master == "local":
        return 1
    if local := _LOCAL.fullmatch(master):
        return processors if local[1] == "*" else int(local[1])
    if master.startswith(_STANDALONE):
        most = conf.get("spark.cores.max")
        return None if most is None else int(most)
    if master.startswith(_COUNTED) and conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true":
        executors = int(conf.get("spark.executor.instances", _INSTANCES))
        return executors * int(conf.get("spark.executor.cores", _CORES))
    return None
