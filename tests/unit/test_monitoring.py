"""ops/prometheus, ops/grafana and docs/METRICS.md agree with each other and with what the code exports."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import CollectorRegistry

from app.config.settings import DEFAULT_METRICS_PORT
from app.metrics.families import families_of
from app.metrics.lane_metrics import LaneMetrics
from ops import monitoring
from ops.grafana import dashboard
from ops.monitoring import TOP, Alert, alerts, exported, families, labels, names, recorded
from tests.runbook import FOLDER

ALERTS = alerts()
TESTS = TOP / "ops/prometheus/tests"
#: of postgres_exporter (its names are asked of a real one in integration/test_prometheus.py) and of Prometheus
OTHERS = {"up", "process_start_time_seconds", "process_resident_memory_bytes"} | {
    f"pg_replication_slots_{name}" for name in ("pg_wal_lsn_diff", "active")
}
OTHER_LABELS = {"job", "instance", "slot_name", "le"}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(dashboard.DOCUMENT.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Where each one stands, and the expression."""
    yield from ((f"alert {alert.name}", alert.expr) for alert in ALERTS)
    yield from ((f"record {name}", expr) for name, expr in recorded().items())
    yield from ((f"panel {panel['title']}", query["expr"]) for panel in panels() for query in panel["targets"])


EXPRESSIONS = dict(expressions())


def test_what_is_made_of_code_is_up_to_date() -> None:
    assert dashboard.DOCUMENT.read_text() == dashboard.text(), "python -m ops.grafana.dashboard"
    assert monitoring.DOCUMENT.read_text() == monitoring.text(), "python -m ops.monitoring"


def test_every_family_is_noted() -> None:
    """What a registry with a lane shows, and what is on the list: the same, with the labels."""
    registry = CollectorRegistry()
    LaneMetrics("orders", registry, restarts={"hang": 1})
    noted = {family.name: family for family in families_of(registry).all}
    found = {metric.name + ("_total" if metric.type == "counter" else ""): metric for metric in registry.collect()}
    assert {name: metric.type for name, metric in found.items()} == {name: one.kind for name, one in noted.items()}
    assert {name: metric.documentation for name, metric in found.items()} == {n: one.text for n, one in noted.items()}
    for name, metric in found.items():
        for sample in metric.samples:
            assert sample.name in noted[name].series
            assert set(sample.labels) - {"le"} == set(noted[name].labels)


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_every_expression_asks_for_what_there_is(where: str) -> None:
    expr = EXPRESSIONS[where]
    there = {series for family in families() for series in family.series} | OTHERS
    assert names(expr) <= there | set(recorded())
    assert exported(expr) <= there
    assert exported(expr)
    assert labels(expr) <= {label for family in families() for label in family.labels} | OTHER_LABELS


def test_names_and_labels_of_an_expression() -> None:
    expr = 'sum by (lane, le) (rate(a_total{x="b or c", y=~"d"}[5m])) / on (z) lane:e:max > 26 * 3600'
    expr += " and up unless f offset 5m"
    assert names(expr) == {"a_total", "lane:e:max", "up", "f"}
    assert labels(expr) == {"lane", "le", "x", "y", "z"}
    assert exported("lane:surelane_up:max == 0") == {"surelane_up"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert.name}-{alert.severity}")
def test_every_alert_says_how_bad_it_is_and_where_to_read_on(alert: Alert) -> None:
    assert alert.severity in ("critical", "warning")
    assert alert.summary
    assert (FOLDER / alert.page).is_file()
    rules = yaml.safe_load((monitoring.RULES / "alerts.yml").read_text())["groups"]
    (rule,) = [r for group in rules for r in group["rules"] if (r["alert"], r["labels"]["severity"]) == key(alert)]
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"{{{{ $externalLabels.runbooks }}}}/{alert.page}"
    assert "{{" in rule["annotations"]["summary"] or alert.name == "SurelaneAbsent", "names what it is about"


def test_every_alert_is_seen_to_fire_and_not_to() -> None:
    """`promtool test rules` runs them: test_prometheus_rules.py."""
    fires, keeps_quiet = set(), set()
    for file in TESTS.glob("*.yml"):
        for test in yaml.safe_load(file.read_text())["tests"]:
            for check in test.get("alert_rule_test", ()):
                expected = {(check["alertname"], one["exp_labels"]["severity"]) for one in check["exp_alerts"]}
                fires |= expected
                keeps_quiet |= {one for one in map(key, ALERTS) if one[0] == check["alertname"]} - expected
    assert fires == keeps_quiet == set(map(key, ALERTS))


def key(alert: Alert) -> tuple[str, str]:
    return alert.name, alert.severity


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert.name}-{alert.severity}")
def test_every_alert_is_in_the_manual(alert: Alert) -> None:
    manual = (TOP / "docs/OPERATIONS.md").read_text()
    row = next((line for line in manual.splitlines() if line.startswith(f"| `{alert.name}` |")), "")
    assert alert.severity in row.split("|")[2]
    assert f"](../ops/runbooks/{alert.page}" in row


def test_the_manual_has_no_other_alerts() -> None:
    manual = (TOP / "docs/OPERATIONS.md").read_text()
    assert set(re.findall(r"^\| `(Surelane\w+)` \|", manual, re.MULTILINE)) == {alert.name for alert in ALERTS}


def test_inhibitions_name_alerts_and_labels_that_exist() -> None:
    config = yaml.safe_load((TOP / "ops/alertmanager/alertmanager.yml").read_text())
    found = set(re.findall(r"Surelane\w+", json.dumps(config)))
    assert found
    assert found <= {alert.name for alert in ALERTS}


def test_the_configuration_scrapes_the_default_port() -> None:
    config = yaml.safe_load((TOP / "ops/prometheus/prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "surelane"
    assert job["static_configs"] == [{"targets": [f"localhost:{DEFAULT_METRICS_PORT}"]}]


def test_the_dashboard_is_one_to_grafana_s_types() -> None:
    """Read by the types that are made of Grafana's schema, nothing of it is unknown or lost."""
    raw = json.loads(dashboard.DOCUMENT.read_text())
    assert json.loads(json.dumps(Dashboard.from_json(raw), cls=JSONEncoder)) == raw
    everything = raw["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    cells = [(x, y) for panel in everything for x, y in _cells(panel["gridPos"])]
    assert len(set(cells)) == len(cells), "no panel covers another"
    assert max(x for x, _ in cells) < 24
    for panel in panels():
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        assert len({query["refId"] for query in panel["targets"]}) == len(panel["targets"])
    assert {one["name"] for one in raw["templating"]["list"]} == set(re.findall(r"\$\{?([a-z]+)\b", json.dumps(raw)))


def _cells(at: dict[str, int]) -> Iterator[tuple[int, int]]:
    return ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"]))


def test_the_provisioning_finds_the_dashboard() -> None:
    folder = TOP / "ops/grafana/provisioning"
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yml").read_text())["datasources"]
    scrape = yaml.safe_load((TOP / "ops/prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == scrape
    (provider,) = yaml.safe_load((folder / "dashboards/surelane.yml").read_text())["providers"]
    assert provider["type"] == "file"


def test_the_stack_gives_grafana_what_it_reads() -> None:
    """Dashboard, provider and source of data of docker-compose.yml; no test starts a Grafana there."""
    services = yaml.safe_load((TOP / "docker-compose.yml").read_text())["services"]
    volumes: list[list[str]] = [volume.split(":") for volume in services["grafana"]["volumes"]]
    mounts = {place: folder for folder, place, *_ in volumes}
    provisioning = "/etc/grafana/provisioning"
    (provider,) = yaml.safe_load(_only_file(mounts[f"{provisioning}/dashboards"]))["providers"]
    assert dashboard.DOCUMENT.parent == TOP / mounts[provider["options"]["path"]]
    (source,) = yaml.safe_load(_only_file(mounts[f"{provisioning}/datasources"]))["datasources"]
    service, _, port = source["url"].removeprefix("http://").partition(":")
    assert services[service]["ports"][0].endswith(f":{port}")
    interval = yaml.safe_load((TOP / "ops/compose/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval


def _only_file(folder: str) -> str:
    (file,) = (TOP / folder).iterdir()
    return file.read_text()
