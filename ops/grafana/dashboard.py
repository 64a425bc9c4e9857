"""Grafana's dashboard of the lanes, made of `panels.py`.

`python -m ops.grafana.dashboard` writes dashboards/surelane.json.
"""

import itertools
import json
from pathlib import Path
from typing import TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphThresholdsStyleMode,
    StackingMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)

from ops.grafana.panels import ROWS, Panel

DOCUMENT = Path(__file__).parent / "dashboards" / "surelane.json"
DATA = DataSourceRef(type_val="prometheus", uid="${datasource}")
#: of 24 columns
NUMBER_WIDTH, CURVE_WIDTH = 4, 12
NUMBER_HEIGHT, CURVE_HEIGHT = 5, 8
Made = TypeVar("Made", stat.Panel, timeseries.Panel)


def text() -> str:
    """What dashboards/surelane.json has to be."""
    made = (
        dashboard.Dashboard("Surelane")
        .uid("surelane")
        .description("The lanes from Kafka to Postgres. Made by ops/grafana/dashboard.py: changes here are lost.")
        .tags(["surelane"])
        .time("now-3h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("lane")
            .label("Lane")
            .datasource(DATA)
            .query("label_values(surelane_up, lane)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
        .annotation(
            dashboard.AnnotationQuery()
            .name("Alerts")
            .datasource(DATA)
            .enable(True)
            .icon_color("red")
            .expr('ALERTS{alertname=~"Surelane.*", alertstate="firing", lane=~"$lane|"}')
        )
    )
    ids = itertools.count(1)
    for title, panels in ROWS.items():
        made.with_row(dashboard.Row(title).id(next(ids)))
        for panel in panels:
            made.with_panel((_number if panel.is_number else _curve)(panel).id(next(ids)))
    return json.dumps(made.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _number(panel: Panel) -> stat.Panel:
    made = (
        stat.Panel()
        .span(NUMBER_WIDTH)
        .height(NUMBER_HEIGHT)
        .graph_mode(BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(panel))
    )
    return _common(made, panel)


def _curve(panel: Panel) -> timeseries.Panel:
    made = timeseries.Panel().span(CURVE_WIDTH).height(CURVE_HEIGHT).min(0).fill_opacity(10)
    if panel.stacked:
        made.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if panel.yellow is not None or panel.red is not None:
        made.thresholds(_thresholds(panel))
        made.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    return _common(made, panel)


def _common(made: Made, panel: Panel) -> Made:
    made.title(panel.title).description(panel.text).unit(panel.unit).datasource(DATA)
    for index, (expr, legend) in enumerate(panel.queries.items()):
        query = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(chr(ord("A") + index)).datasource(DATA)
        made.with_target(query.instant() if panel.is_number else query.range())
    return made


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    """Green below all of them."""
    steps = [Threshold(value=None, color="green")]
    if panel.yellow is not None:
        steps.append(Threshold(value=panel.yellow, color="yellow"))
    if panel.red is not None:
        steps.append(Threshold(value=panel.red, color="red"))
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


if __name__ == "__main__":
    DOCUMENT.write_text(text())
