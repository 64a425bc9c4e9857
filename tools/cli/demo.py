"""`./run demo`: run a lane against real servers on this machine, and write a report."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.cli.common_options import Json
from app.errors import ExitStatus
from tools.demo.alone import alone
from tools.demo.lane import DemoLane
from tools.demo.outcome import DemoOutcome, outcome
from tools.demo.page import page
from tools.demo.play import play
from tools.demo.programs import pgbench
from tools.demo.progress import Progress
from tools.demo.queries import QUERY
from tools.demo.stage import AS_CAPTURE
from tools.demo.terminal import show
from tools.devstack import Stack

DEFAULT_REPORT = Path("var/demo/report.html")

app = typer.Typer(add_completion=False)

Seconds = Annotated[int, typer.Option("--seconds", min=3, help="Seconds under load before the crash, and after it.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the stack running, with its data, to look at it.")]
Report = Annotated[Path, typer.Option("--report", help="Where the HTML page is written.")]
Queries = Annotated[
    bool,
    typer.Option("--queries", help="With a query, killed with the lane, a rollup and a history."),
]
StackName = Annotated[str, typer.Option("--stack", help="Name of the stack; it is wiped first.")]


@app.command(
    epilog="Examples:\n\n  ./run demo\n\n  ./run demo --queries\n\n"
    "  ./run demo --seconds 60 --keep --report /tmp/demo.html",
)
def demo(
    seconds: Seconds = 20,
    keep: Keep = False,
    as_json: Json = False,
    report: Report = DEFAULT_REPORT,
    stack_name: StackName = "demo",
    queries: Queries = False,
) -> None:
    """Run pgbench and an order shop, kill the lane in the middle, let it come back, and compare source and target.

    Starts a local stack without containers (Kafka, Debezium, two Postgres servers) and ends it again. The report is
    printed and written as one HTML page. Ends with status 1 when anything that was promised did not hold.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitStatus.BUG))  # so that `finally` stops the stack
    progress, stack = Progress(), Stack(stack_name, connector_config=AS_CAPTURE)
    with alone(stack.data_dir):
        found = _played(stack, seconds, progress, keep=keep, queries=queries)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(page(found), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(found.as_json() | {"seconds": round(progress.seconds, 1), "report": str(report)}))
    else:
        show(found, Console())
    progress.say(f"{progress.seconds:.0f} s; the same as a page with a timeline: {report}")
    if keep:
        progress.say(f"the lane's configuration, for status or run: {DemoLane(stack.data_dir / 'lane').config}")
        progress.say(f"the stack runs on; to end it: ./run stack down --name {stack_name} --wipe")
    raise typer.Exit(ExitStatus.OK if found.passed else ExitStatus.BUG)


def _played(stack: Stack, seconds: int, progress: Progress, *, keep: bool, queries: bool) -> DemoOutcome:
    """Play the demo on a fresh stack. After a failure the data stays for inspection."""
    pgbench()  # raises EnvironmentMissing before anything starts
    for query in (None, QUERY):
        DemoLane(stack.data_dir / "lane", query).kill()  # left running by an interrupted demo
    stack.down(wipe=True)
    passed = False
    try:
        found = outcome(play(stack, seconds, progress, queries=queries))
        passed = found.passed
        return found
    finally:
        if not keep:
            stack.down(wipe=passed)
        if not passed:
            progress.say(f"what it left, with all logs: {stack.data_dir}")
