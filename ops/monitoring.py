"""The rules of ops/prometheus as data, and docs/METRICS.md: `python -m ops.monitoring` writes it.

The page is made of what the code exports (`app/metrics/families.py`) and of what the alerts ask for.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from app.metrics.families import Families, Family

TOP = Path(__file__).resolve().parents[1]
RULES = TOP / "ops" / "prometheus" / "rules"
DOCUMENT = TOP / "docs" / "METRICS.md"

#: of PromQL: what is followed by labels in brackets, and what stands between two expressions
GROUPING = "by|on|without|ignoring|group_left|group_right"
OPERATORS = {"and", "or", "unless", "bool", "offset"}

HEAD = """# Metrics

Made of `app/metrics/families.py` and [the alerts](../ops/prometheus/rules/alerts.yml) by
`python -m ops.monitoring`; do not edit.

`/metrics` on `metrics.port` serves them, in Prometheus' text format or OpenMetrics. Of a histogram there are
`_bucket`, `_sum` and `_count`. The client library adds `process_*` and `python_*`, of the driver's Python without its
JVM; `process_start_time_seconds` changes with every worker. A lane that is down serves nothing: watch `up`.
What the alerts mean and which page to open: [OPERATIONS](OPERATIONS.md#monitoring).

| metric | type | labels | what it is | alerts |
|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert rule."""

    name: str
    severity: str
    expr: str
    summary: str
    #: page of ops/runbooks
    page: str


def names(expr: str) -> set[str]:
    """Names of the series that an expression asks for: ours, those of recording rules and of exporters."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", re.sub(r'"[^"]*"', "", expr))
    bare = re.sub(rf"\b(?:{GROUPING})\s*\([^)]*\)", "", bare)
    return set(re.findall(r"\b[a-zA-Z_][\w:]*\b(?!\s*\(|:)", bare)) - OPERATORS


def labels(expr: str) -> set[str]:
    """Names of the labels that it selects or groups by."""
    bare = re.sub(r'"[^"]*"', '""', expr)
    grouped = re.findall(rf"\b(?:{GROUPING})\s*\(([^)]*)\)", bare)
    selected = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", bare)
    return {name.strip() for names in grouped for name in names.split(",")} | set(selected)


def recorded() -> dict[str, str]:
    """Name of each recording rule -> its expression."""
    return {rule["record"]: rule["expr"] for rule in _rules("recording.yml")}


def alerts() -> list[Alert]:
    """In the order of the file."""
    return [
        Alert(
            name=rule["alert"],
            severity=rule["labels"]["severity"],
            expr=rule["expr"],
            summary=rule["annotations"]["summary"],
            page=rule["annotations"]["runbook_url"].rpartition("/")[2],
        )
        for rule in _rules("alerts.yml")
    ]


def families() -> list[Family]:
    """Everything that a lane exports, in the order of the code."""
    return Families(CollectorRegistry()).all


def exported(expr: str) -> set[str]:
    """Names that an expression asks for, with those behind recorded ones in their place."""
    known = recorded()
    return set().union(*(exported(known[name]) if name in known else {name} for name in names(expr)))


def text() -> str:
    """What docs/METRICS.md has to be."""
    return HEAD + "".join(f"{line}\n" for line in map(_line, families()))


def _line(family: Family) -> str:
    asking = [alert.name for alert in alerts() if exported(alert.expr) & set(family.series)]
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.text} | {', '.join(dict.fromkeys(asking))} |"


@cache
def _rules(file: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load((RULES / file).read_text())["groups"] for rule in group["rules"]]


if __name__ == "__main__":
    DOCUMENT.write_text(text())
