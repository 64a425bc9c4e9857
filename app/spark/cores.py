"""How many tasks a session can run at the same time, as far as its options say so."""

import os
import re
from collections.abc import Mapping

_LOCAL = re.compile(r"local\[(\d+|\*)(?:\s*,\s*\d+)?\]")
_STANDALONE = "spark://"
#: masters that start as many executors as they were told, and Spark's own words where nothing was said
_COUNTED, _INSTANCES, _CORES = ("yarn", "k8s://"), "2", "1"


def cores(master: str, conf: Mapping[str, str]) -> int | None:
    """None: as many as the cluster has, which shows when its executors have registered."""
    found = _cores(master, conf)
    return None if found is None else found // int(conf.get("spark.task.cpus", "1"))


def _cores(master: str, conf: Mapping[str, str]) -> int | None:
    if master == "local":
        return 1
    if local := _LOCAL.fullmatch(master):
        return len(os.sched_getaffinity(0)) if local[1] == "*" else int(local[1])
    if master.startswith(_STANDALONE):
        most = conf.get("spark.cores.max")
        return None if most is None else int(most)
    if master.startswith(_COUNTED) and conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true":
        executors = int(conf.get("spark.executor.instances", _INSTANCES))
        return executors * int(conf.get("spark.executor.cores", _CORES))
    return None
