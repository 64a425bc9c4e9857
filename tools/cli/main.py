"""Entry point of `./run`: loads a verb's module on use, as `app.cli.main` does for the service."""

import typer

from app.cli.main import LazyVerbs

#: in the order of the help text
VERBS = ("stack", "demo", "bench")


class ToolVerbs(LazyVerbs):
    package, verbs = "tools.cli", VERBS


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
