"""ops/prometheus, ops/alertmanager and the dashboard's queries, with the real programs and a real lane."""

import datetime
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from ops.monitoring import TOP, alerts, recorded
from tests import messages as m
from tests.commands import Ended
from tests.fix_http import Http
from tests.fix_lane import MakeProcess
from tests.fix_prometheus import Serve, Served, unanswered
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.waiting import eventually
from tools.devstack import Postgres
from tools.devstack.roles import READER

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
ALERTMANAGER = TOP / "ops/alertmanager/alertmanager.yml"
RUNBOOKS = "https://runbooks.test"
d = Debezium()
#: queries of the dashboard that have no answer while nothing went wrong, or that are not switched on here
QUIET = {"surelane_fallbacks_total", "surelane_restarts_total", "surelane_dead_letters_waiting"}


def rows(count: int, first: int, v: str = "a") -> list[Message]:
    return [d.create(FLAT, {"id": number, "v": v}) for number in range(first, first + count)]


def configured(folder: Path, lane: int, exporter: int, alertmanager: int) -> Path:
    """prometheus.yml as it stands, with the example for the source, ports of this test, and no time to wait for."""
    text = (TOP / "ops/prometheus/prometheus.yml").read_text()
    config = yaml.safe_load(
        re.sub(r"^  # (- job_name|  static_configs|    - targets)", r"  \1", text, flags=re.MULTILINE)
    )
    config["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["global"]["external_labels"]["runbooks"] = RUNBOOKS
    config["rule_files"] = [str(TOP / "ops/prometheus" / pattern) for pattern in config["rule_files"]]
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager}"]
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert set(jobs) == {"surelane", "source-postgres"}
    jobs["surelane"]["static_configs"] = [{"targets": [f"127.0.0.1:{lane}"]}]
    jobs["source-postgres"]["static_configs"] = [{"targets": [f"127.0.0.1:{exporter}"]}]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    return file


@contextmanager
def slot(server: Postgres, name: str) -> Iterator[None]:
    """A replication slot without a reader."""
    server.execute(f"select pg_create_physical_replication_slot('{name}', true)")
    try:
        yield
    finally:
        server.execute(f"select pg_drop_replication_slot('{name}')")


@pytest.fixture
def alertmanager(serve: Serve) -> Served:
    flags = ("--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=", "--storage.path={folder}")
    return serve("prometheus-alertmanager", f"--config.file={ALERTMANAGER}", *flags, ready="/-/ready")


def test_a_lane_is_scraped_and_every_rule_and_every_query_has_an_answer(
    serve: Serve,
    alertmanager: Served,
    lane_process: MakeProcess,
    target: Target,
    target_server: Postgres,
    topic: Topic,
    http: Http,
    surelane: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    target.execute("create table flat (id int primary key, v varchar(10))")
    topic.send(rows(40, 0))
    process = lane_process("two-phase", metrics=http.settings, snapshots={"directory": str(tmp_path / "snapshots")})
    process.start()
    process.until(lambda: dict(target.position()) == topic.ends, why="the lane to catch up")
    config = ("--config", str(process.config_file))
    assert surelane("snapshot", "create", *config).status == 0
    assert surelane("verify", "--against", target.url_as(READER), "--same-names", *config).status == 0
    with slot(target_server, f"slot_{target.lane}".replace("-", "_").lower()):
        exporter = serve(
            "prometheus-postgres-exporter",
            "--web.listen-address=127.0.0.1:{port}",
            ready="/metrics",
            env={"DATA_SOURCE_NAME": f"{target_server.url('postgres')}?sslmode=disable"},
        )
        file = configured(tmp_path, http.port, exporter.port, alertmanager.port)
        flags = ("--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.path={folder}/data")
        prometheus = serve("prometheus", f"--config.file={file}", *flags, ready="/-/ready")
        eventually(lambda: sorted(prometheus.ask("up").values()) == [1, 1], 60, "both targets to be scraped")
        eventually(lambda: prometheus.ask("lane:surelane_messages_consumed:rate5m"), 60, "a rate of nothing")

        topic.send([*rows(40, 100), *rows(1, 200, "x" * 11)])
        process.until(lambda: dict(target.position()) == topic.ends, why="the lane to catch up again")
        fresh = "lane:surelane_freshness_seconds:p99_5m > 0 and lane:surelane_messages_consumed:rate5m > 0"
        eventually(lambda: prometheus.ask(fresh), 60, "its messages to be seen")
        eventually(lambda: all(map(prometheus.ask, recorded())), 60, "every recording rule to have a value")
        lane = json.dumps({"lane": target.lane})
        for what, count in (("surelane_messages_total", 81), ("lane:surelane_quarantined:sum", 1)):
            scraped = partial(prometheus.ask, f"sum by (lane) ({what})")
            eventually(lambda found=scraped, count=count: found() == {lane: count}, 60, f"{what} to be {count}")
        eventually(lambda: not unanswered(prometheus, QUIET), 60, "every query of the dashboard to have an answer")

        assert {rule["name"] for rule in prometheus.rules()} == {*recorded(), *(alert.name for alert in alerts())}
        eventually(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), 60, "every rule to have run")
        assert not [rule["lastError"] for rule in prometheus.rules() if rule.get("lastError")]
        wanted = {"SurelaneQuarantined", "SurelaneReplicationSlotInactive"}
        eventually(lambda: wanted <= prometheus.active(), 60, "both alerts to be active")
        assert not prometheus.active() & {"SurelaneDown", "SurelaneLaneNotRunning", "SurelaneSnapshotMissing"}
        arrived = eventually(lambda: alertmanager.get("/api/v2/alerts"), 60, "the alert to arrive")
        (alert,) = arrived
        assert alert["labels"] | {"runbooks": ""} == {
            "alertname": "SurelaneQuarantined",
            "lane": target.lane,
            "severity": "warning",
            "runbooks": "",
        }
        assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS}/quarantined-message.md"
        assert alert["receivers"] == [{"name": "tickets"}]

        process.kill()
        eventually(lambda: "SurelaneDown" in prometheus.active(), 60, "the lane to be missed")


def test_one_alert_keeps_others_quiet(alertmanager: Served) -> None:
    """A lane that is down is late, too: that alert is kept quiet. Other lanes' alerts come through."""
    until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5)).isoformat()

    def post(name: str, severity: str, **labels: str) -> None:
        alert = {"labels": {"alertname": name, "severity": severity, **labels}, "endsAt": until}
        alertmanager.post("/api/v2/alerts", [alert])

    def quiet() -> set[tuple[str, str, str]]:
        alerts = alertmanager.get("/api/v2/alerts")
        return {named(one["labels"]) for one in alerts if one["status"]["inhibitedBy"]}

    def named(labels: dict[str, str]) -> tuple[str, str, str]:
        return labels["alertname"], labels["severity"], labels.get("lane") or labels["instance"]

    for lane in ("down", "late"):
        for name in ("SurelaneLag", "SurelaneFreshness", "SurelaneMonitorBlind", "SurelaneRestarting"):
            post(name, "warning", lane=lane)
    post("SurelaneInDoubt", "warning", lane="down")
    eventually(lambda: len(alertmanager.get("/api/v2/alerts")) == 9, 30, "all alerts to be there")
    assert quiet() == set()
    post("SurelaneLaneNotRunning", "critical", lane="down")
    of_down = {
        (name, "warning", "down")
        for name in ("SurelaneLag", "SurelaneFreshness", "SurelaneMonitorBlind", "SurelaneRestarting")
    }
    eventually(lambda: quiet() == of_down, 30, "what follows from it to be quiet")
    post("SurelaneInDoubt", "critical", lane="down")
    eventually(
        lambda: quiet() == of_down | {("SurelaneInDoubt", "warning", "down")}, 30, "the lower degree to be quiet"
    )
    post("SurelaneDown", "critical", instance="a:9108")
    post("SurelaneDown", "critical", instance="b:9108")
    post("SurelaneCrashLoop", "critical", instance="a:9108")
    crash = {("SurelaneDown", "critical", "a:9108")}
    eventually(lambda: crash <= quiet(), 30, "one that dies again and again not to be called away, too")
    assert ("SurelaneDown", "critical", "b:9108") not in quiet()
