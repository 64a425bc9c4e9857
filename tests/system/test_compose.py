"""docker-compose.yml: up, rows flow and are seen, an alert, faults, a cluster, down; in this order, on one stack."""

import json
import subprocess
from typing import Any

import pytest

from app.errors import ExitStatus
from ops.monitoring import alerts, recorded
from tests.fix_compose import PROFILES, STARTED, Compose, compose_program
from tests.fix_console import Client
from tests.fix_container import ROOT, docker
from tests.fix_prometheus import unanswered
from tests.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.timeout(3600)]

#: queries of the dashboard without an answer, and why
SILENT = {
    "surelane_fallbacks_total": "the first plan is enough for every epoch",
    "surelane_restarts_total": "nothing has been started again",
    "surelane_quarantined_total": "nothing is skipped",
    "surelane_dead_letters_waiting": "guard.dead_letter is not set",
    "pg_replication_slots": "there is no postgres_exporter in the stack",
}
#: orders that are placed while a server stands still
ORDERS_MEANWHILE = 30
_ADDRESS = "import socket; print(socket.gethostbyname(socket.gethostname()))"
#: its page comes up after its port
_MASTER = """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen("http://localhost:8080/json/").read().decode())
except urllib.error.URLError:
    print('{"workers": [], "activeapps": []}')
"""


def test_the_file_is_valid() -> None:
    """As it stands, with the example for `.env`; every service but Grafana is started below."""
    command = [*compose_program(), "--env-file", ".env.example", *PROFILES, "config", "--services"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    by_profile = {"chaos", "partition", "spark-master", "spark-worker"}
    assert set(done.stdout.split()) == {*STARTED, "grafana"} | by_profile


def test_rows_flow_from_source_to_target(compose: Compose) -> None:
    """`up` ends in a lane that applies what the load does; both databases are the same."""
    eventually(lambda: compose.state("surelane", "Health.Status") == "healthy", 600.0, "the lane to be healthy")
    compose.flows()
    status = compose.status()
    assert (status["state"], status["lane"]) == ("running", "shop")
    compose.equal()


def test_all_of_it_is_seen(compose: Compose) -> None:
    """Prometheus scrapes the lane and evaluates every rule; nothing fires; every panel has something to show."""
    prometheus = compose.prometheus
    for seen_by in ("prometheus", "alertmanager"):
        eventually(lambda by=seen_by: compose.state(by, "Health.Status") == "healthy", 60, seen_by)
    eventually(lambda: list(prometheus.ask("up").values()) == [1], 60, "the lane to be scraped")
    compose.inside("surelane", "snapshot", "create", "--name", "first")
    copy = f"postgresql://postgres:{compose.values['TARGET_PASSWORD']}@target:5432/copy"
    compose.inside("surelane", "snapshot", "restore", "first", "--to", copy)
    compose.equal()
    assert {rule["name"] for rule in prometheus.rules()} == {*recorded(), *(alert.name for alert in alerts())}
    eventually(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), 60, "every rule to have run")
    eventually(lambda: not unanswered(prometheus, SILENT), 180, "every panel to have something to show")
    rate = "lane:surelane_messages_consumed:rate5m > 1"
    eventually(lambda: prometheus.ask(rate), 60, "the load to be seen")
    assert prometheus.active("firing") == set()
    found = prometheus.get("/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
    assert [one["url"] for one in found] == ["http://alertmanager:9093/api/v2/alerts"]
    assert compose.alertmanager.get("/api/v2/alerts") == []


def test_the_console_shows_the_lane(compose: Compose) -> None:
    """By its published port and the token of .env: the lane that runs, and its checkpoint, which is on a volume."""
    eventually(lambda: compose.state("console", "Health.Status") == "healthy", 60, "the console to be healthy")
    client, token = Client(compose.ports["CONSOLE"]), compose.values["CONSOLE_TOKEN"]
    assert client.get("/api/lanes").status == 401
    assert client.log_in(token="not-the-token-of-the-file").status == 403
    assert client.log_in(token=token).status == 303

    def now() -> dict[str, Any]:
        return client.get("/api/lanes/shop/now").json

    eventually(lambda: now()["state"] == "running", 60, "the lane to run")
    page = client.get("/lanes/shop/now")
    assert (page.status, "running" in page.text) == (200, True)
    key = client.get("/api/lanes/shop/epochs").json["epochs"][0]["key"]
    assert client.get(f"/api/lanes/shop/epochs/{key}").json["checkpoint"]["trouble"] is None
    eventually(
        lambda: client.get("/api/lanes/shop/epochs").json["epochs"][-1]["steps"], 60, "steps from the lane's log"
    )
    found = {one["check"]: one["level"] for one in client.get("/api/lanes/shop/doctor").json["findings"]}
    assert (found["checkpoint"], "fault" in found.values()) == ("warn", False)
    values = {one["key"]: one["value"] for one in client.get("/api/lanes/shop/configuration").json["values"]}
    assert (values["metrics.port"], values["metrics.host"]) == ("9108", "0.0.0.0")
    assert values["spark.master"] == compose.values["SPARK_MASTER"]
    refused = client.act("/lanes/shop/quarantine", do="discard", reason="no", count="0")
    assert (refused.status, "--allow-actions" in refused.text) == (403, True)


def test_an_alert_arrives_when_the_lane_is_away(compose: Compose) -> None:
    """Killed and not started again: after two minutes Alertmanager knows, until it is back."""

    def down() -> list[dict[str, Any]]:
        alerts = compose.alertmanager.get("/api/v2/alerts")
        return [alert for alert in alerts if alert["labels"]["alertname"] == "SurelaneDown"]

    compose("kill", "surelane")
    (alert,) = eventually(down, 300, "the alert to arrive")
    assert (alert["labels"]["severity"], alert["labels"]["instance"]) == ("critical", "surelane:9108")
    assert alert["receivers"] == [{"name": "pager"}]
    compose("start", "surelane")
    compose.flows()
    eventually(lambda: not down(), 120, "the alert to be over")
    compose.equal()


@pytest.mark.parametrize("fault", ["kill-worker", "kill-java"])
def test_a_killed_lane_comes_back(compose: Compose, fault: str) -> None:
    worker = eventually(compose.worker, 60, "a worker")
    compose("--profile", "chaos", "run", "--rm", "-T", "chaos", fault)
    eventually(lambda: compose.worker() not in (worker, ""), 120.0, "another worker")
    compose.flows()
    compose.equal()


@pytest.mark.parametrize("fault", [("chaos", "freeze"), ("partition",)], ids=" ".join)
def test_a_lane_that_reaches_no_server_comes_back(compose: Compose, fault: tuple[str, ...]) -> None:
    """It stands still, or its network is away: longer than its peers wait."""
    eventually(lambda: not compose.seen_down(30), 120, "the lane to have been well for a while")
    compose("--profile", "chaos", "run", "--rm", "-T", *fault)
    assert compose.seen_down(30), "nothing happened to the lane"
    compose.flows()
    compose.equal()


def test_a_target_that_stands_still_is_waited_for(compose: Compose) -> None:
    _, highest = compose.orders("source")
    compose("pause", "target")
    try:
        eventually(lambda: compose.orders("source")[1] > highest + ORDERS_MEANWHILE, 60, "orders meanwhile")
    finally:
        compose("unpause", "target")
    compose.flows()
    compose.equal()


def test_a_server_cut_off_is_waited_for(compose: Compose) -> None:
    """The engine's own way to part one from all the others, as docs/DEPLOY.md says it."""
    kafka = compose("ps", "--quiet", "kafka").strip()
    network = f"{compose.project}_default"
    _, highest = compose.orders("source")
    docker("network", "disconnect", network, kafka)
    eventually(lambda: compose.orders("source")[1] > highest + ORDERS_MEANWHILE, 60, "orders meanwhile")
    docker("network", "connect", "--alias", "kafka", network, kafka)
    compose.flows()
    compose.equal()


def test_a_lane_on_a_cluster(compose: Compose) -> None:
    """The lane goes on with a master and two workers, whose tasks stage then."""
    up = ("up", "--detach", "--no-build")
    compose(*PROFILES, *up, "--scale", "spark-worker=2", "spark-master", "spark-worker")
    eventually(lambda: len(_master(compose)["workers"]) == 2, 60, "both workers")
    compose(*PROFILES, *up, "--no-deps", "surelane", SPARK_MASTER="spark://spark-master:7077")
    eventually(lambda: compose.state("surelane", "Health.Status") == "healthy", 300, "the lane to be healthy")
    (application,) = _master(compose)["activeapps"]
    assert (application["name"], application["cores"]) == ("surelane shop", 2)
    driver = compose.inside("python", "-c", _ADDRESS).strip()
    eventually(lambda: compose.stagers() - {driver}, 120, "a session of a worker's task at the target")
    compose.flows()
    compose.equal()


def _master(compose: Compose) -> dict[str, Any]:
    return json.loads(compose.inside("python", "-c", _MASTER, service="spark-master"))


def test_down_leaves_nothing(compose: Compose) -> None:
    """The lane stops at an epoch's end; then containers, volumes and network are away."""
    compose("stop", "surelane")
    assert compose.state("surelane", "ExitCode") == ExitStatus.OK
    compose.down()
    mine = ("--filter", f"label=com.docker.compose.project={compose.project}", "--quiet")
    for kind in (("container", "ls", "--all"), ("volume", "ls"), ("network", "ls")):
        assert docker(*kind, *mine) == ""
