"""`surelane verify`: compares the target with another database."""

from typing import Annotated

import typer

from app.cli.common_options import ConfigFile, Json, database_url
from app.cli.comparing import Tables, Wait, comparing
from app.cli.rendering import show
from app.cli.terminal import progress
from app.cli.verify_view import runs_document, runs_text, verify_document, verify_text
from app.config.loader import load
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import ExitStatus
from app.verify.pairs import Choice

#: default of --show: differing keys shown of each table
SHOWN = 20

app = typer.Typer(add_completion=False)


Against = Annotated[
    str | None,
    typer.Option("--against", envvar="SURELANE_AGAINST", metavar="URL", help="The other database.", show_default=False),
]
AgainstSchema = Annotated[
    str | None,
    typer.Option(
        "--against-schema",
        metavar="SCHEMA",
        help="A schema of the other database (of the target's without --against) with the target's tables: a replay.",
        show_default=False,
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the same comparison that was killed, behind what it was through with."),
]
After = Annotated[
    str | None, typer.Option("--after", metavar="TABLE", help="Go on behind this target table.", show_default=False)
]
SameNames = Annotated[
    bool, typer.Option("--same-names", help="The other database is a copy or a replay, with the target's own names.")
]
Runs = Annotated[bool, typer.Option("--runs", help="Show the last runs, the newest first; compare nothing.")]
Show = Annotated[int, typer.Option("--show", min=0, help="Differing keys shown of each table.")]


@app.command(
    epilog="Examples:\n\n  surelane verify --against postgresql://reader@source/shop --wait 60\n\n"
    '  surelane verify --against postgresql://reader@copy/shop --same-names --tables "public.*" --json\n\n'
    "  surelane verify --against-schema shadow\n\n  surelane verify --runs",
)
def verify(
    against: Against = None,
    schema: AgainstSchema = None,
    config: ConfigFile = None,
    tables: Tables = None,
    after: After = None,
    same_names: SameNames = False,
    wait: Wait = 0.0,
    resume: Resume = False,
    keys: Show = SHOWN,
    runs: Runs = False,
    json_: Json = False,
) -> None:
    """Compare the target with another database, its source say: table by table, by counts and hashes of key ranges.

    Reads each database in one snapshot, and writes nothing but its own record. Rows are hashed where they are; only
    those of small ranges that differ travel. Works while the lane runs and while it does not; what it has not applied
    yet differs, see --wait.
    """
    settings = load(config)
    if runs:
        target = settings.target
        engine = make_engine(target.url, target.owner_role, "surelane verify")
        with translated("reading the comparisons"), engine.connect() as connection:
            found = runs_document(connection, target.db_schema, settings.lane)
        show(found, runs_text, as_json=json_)
        return
    if against is None and schema is None:
        raise typer.BadParameter("say what to compare with: --against, or --against-schema")
    url = database_url(against) if against else None
    choice = Choice(tuple(tables or ()), after, same_names, schema)
    with progress("verify") as say:
        outcome = comparing(settings, url, choice, say).run(wait, resume=resume)
    show(verify_document(outcome, keys), verify_text, as_json=json_)
    if not outcome.equal:
        raise typer.Exit(ExitStatus.DIFFERENT)
