"""`surelane state`: the state of queries."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import structlog
import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from app.cli.common_options import ConfigFile, Json, settings_of
from app.cli.query_session import session_of
from app.cli.query_sizes import sizes_document, sizes_text
from app.cli.rendering import Document, printable, show
from app.config.loader import load
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.kafka.broker import Broker
from app.query import rebuilding, stored_state
from app.query.open_windows import open_windows
from app.query.rescaling import rescale as rescaled

log = structlog.get_logger()
app = typer.Typer(add_completion=False, no_args_is_help=True, help="Read, rescale and rebuild the state of queries.")

QueryName = Annotated[str, typer.Argument(metavar="QUERY", help="Name of the query.")]
Operator = Annotated[int, typer.Option("--operator", min=0, help="Number of the operator, as `state list` has it.")]
Store = Annotated[
    str | None,
    typer.Option("--store", help="left or right of a join; a state variable's name of transformWithState."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Rows that are shown at most.")]


@app.command("list", epilog="Example:\n\n  surelane state list --json | jq '.states[] | {query, numPartitions}'")
def list_states(config: ConfigFile = None, json_: Json = False) -> None:
    """Show each query's operators with state: their stores, partitions, and the epochs that can be read."""
    settings, found = load(config), list[Document]()
    with session_of(settings) as spark:
        for name in settings.queries:
            checkpoint = settings.of_query(name).checkpoint
            if Path(checkpoint.removeprefix("file:"), "state").exists() or "://" in checkpoint:
                found += [{"query": name, **one} for one in stored_state.operators(spark, checkpoint)]
    show({"states": found}, _states_text, as_json=json_)


@app.command(epilog="Example:\n\n  surelane state sizes --json | jq '.queries[] | {query, rows, watermark}'")
def sizes(config: ConfigFile = None, json_: Json = False) -> None:
    """Show each query's state, watermark, and the size of its state, without Spark: keys are known while it runs."""
    settings = load(config)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane state")
    with translated("reading the state of queries"), engine.connect() as connection:
        document = sizes_document(connection, settings)
    show(document, sizes_text, as_json=json_)


@app.command(
    "show",
    epilog="Examples:\n\n  surelane state show orders_by_minute --key '{\"_groupingexpression\": 7}'\n\n"
    "  surelane state show counts --store count --json",
)
def show_state(
    query: QueryName,
    config: ConfigFile = None,
    operator: Operator = 0,
    store: Store = None,
    key: Annotated[str | None, typer.Option("--key", help="Value of the key, or JSON of its columns.")] = None,
    limit: Limit = 20,
    json_: Json = False,
) -> None:
    """Show keys and values of a query's state, as of its last complete epoch."""
    settings = settings_of(config, query)
    with session_of(settings) as spark:
        rows = stored_state.rows(spark, settings.checkpoint, operator=operator, store=store, key=key, limit=limit)
    show({"query": query, "rows": rows}, _rows_text, as_json=json_)


@app.command(epilog="Example:\n\n  surelane state windows orders_by_minute --json | jq '.windows[0]'")
def windows(query: QueryName, config: ConfigFile = None, limit: Limit = 20, json_: Json = False) -> None:
    """Show the windows of event time that a query's state has open, the newest first, and how many keys each."""
    settings = settings_of(config, query)
    with session_of(settings) as spark:
        found, more = open_windows(spark, settings.checkpoint, limit)
    show({"query": query, "windows": found, "more": more}, _windows_text, as_json=json_)


@app.command(epilog="Example:\n\n  surelane state changes orders_by_minute --from 40 --to 41")
def changes(
    query: QueryName,
    config: ConfigFile = None,
    first: Annotated[int, typer.Option("--from", min=0, help="First epoch.")] = 0,
    last: Annotated[int | None, typer.Option("--to", min=0, help="Last epoch; without: the newest.")] = None,
    operator: Operator = 0,
    store: Store = None,
    limit: Limit = 20,
    json_: Json = False,
) -> None:
    """Show what epochs wrote to a query's state."""
    settings = settings_of(config, query)
    with session_of(settings) as spark:
        rows = stored_state.changes(
            spark, settings.checkpoint, operator=operator, store=store, first=first, last=last, limit=limit
        )
    show({"query": query, "rows": rows}, _rows_text, as_json=json_)


@app.command(epilog="Example:\n\n  surelane state rescale orders_by_minute --partitions 8")
def rescale(
    query: QueryName,
    partitions: Annotated[int, typer.Option("--partitions", min=1, max=1024, help="Of the state, from now on.")],
    config: ConfigFile = None,
    json_: Json = False,
) -> None:
    """Give the state of a stopped query another number of partitions; killed in the middle, the same command goes on.

    Make it `queries.<name>.state.partitions` of the configuration, too: a query that is rebuilt begins with that.
    """
    settings = settings_of(config, query)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane state")
    with session_of(settings) as spark:
        before = rescaled(settings, spark, engine, partitions)
    show({"query": query, "before": before, "partitions": partitions}, _rescaled_text, as_json=json_)


@app.command(epilog="Example:\n\n  surelane state rebuild orders_by_minute && surelane run --query orders_by_minute")
def rebuild(
    query: QueryName,
    config: ConfigFile = None,
    from_earliest: Annotated[
        bool,
        typer.Option("--from-earliest", help="Begin at the first message that Kafka has, if others are gone."),
    ] = False,
    json_: Json = False,
) -> None:
    """Forget state and position of a stopped query: its next run computes the result anew, from Kafka's messages.

    Readers of its table see the old rows until the run has reached what Kafka had when it began; then all are replaced
    in one transaction. Files and topics with rows of the former result are refused: move them away, name another topic.
    """
    settings = settings_of(config, query)
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane state")
    with Broker(settings.source) as broker:
        place = rebuilding.begin(settings, engine, broker, from_earliest=from_earliest)
    show({"query": query, "place": place}, _rebuilt_text, as_json=json_)


def _states_text(document: Document) -> Iterator[RenderableType]:
    table = Table("query", "operator", "name", "stores", "partitions", "epochs")
    for one in document["states"]:
        epochs = f"{one['minBatchId']} to {one['maxBatchId']}"
        names = ("query", "operatorId", "operatorName", "stateStoreName", "numPartitions")
        table.add_row(*(Text(printable(str(one[name]))) for name in names), epochs)
    yield table


def _windows_text(document: Document) -> Iterator[RenderableType]:
    table = Table("from", "to", "keys", "operator", "store")
    for one in document["windows"]:
        table.add_row(one["start"], one["end"], f"{one['keys']:,}", f"{one['operator']} {one['name']}", one["store"])
    yield table
    if document["more"]:
        yield Text("there are more: --limit")


def _rows_text(document: Document) -> Iterator[RenderableType]:
    for row in document["rows"]:
        yield Text(printable(str(row)))


def _rescaled_text(document: Document) -> Iterator[RenderableType]:
    yield Text(f"query {document['query']}: {document['before']} -> {document['partitions']} partitions")


def _rebuilt_text(document: Document) -> Iterator[RenderableType]:
    yield Text(
        f"query {document['query']}: its next run computes {document['place']} anew; a table's rows stay so long"
    )
