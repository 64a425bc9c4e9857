"""What listens for Spark: on which address, and that a connection needs the secret."""

import json
import os
import subprocess
import sys

import pytest

from app.cli.doctor_checks.finding import Level
from app.cli.doctor_checks.machine_check import ports
from app.config.settings import SparkSettings
from tests.fix_cluster import SECRET, Cluster
from tests.fix_lane import MakeLane

SECRET_NAME, CRYPTO = "spark.authenticate.secret", "spark.network.crypto.enabled"
#: a session as a lane has it, with its UI; then calls at the driver's port, with its secret and without
_PROGRAM = """
import json, sys
from contextlib import suppress
import psutil
from app.jars import jars
from app.java import java_home
from app.spark.jvm import start_jvm
from app.spark.session_options import is_local, options
from app.spark.package import ship
from app.spark.session import make_session

master, conf = sys.argv[1], json.loads(sys.argv[2])
java = java_home()
session = make_session(start_jvm(options("ports", master, conf, java, jars("spark")), java))
if not is_local(master):
    ship(session.sparkContext)
rows = len(session.sparkContext.parallelize(range(100), 2).mapPartitions(iter).collect())
jvm, context = session._jvm, session.sparkContext
address = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", int(context.getConf().get("spark.driver.port")))
inside = jvm.org.apache.spark.SparkEnv.get().securityManager()
plain = jvm.org.apache.spark.SparkConf(False).set("spark.rpc.askTimeout", "5s").set("spark.network.timeout", "5s")
stranger = jvm.org.apache.spark.SecurityManager(plain, getattr(jvm.scala, "Option").empty(), None)

def comes_in(conf, who):
    rpc = jvm.org.apache.spark.rpc.RpcEnv.create("caller", "127.0.0.1", 0, conf, who, True)
    try:
        rpc.setupEndpointRef(address, "HeartbeatReceiver")
        return True
    except Exception:
        return False
    finally:
        rpc.shutdown()

known = {"friend": comes_in(context._jsc.sc().conf(), inside), "stranger": comes_in(plain, stranger)}
listening, lines = [], []
for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
    with suppress(psutil.NoSuchProcess):  # it ended meanwhile
        listening += [one.laddr.ip for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
        lines += process.cmdline()[1:] if process.pid != psutil.Process().pid else []
print(json.dumps({"rows": rows, "listening": listening, "lines": lines, **known}))
"""


def session(master: str, **conf: str) -> dict[str, object]:
    command = [sys.executable, "-c", _PROGRAM, master, json.dumps(conf)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # executors of a cluster have one of their own
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_session_of_its_own_listens_on_this_machine_only_and_asks_for_its_secret() -> None:
    """Also the UI, where it is on; the port is any that is free."""
    found = session("local[2]", **{"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.mark": SECRET})
    listening = found["listening"]
    assert isinstance(listening, list)
    assert len(listening) >= 5, "driver, blocks, UI, Py4J, Python's workers"
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert (found["rows"], found["friend"], found["stranger"]) == (100, True, False)
    assert SECRET not in str(found["lines"])


def test_without_a_secret_a_stranger_comes_in() -> None:
    """The call of the test above arrives: it can see the difference."""
    assert session("local[2]", **{"spark.authenticate": "false"})["stranger"] is True


def test_a_standalone_cluster_with_a_secret(cluster: Cluster) -> None:
    started = cluster.start(workers=1, cores=1).spark()
    found = session(started["master"], **started["conf"])
    assert (found["rows"], found["friend"], found["stranger"]) == (100, True, False)
    assert SECRET not in str(found["lines"])


@pytest.mark.parametrize(
    ("spark", "level"),
    [
        (SparkSettings(), Level.OK),
        (SparkSettings(conf={"spark.authenticate": "false"}), Level.FAULT),
        (SparkSettings(master="spark://master:7077"), Level.FAULT),
        (SparkSettings(master="spark://master:7077", conf={SECRET_NAME: SECRET}), Level.OK),
        (SparkSettings(master="spark://master:7077", conf={SECRET_NAME: SECRET, CRYPTO: "false"}), Level.FAULT),
        (SparkSettings(master="yarn"), Level.OK),
        (SparkSettings(master="yarn", conf={"spark.ui.enabled": "true"}), Level.WARN),
        (SparkSettings(master="k8s://https://host", conf={"spark.authenticate": "false"}), Level.FAULT),
    ],
)
def test_the_doctor_looks_at_the_ports(spark: SparkSettings, level: Level, lane: MakeLane) -> None:
    settings = lane("two-phase").settings.model_copy(update={"spark": spark})
    found = ports(settings)
    assert found.level is level
    assert SECRET not in f"{found}"
