"""The command `surelane`: runs the verb, and turns every failure into a message, a hint and an exit status.

A verb's module is imported when the verb is called, so that `surelane status` does not wait for Spark's imports.
"""

import gc
import importlib
import sys
from typing import Annotated, Any

import structlog
import typer
from typer.core import TyperGroup

from app import logs
from app.errors import ExitStatus, SurelaneError
from app.installation import version

#: in the order of the help text
VERBS = (
    *(
        "run",
        "status",
        "pause",
        "resume",
        "config",
        "doctor",
        "migrate",
        "recover",
        "replay",
        "verify",
        "snapshot",
        "savepoint",
    ),
    *("upgrade", "shadow", "state", "rollup", "indoubt", "guard", "quarantine", "console"),
)
#: verbs that are above the command line, and their modules
ABOVE = {"console": "app.console.verb"}


class LazyVerbs(TyperGroup):
    """Verbs by name, imported on demand. Each verb is a module of the package, named like the verb with underscores for
    hyphens, with a typer application `app`; ABOVE has the others."""

    package = "app.cli"
    verbs: tuple[str, ...] = VERBS

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb's command; None for an unknown verb."""
        if cmd_name not in self.verbs:
            return None
        module = ABOVE.get(cmd_name) or f"{self.package}.{cmd_name.replace('-', '_')}"
        command = typer.main.get_command(importlib.import_module(module).app)
        command.name = cmd_name
        gc.freeze()  # what is imported stays
        gc.enable()
        return command


app = typer.Typer(
    cls=LazyVerbs,
    name="surelane",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Examples:\n\n  surelane doctor\n\n  surelane run --config surelane.yaml",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"surelane {version()}")
        raise typer.Exit


@app.callback()
def surelane(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and end.")
    ] = False,
) -> None:
    """Apply Debezium change events from Kafka to Postgres, in order, exactly once or at least once."""


def main(program: typer.Typer = app, name: str = "surelane") -> None:
    """Run the verb that the command line names; ends the process."""
    try:
        program(prog_name=name)
    except SurelaneError as error:
        _report(error)
        sys.exit(error.exit_status)
    except Exception:  # noqa: BLE001  # the outermost handler of the process
        if not structlog.is_configured():
            logs.configure("-")
        structlog.get_logger().exception("an unforeseen error: please report it")
        sys.exit(ExitStatus.BUG)


def _report(error: SurelaneError) -> None:
    """Log the error where the process logs for machines, else print it to stderr."""
    if structlog.is_configured() and not sys.stderr.isatty():
        kind, status = type(error).__name__, int(error.exit_status)
        structlog.get_logger().error("stopped", error=kind, message=error.message, hint=error.hint, exit_status=status)
    else:
        print(f"surelane: {error}", file=sys.stderr)
