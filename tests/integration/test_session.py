"""The options of a session, and that it changes nothing of this process."""

import json
import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import json, os, signal, sys
from app.jars import jars
from app.java import java_home
from app.spark.jvm import start_jvm
from app.spark.session_options import options
from app.spark.session import begin_session

before = signal.getsignal(signal.SIGINT)
mine = {"spark.sql.session.timeZone": "CET", "spark.app.name": "mine", "no.option.of.spark": "1"}
java = java_home()
coming = begin_session(start_jvm(options("a", "local[1]", mine, java, jars("spark")), java))
early = coming.hadoop_configuration()
session = coming.get()
names = ("spark.sql.adaptive.enabled", "spark.sql.session.timeZone", "spark.sql.codegen.wholeStage", "spark.app.name",
         "no.option.of.spark")
found = {name: session.conf.get(name) for name in names}
found["SIGINT stays"] = signal.getsignal(signal.SIGINT) is before
found["pandas"] = "pandas" in sys.modules
hadoop = session.sparkContext._jsc.hadoopConfiguration()
found["hadoop"] = [[conf.get(name) for name in ("from.outside", "fs.file.impl")] for conf in (early, hadoop)]
found["early"] = [early.get("spark.sql.adaptive.enabled"), early.get("spark.sql.from.outside")]
found["gateway"] = [name for name in os.environ if "GATEWAY" in name]
print(json.dumps(found))
"""


def test_what_a_lane_relies_on_is_above_all_else_and_this_process_stays_as_it_was(tmp_path: Path) -> None:
    """Above `spark.conf`, which is above the defaults, and above what the environment passes to Spark's script."""
    outside = "--conf spark.hadoop.from.outside=here --conf spark.sql.from.outside=here"
    above = f"{outside} --conf spark.sql.adaptive.enabled=true --conf spark.sql.codegen.wholeStage=true pyspark-shell"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": above, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert json.loads(done.stdout) == {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.app.name": "mine",
        "no.option.of.spark": "1",
        "SIGINT stays": True,
        "pandas": False,
        "hadoop": [["here", "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"]] * 2,
        "early": ["false", "here"],
        "gateway": [],
    }
    assert list(tmp_path.glob("surelane-jvm-*")) == []
