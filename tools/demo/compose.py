"""Commands that docker-compose.yml runs besides the service: tables, a connector, load and faults.

    python -m tools.demo.compose tables     create the shop's tables and the roles of ops/postgres in both databases,
                                            and rows in the source
    python -m tools.demo.compose capture    create the topic and the connector; returns when the connector runs
    python -m tools.demo.compose load       run the order shop until SIGTERM
    python -m tools.demo.compose chaos kill-worker | kill-java | freeze     needs the lane's process namespace
    python -m tools.demo.compose chaos partition                            needs the lane's network namespace

A repeated command creates only what is missing. Addresses come from the environment, see docker-compose.yml.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import psycopg2
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg2 import sql

from app.errors import EnvironmentMissing, SurelaneError
from app.supervisor.worker_process import WORKER_NAME
from tools.demo import shop
from tools.demo.partition import cut_off
from tools.demo.shop import Shop
from tools.demo.stage import CUSTOMERS, FILL_CUSTOMERS, FILL_PROBE, FILL_PRODUCTS, PRODUCTS
from tools.demo.tables import PROBE, SHOP
from tools.devstack.http import request
from tools.devstack.roles import CAPTURE, LOGIN, SOURCE, TARGET, make_roles
from tools.devstack.wait import wait_for

NAME = "shop"
CONNECT_SECONDS = 120.0
KAFKA_SECONDS = 30.0
#: seconds that a lane is suspended at most: longer than the guard's message_timeout
FREEZE_SECONDS = 90.0
#: seconds without a network: longer than db.engine's tcp_user_timeout
PARTITION_SECONDS = 40.0
#: seconds between two attempts of the shop to connect to its database
AGAIN_SECONDS = 1.0


def tables() -> None:
    """Create the tables and roles in both databases; rows in the source only."""
    source, target = os.environ["SOURCE_URL"], os.environ["TARGET_URL"]
    with psycopg2.connect(source) as connection, connection.cursor() as cursor:
        if _is_new(cursor):
            cursor.execute(SHOP + PROBE)
            cursor.execute(FILL_PROBE)
            cursor.execute(FILL_CUSTOMERS, (CUSTOMERS,))
            cursor.execute(FILL_PRODUCTS, (PRODUCTS,))
    make_roles(source, SOURCE)
    _set_password(source, CAPTURE, os.environ["SOURCE_ROLE_PASSWORD"])
    with psycopg2.connect(target) as connection, connection.cursor() as cursor:
        if _is_new(cursor):
            cursor.execute(SHOP + PROBE)
    make_roles(target, TARGET)
    _set_password(target, LOGIN, os.environ["TARGET_ROLE_PASSWORD"])
    with psycopg2.connect(target) as connection, connection.cursor() as cursor:  # as in `tools.demo.stage`
        cursor.execute(f"alter role {LOGIN} set session_replication_role = replica")


def _set_password(url: str, role: str, password: str) -> None:
    words = sql.SQL("alter role {} password {}").format(sql.Identifier(role), sql.Literal(password))
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(words)


def _is_new(cursor: psycopg2.extensions.cursor) -> bool:
    cursor.execute("select to_regclass('public.orders') is null")
    return cursor.fetchone() == (True,)


def capture() -> None:
    """Create the topic with one partition, and the connector of CONNECTOR_FILE; CONNECTOR_CONFIG (JSON) overrides it.

    Returns when the connector runs; raises EnvironmentMissing if it fails.
    """
    config = json.loads(Path(os.environ["CONNECTOR_FILE"]).read_text())
    config |= json.loads(os.environ["CONNECTOR_CONFIG"])
    admin = AdminClient({"bootstrap.servers": os.environ["KAFKA"]})
    topic = config["transforms.one.replacement"]
    if topic not in admin.list_topics(timeout=KAFKA_SECONDS).topics:
        try:
            for made in admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=KAFKA_SECONDS).values():
                made.result()
        except KafkaException as error:
            raise EnvironmentMissing(f"topic {topic} could not be made: {error}", hint="look at Kafka's log") from error
    address = f"{os.environ['CONNECT_URL']}/connectors/{NAME}"
    reason = "Kafka Connect to take the connector"
    wait_for(lambda: _put(address, config), reason=reason, seconds=CONNECT_SECONDS, hint="look at its log")
    wait_for(lambda: _is_running(address), reason="the connector to run", seconds=CONNECT_SECONDS)


def _put(address: str, config: dict[str, str]) -> bool:
    answer = request("PUT", f"{address}/config", config)
    if answer.status in (400, 422):
        raise EnvironmentMissing(f"the connector was refused: {answer.body.get('message')}")
    return answer.ok


def _is_running(address: str) -> bool:
    body = request("GET", f"{address}/status").body
    tasks = body.get("tasks")
    states = tasks if isinstance(tasks, list) else []
    if failed := next((state for state in states if state.get("state") == "FAILED"), None):
        raise EnvironmentMissing(f"the connector failed: {failed.get('trace')}")
    return bool(states) and all(state.get("state") == "RUNNING" for state in states)


def load() -> None:
    """Run the order shop until SIGTERM or SIGINT; it reconnects after an outage of its database."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.is_set():
        try:
            # higher than the numbers of all earlier runs
            customers = Shop(os.environ["SOURCE_URL"], first_number=time.time_ns() // 1_000_000)
            while not stop.wait(shop.EVERY_SECONDS):
                customers.step()
            customers.close()
        except psycopg2.OperationalError as error:
            print(f"the shop is closed: {error}", file=sys.stderr, flush=True)
            stop.wait(AGAIN_SECONDS)


def chaos(what: str) -> None:
    """Inject one fault: SIGKILL to the lane's worker or its JVM, suspend the worker, or cut the network.

    A suspended worker is resumed after FREEZE_SECONDS unless the watchdog has ended it.
    """
    if what == "partition":
        _partition()
        return
    worker = next((it for it in psutil.process_iter(["name"]) if it.info["name"] == WORKER_NAME), None)
    if worker is None:
        raise EnvironmentMissing("no lane runs in this container's process namespace", hint="start it, or look again")
    match what:
        case "kill-worker":
            worker.kill()
        case "kill-java":
            for child in worker.children():
                if child.name() == "java":
                    child.kill()
        case "freeze":
            worker.suspend()
            psutil.wait_procs([worker], timeout=FREEZE_SECONDS)
            if worker.is_running():
                worker.resume()
        case _:
            raise EnvironmentMissing(f"no such fault: {what}", hint="kill-worker, kill-java, freeze or partition")


def _partition() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that `cut_off` removes its routes
    with cut_off() as networks:
        print(f"away for {PARTITION_SECONDS:.0f} s: {', '.join(map(str, networks))}", flush=True)
        time.sleep(PARTITION_SECONDS)


def main(words: list[str]) -> None:
    match words:
        case ["tables"]:
            tables()
        case ["capture"]:
            capture()
        case ["load"]:
            load()
        case ["chaos", what]:
            chaos(what)
        case _:
            sys.exit("usage: python -m tools.demo.compose tables | capture | load | chaos FAULT")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SurelaneError as error:
        print(f"surelane: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
