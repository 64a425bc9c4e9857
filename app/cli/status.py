"""`surelane status`: the status of the lane, running or not."""

import json
import sys
import time
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine

from app.cli.common_options import ConfigFile, Json
from app.cli.lane_status import LaneStatus, Report, StageStatus, WriterStatus, read_report
from app.cli.rendering import utc
from app.cli.terminal import console
from app.config.loader import load
from app.config.settings import Settings
from app.db.engine import make_engine
from app.errors import Unreachable
from app.kafka.broker import Broker
from app.model.in_flight import InFlight

WATCH_SECONDS = 1.0
COLOURS = {"running": "green", "starting": "yellow", "stopped": "yellow", "failed": "red"}

app = typer.Typer(add_completion=False)

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it anew every second, until Ctrl-C.")]


@app.command(
    epilog="Examples:\n\n  surelane status --watch\n\n  surelane status --json | jq .lag_messages",
)
def status(config: ConfigFile = None, as_json: Json = False, watch: Watch = False) -> None:
    """Show state, position and lag of the lane, and what is in doubt; works whether the lane runs or not."""
    settings = load(config)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane status")
    with Broker(settings.source) as broker:
        if watch:
            _watch(settings, engine, broker)
        else:
            _show(read_report(settings, engine, broker), as_json=as_json)


def _show(report: Report, *, as_json: bool) -> None:
    if report.trouble:
        print(f"surelane: the lag is not known: {report.trouble}", file=sys.stderr)
    if as_json:
        lanes = {"lanes": [lane.as_json() for lane in report.lanes]} if report.lanes else {}
        print(json.dumps(report.status.as_json() | lanes))
    else:
        console().print(_view(report))


def _watch(settings: Settings, engine: Engine, broker: Broker) -> None:
    with Live(auto_refresh=False) as live:
        try:
            while True:
                live.update(_current_view(settings, engine, broker), refresh=True)
                time.sleep(WATCH_SECONDS)
        except KeyboardInterrupt:
            return


def _current_view(settings: Settings, engine: Engine, broker: Broker) -> Group:
    """The present status; a server that does not answer is shown as its error, and read again the next time."""
    try:
        return _view(read_report(settings, engine, broker))
    except Unreachable as error:
        return Group(Text(str(error), style="red"))


def _view(report: Report) -> Group:
    parts: list[Table | Text] = [_table(report.status)]
    if report.lanes:
        parts.append(_lanes(report.lanes))
    if report.status.stage is not None and report.status.stage.seen.spans:
        parts.append(_spans(report.status.stage.seen.spans))
    if report.trouble:
        parts.append(Text(f"the lag is not known: {report.trouble.message}", style="yellow"))
    return Group(*parts)


def _table(status: LaneStatus) -> Table:
    table = Table("", "", show_header=False, title=f"lane {status.lane}", title_justify="left")
    table.add_row("state", Text(status.state, style=COLOURS.get(status.state, "")))
    table.add_row("generation, epoch", f"{_or_dash(status.generation)}, {_or_dash(status.epoch)}")
    table.add_row("writer", _writer(status.writer))
    table.add_row("position", "\n".join(f"{tp}@{offset}" for tp, offset in status.position.items()) or "never started")
    table.add_row("lag", _lag(status))
    plans = ", ".join(f"{plan} {count:,}" for plan, count in status.plans.items())
    table.add_row("plans", f"{plans} of the last {sum(status.plans.values()):,} epochs" if plans else "none")
    if status.stage is not None:
        table.add_row("stage", _stage(status.stage))
    table.add_row("in doubt", "\n".join(status.in_doubt) or "none")
    table.add_row("last error", status.last_error or "none")
    return table


def _lanes(lanes: tuple[LaneStatus, ...]) -> Table:
    table = Table("lane", "state", "generation", "epoch", "position", "last error")
    for lane in lanes:
        state = Text(lane.state, style=COLOURS.get(lane.state, ""))
        numbers = (_or_dash(lane.generation), _or_dash(lane.epoch), str(lane.position))
        table.add_row(lane.lane, state, *numbers, lane.last_error or "")
    return table


def _stage(stage: StageStatus) -> str:
    hosts = ", ".join(f"{count} on {host}" for host, count in sorted(stage.seen.by_host.items()))
    idle = len(stage.seen.idle)
    processes = f"processes: {hosts}; {idle} idle" if hosts else "no process is connected"
    return f"{processes}\n{_mib(stage.seen.ahead_bytes)} of {_mib(stage.limit)} MiB staged ahead"


def _spans(spans: tuple[InFlight, ...]) -> Table:
    table = Table("span in flight", "process", "state", "for", "MiB", title="stage", title_justify="left")
    for one in spans:
        ranges = "\n".join(f"{tp} {one.span.start[tp]} to {end}" for tp, end in one.span.end.items())
        process = "-" if one.process is None else f"{one.process.pid} on {one.process.host}, slot {one.process.slot}"
        table.add_row(ranges or "kept messages", process, one.state.value, f"{one.age_seconds:.1f} s", _mib(one.size))
    return table


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f}"


def _writer(writer: WriterStatus | None) -> str:
    if writer is None:
        return "-"
    process = "not known" if writer.pid is None else f"process {writer.pid} on {writer.host}"
    since = f", since {utc(writer.since)}" if writer.since else ""
    lock = "the lane's lock is free"
    if writer.backend is not None:
        lock = f"backend {writer.backend} from {writer.client or 'an unknown address'} holds the lane's lock"
    return f"{process}{since}\n{lock}"


def _lag(status: LaneStatus) -> str:
    if status.lag_messages == 0:
        return "caught up"
    if status.lag_messages is None:
        return "not known"
    seconds = "age not known" if status.lag_seconds is None else f"oldest {status.lag_seconds:,.1f} s"
    return f"{status.lag_messages:,} messages, {seconds}"


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
