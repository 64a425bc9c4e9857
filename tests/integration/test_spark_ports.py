"""What listens for Spark: on which address, and that a connection needs the secret."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from app.cli.checks.finding import Level
from app.cli.checks.machine import ports
from app.config.settings import Spark
from app.java import java_home
from app.spark.home import spark_home
from tests.fix_lane import MakeLane
from tests.waiting import eventually

SECRET = "m4rked-for-a-cluster"
#: a session as a lane has it, with its UI; then calls at the driver's port, with its secret and without
_PROGRAM = """
import json, sys
from contextlib import suppress
import psutil
from app.jars import jars
from app.java import java_home
from app.spark.jvm import start_jvm
from app.spark.options import options
from app.spark.session import make_session

master, conf = sys.argv[1], json.loads(sys.argv[2])
java = java_home()
session = make_session(start_jvm(options("ports", master, conf, java, jars("spark")), java))
rows = session.range(0, 100, 1, 2).mapInArrow(lambda batches: batches, "id long").toArrow().num_rows
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


Start = Callable[..., str]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Start]:
    """Starts master or worker of a standalone cluster, as docs/SECURITY.md has it; gives what it logs up to a word."""
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *words: str, until: str) -> str:
        log = tmp_path / f"{kind}.log"
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": "-Dspark.authenticate=true -Dspark.network.crypto.enabled=true",
            "_SPARK_AUTH_SECRET": SECRET,
        }
        command = [spark_home() / "bin/spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        with log.open("wb") as out:
            started.append(subprocess.Popen([*command, *words], env=environment, stdout=out, stderr=out))
        (found, *_) = eventually(lambda: re.findall(until, log.read_text()), 120, f"{kind}: {until}")
        return found

    yield start
    for process in reversed(started):
        children = psutil.Process(process.pid).children(recursive=True)
        for one in [*children, process]:
            one.kill()
        process.wait()


def test_a_standalone_cluster_with_a_secret(daemon: Start, tmp_path: Path) -> None:
    master = daemon("Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", until=r"spark://127\S+\d")
    worker = ("--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(tmp_path), "--cores", "1", "--memory", "1g")
    daemon("Worker", *worker, master, until="Successfully registered")
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m"}
    found = session(master, **here, **{"spark.authenticate.secret": SECRET, "spark.network.crypto.enabled": "true"})
    assert (found["rows"], found["friend"], found["stranger"]) == (100, True, False)
    assert SECRET not in str(found["lines"])


@pytest.mark.parametrize(
    ("spark", "level"),
    [
        (Spark(), Level.OK),
        (Spark(conf={"spark.authenticate": "false"}), Level.FAULT),
        (Spark(master="spark://master:7077"), Level.FAULT),
        (Spark(master="spark://master:7077", conf={"spark.authenticate.secret": SECRET}), Level.OK),
        (Spark(master="yarn"), Level.OK),
        (Spark(master="yarn", conf={"spark.ui.enabled": "true"}), Level.WARN),
        (Spark(master="k8s://https://host", conf={"spark.authenticate": "false"}), Level.FAULT),
    ],
)
def test_the_doctor_looks_at_the_ports(spark: Spark, level: Level, lane: MakeLane) -> None:
    settings = lane("two-phase").settings.model_copy(update={"spark": spark})
    found = ports(settings)
    assert found.level is level
    assert SECRET not in f"{found}"
