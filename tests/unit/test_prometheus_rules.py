"""ops/prometheus and ops/alertmanager, asked of Prometheus' own tools."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ops.grafana import dashboard
from ops.monitoring import TOP
from tests.debian_programs import program

PROMETHEUS = TOP / "ops/prometheus"
ALERTMANAGER = TOP / "ops/alertmanager/alertmanager.yml"


def tool(name: str, *words: str | Path) -> tuple[int, str]:
    """Status, and everything it says."""
    command = [str(program(name)), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_configuration_and_the_rules_are_valid() -> None:
    status, output = tool("promtool", "check", "config", "--lint=all", "--lint-fatal", PROMETHEUS / "prometheus.yml")
    assert status == 0, output
    assert output.count("rules found") == 2


@pytest.mark.parametrize("file", sorted(path.name for path in (PROMETHEUS / "tests").glob("*.yml")))
def test_alerts_fire_when_they_have_to(file: str) -> None:
    status, output = tool("promtool", "test", "rules", PROMETHEUS / "tests" / file)
    assert status == 0, output
    assert "SUCCESS" in output


def test_the_dashboard_s_queries_can_be_read(tmp_path: Path) -> None:
    """As recording rules, with values in place of Grafana's variables."""
    panels = json.loads(dashboard.DOCUMENT.read_text())["panels"]
    exprs = [query["expr"] for panel in panels for query in panel.get("targets", ())]
    rules = [{"record": f"query:{at}", "expr": filled(expr)} for at, expr in enumerate(exprs)]
    assert not re.search(r"\$\w", " ".join(rule["expr"] for rule in rules))
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    status, output = tool("promtool", "check", "rules", file)
    assert status == 0, output
    assert f"{len(exprs)} rules found" in output


def filled(expr: str) -> str:
    """As Grafana asks it."""
    return expr.replace("$__rate_interval", "1m").replace("$lane", ".*")


def test_the_alertmanager_s_configuration_is_valid() -> None:
    status, output = tool("amtool", "check-config", ALERTMANAGER)
    assert status == 0, output
    assert "6 inhibit rules" in output


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "pager"), ("warning", "tickets")])
def test_who_hears_of_it(severity: str, receiver: str) -> None:
    route = ("config", "routes", "test", f"--config.file={ALERTMANAGER}", f"--verify.receivers={receiver}")
    status, output = tool("amtool", *route, f"severity={severity}", "alertname=SurelaneLag", "lane=orders")
    assert status == 0, output
