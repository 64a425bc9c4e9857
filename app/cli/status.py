"""`surelane status`: the status of the lane, running or not."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine

from app.cli.common_options import ConfigFile, Json, Query, settings_of
from app.cli.lane_status import LaneStatus, Report, StageStatus, read_report
from app.cli.next_command import LaneOptions, hint_of, next_commands
from app.cli.rendering import Document, age, moment, offsets, pause_text, printable, show
from app.config.settings import Settings
from app.db.engine import make_engine
from app.errors import Unreachable
from app.kafka.broker import Broker
from app.model.offsets import Offsets

WATCH_SECONDS = 1.0
COLOURS = {"running": "green", "failed": "red"} | dict.fromkeys(("starting", "waiting", "paused", "stopped"), "yellow")

app = typer.Typer(add_completion=False)

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it anew every second, until Ctrl-C.")]


@app.command(
    epilog="Examples:\n\n  surelane status --watch\n\n  surelane status --json | jq .lag_messages",
)
def status(config: ConfigFile = None, query: Query = None, as_json: Json = False, watch: Watch = False) -> None:
    """Show state, position and lag of the lane, and what is in doubt; works whether the lane runs or not."""
    settings = settings_of(config, query)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane status")
    options = LaneOptions.of(config, settings)
    with Broker(settings.source) as broker:
        if watch:
            _watch(settings, engine, broker, options)
        else:
            report = read_report(settings, engine, broker)
            if report.trouble:
                print(f"surelane: the lag is not known: {report.trouble}", file=sys.stderr)
            show(status_document(report, options), status_text, as_json=as_json)


def _watch(settings: Settings, engine: Engine, broker: Broker, options: LaneOptions) -> None:
    """Show the present status until Ctrl-C; a server that does not answer is shown as its error, and asked again."""
    with Live(auto_refresh=False) as live, suppress(KeyboardInterrupt):
        while True:
            try:
                view = Group(*status_text(status_document(read_report(settings, engine, broker), options)))
            except Unreachable as error:
                view = Group(Text(str(error), style="red"))
            live.update(view, refresh=True)
            time.sleep(WATCH_SECONDS)


def status_document(report: Report, options: LaneOptions) -> Document:
    """`lanes` only where there are several, `lag_trouble` only where the lag is not known. `hint`: what to do, of
    `last_error`; `next`: what to type, where that does not say it."""
    lanes = {"lanes": [_lane_document(one) for one in report.lanes]} if report.lanes else {}
    trouble = {"lag_trouble": report.trouble.message} if report.trouble else {}
    return _lane_document(report.status) | _to_do(report.status, options) | lanes | trouble


def _to_do(lane: LaneStatus, options: LaneOptions) -> Document:
    found = next_commands(
        options,
        state=lane.state,
        last_error=lane.last_error,
        waits_for=lane.waits_for,
        in_doubt=lane.in_doubt,
        table_pauses=[pause.name for pause, _ in lane.table_pauses if pause.resumed_by is None],
    )
    return {"hint": hint_of(lane.last_error), "options": options.words, "next": [vars(one) for one in found]}


def _lane_document(lane: LaneStatus) -> Document:
    writer = lane.writer and vars(lane.writer) | {"since": lane.writer.since and lane.writer.since.isoformat()}
    shown = {"position": lane.position.nested(), "in_doubt": list(lane.in_doubt), "writer": writer}
    shown["pause"] = lane.pause and lane.pause.as_json()
    shown["table_pauses"] = [pause.as_json() | {"parked": parked} for pause, parked in lane.table_pauses]
    return vars(lane) | shown | {"stage": lane.stage and _stage_document(lane.stage)}


def _stage_document(stage: StageStatus) -> Document:
    return {
        "processes": [asdict(one) for one in stage.seen.processes],
        "idle": len(stage.seen.idle),
        "spans": [
            {
                "lane": one.lane,
                "process": one.process and asdict(one.process),
                "start": one.span.start.nested(),
                "end": one.span.end.nested(),
                "state": one.state.value,
                "age_seconds": one.age_seconds,
                "bytes": one.size,
            }
            for one in stage.seen.spans
        ],
        "ahead_bytes": stage.seen.ahead_bytes,
        "ahead_limit_bytes": stage.limit,
    }


def status_text(document: Document) -> Iterator[RenderableType]:
    yield _lane(document)
    if "lanes" in document:
        yield _lanes(document["lanes"])
    if document["stage"] and document["stage"]["spans"]:
        yield _spans(document["stage"]["spans"])
    if "lag_trouble" in document:
        yield Text(printable(f"the lag is not known: {document['lag_trouble']}"), style="yellow")


def _lane(document: Document) -> Table:
    plans = ", ".join(f"{plan} {count:,}" for plan, count in document["plans"].items())
    lines = {
        "generation, epoch": f"{_or_dash(document['generation'])}, {_or_dash(document['epoch'])}",
        "writer": _writer(document["writer"]),
        "position": offsets(document["position"], "\n") if document["position"] else "never started",
        "lag": _lag(document["lag_messages"], document["lag_seconds"]),
        "plans": f"{plans} of the last {sum(document['plans'].values()):,} epochs" if plans else "none",
        **({"stage": _stage(document["stage"])} if document["stage"] else {}),
        **({"pause": pause_text(document["pause"])} if document["pause"] else {}),
        **({"paused tables": _table_pauses(document["table_pauses"])} if document["table_pauses"] else {}),
        **({"waits for": document["waits_for"]} if document["waits_for"] else {}),
        "freshness": "not known" if document["freshness_seconds"] is None else age(document["freshness_seconds"]),
        "in doubt": _in_doubt(document),
        "last error": document["last_error"] or "none",
        **({"next": "\n".join(one["command"] for one in document["next"])} if document.get("next") else {}),
    }
    table = Table("", "", show_header=False, title=f"lane {document['lane']}", title_justify="left")
    table.add_row("state", _state(document))
    for name, line in lines.items():
        table.add_row(name, Text(printable(line)))
    return table


def _in_doubt(document: Document) -> str:
    if not document["in_doubt"]:
        return "none"
    return "\n".join([*document["in_doubt"], f"the oldest for {age(document['in_doubt_age_seconds'])}"])


def _table_pauses(pauses: Sequence[Document]) -> str:
    how = {False: "", True: ", resumed"}
    return "\n".join(
        f"{one['table']}: {pause_text(one)}{how[one['resumed_by'] is not None]}; {one['parked']:,} messages are parked"
        for one in pauses
    )


def _lanes(lanes: Sequence[Document]) -> Table:
    table = Table("lane", "state", "generation", "epoch", "position", "last error")
    for lane in lanes:
        numbers = (_or_dash(lane["generation"]), _or_dash(lane["epoch"]), offsets(lane["position"]))
        table.add_row(lane["lane"], _state(lane), *numbers, Text(printable(lane["last_error"] or "")))
    return table


def _state(lane: Document) -> Text:
    return Text(lane["state"], style=COLOURS.get(lane["state"], ""))


def _stage(stage: Document) -> str:
    by_host = Counter(one["host"] for one in stage["processes"])
    hosts = ", ".join(f"{count} on {host}" for host, count in sorted(by_host.items()))
    processes = f"processes: {hosts}; {stage['idle']} idle" if hosts else "no process is connected"
    return f"{processes}\n{_mib(stage['ahead_bytes'])} of {_mib(stage['ahead_limit_bytes'])} MiB staged ahead"


def _spans(spans: Sequence[Document]) -> Table:
    table = Table("span in flight", "process", "state", "for", "MiB", title="stage", title_justify="left")
    for one in spans:
        start, end = (Offsets.from_nested(one[name]) for name in ("start", "end"))
        ranges = "\n".join(f"{tp} {start[tp]} to {offset}" for tp, offset in end.items())
        process = "{pid} on {host}, slot {slot}".format_map(one["process"]) if one["process"] else "-"
        numbers = (f"{one['age_seconds']:.1f} s", _mib(one["bytes"]))
        table.add_row(ranges or "kept messages", process, one["state"], *numbers)
    return table


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f}"


def _writer(writer: Document | None) -> str:
    if writer is None:
        return "-"
    process = "not known" if writer["pid"] is None else f"process {writer['pid']} on {writer['host']}"
    since = f", since {moment(writer['since'])}" if writer["since"] else ""
    lock = "the lane's lock is free"
    if writer["backend"] is not None:
        lock = f"backend {writer['backend']} from {writer['client'] or 'an unknown address'} holds the lane's lock"
    return f"{process}{since}\n{lock}"


def _lag(messages: int | None, seconds: float | None) -> str:
    if messages is None:
        return "not known"
    oldest = "age not known" if seconds is None else f"oldest {seconds:,.1f} s"
    return f"{messages:,} messages, {oldest}" if messages else "caught up"


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
