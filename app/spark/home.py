"""Finds Spark's folders without importing it."""

import os
from importlib.util import find_spec
from pathlib import Path

from app.errors import EnvironmentMissing


def spark_home() -> Path:
    """The folder with Spark's jars and scripts: what SPARK_HOME names, else PySpark's own."""
    return Path(os.environ.get("SPARK_HOME") or pyspark_home())


def pyspark_home() -> Path:
    """The folder of the installed PySpark. Raises EnvironmentMissing when there is none."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise EnvironmentMissing("PySpark is not installed", hint="install what requirements.lock names")
    return Path(found.origin).parent
