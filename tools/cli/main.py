"""Entry point of `./run`: loads a verb's module on use, as `app.cli.main` does for the service."""

from typing import Any

import typer

from app.cli.main import LazyVerbs

#: in the order of the help text
VERBS = (
    *("stack", "demo"),
    *(
        "bench",
        "bench-peers",
        "bench-costs",
        "bench-start",
        "bench-restart",
        "bench-recovery",
        "bench-burst",
        "bench-soak",
        "bench-windows",
    ),
)


class ToolVerbs(LazyVerbs):
    """As those of the service, but that all benchmarks are commands of one module."""

    package, verbs = "tools.cli", VERBS

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb's command; None for an unknown verb."""
        command = super().get_command(ctx, "bench" if cmd_name.startswith("bench-") else cmd_name)
        return command.commands.get(cmd_name) if cmd_name.startswith("bench") else command


app = typer.Typer(
    cls=ToolVerbs,
    name="./run",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Examples:\n\n  ./run demo\n\n  ./run stack up",
)


@app.callback()
def tools() -> None:
    """Try and measure Surelane on this machine, from a checkout."""
