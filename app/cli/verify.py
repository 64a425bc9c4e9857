"""`surelane verify`: whether the target holds what another database holds."""

import json
from typing import Annotated

import typer

from app.cli.options import ConfigFile, Json, database_url
from app.cli.terminal import console, progress
from app.cli.verify_view import as_json, differences, listed, told
from app.config.load import load
from app.config.routes import RouteInvalid
from app.errors import ExitStatus
from app.verify.pairs import Choice
from app.verify.verify import Verify

#: differing keys of a table that are shown
SHOWN = 20

app = typer.Typer(add_completion=False)


Against = Annotated[
    str,
    typer.Option("--against", envvar="SURELANE_AGAINST", metavar="URL", help="The other database.", show_default=False),
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--tables", metavar="PATTERN", help="Only these target tables; may be given again."),
]
After = Annotated[
    str | None, typer.Option("--after", metavar="TABLE", help="Go on behind this target table.", show_default=False)
]
SameNames = Annotated[
    bool, typer.Option("--same-names", help="The other database is a copy or a replay, with the target's own names.")
]
Wait = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="So long, look again at the keys that differ.")
]
Show = Annotated[int, typer.Option("--show", min=0, help="Differing keys shown of each table.")]


@app.command(
    epilog="Examples:\n\n  surelane verify --against postgresql://reader@source/shop --wait 60\n\n"
    '  surelane verify --against postgresql://reader@copy/shop --same-names --tables "public.*" --json',
)
def verify(
    against: Against,
    config: ConfigFile = None,
    tables: Tables = None,
    after: After = None,
    same_names: SameNames = False,
    wait: Wait = 0.0,
    show: Show = SHOWN,
    json_: Json = False,
) -> None:
    """Compare the target with another database, its source say: table by table, by counts and hashes of key ranges.

    Reads only, each database in one snapshot. Rows are hashed where they are; only those of small ranges that differ
    travel. Works while the lane runs and while it does not; what it has not applied yet differs, see --wait.
    """
    url, settings = database_url(against), load(config)
    choice = Choice(tuple(tables or ()), after, same_names)
    with progress("verify") as say:
        try:
            verifying = Verify(settings, url, choice, say)
        except RouteInvalid as error:
            raise typer.BadParameter(f"{error.problem}: {error.hint}") from None
        outcome = verifying.run(wait)
    if json_:
        typer.echo(json.dumps(as_json(outcome, show)))
    else:
        console().print(listed(outcome))
        for line in (*differences(outcome, show), told(outcome)):
            typer.echo(line)
    if not outcome.equal:
        raise typer.Exit(ExitStatus.DIFFERENT)
