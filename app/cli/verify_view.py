"""A comparison as a document, and its text."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text
from sqlalchemy import Connection

from app.cli.rendering import Document, grid, moment, offsets
from app.quarantine.lossless_json import HIDDEN
from app.verify.outcome_document import outcome_document
from app.verify.result import DifferenceKind
from app.verify.verification_runs import VerificationRuns
from app.verify.verify import VerifyOutcome


def verify_document(outcome: VerifyOutcome, show: int) -> Document:
    """With the first `show` differing keys of each table."""
    return outcome_document(outcome.record, outcome.tables, outcome.skipped, outcome.standing, show)


def verify_text(document: Document) -> Iterator[RenderableType]:
    rows: list[Sequence[str | Text]] = []
    for one in document["tables"]:
        numbers = (one["rows"]["target"], one["rows"]["other"], *(one[kind] for kind in DifferenceKind))
        verdict = Text("equal", style="green") if one["equal"] else Text("DIFFERENT", style="red")
        rows.append((one["table"], *(f"{number:,}" for number in numbers), verdict))
    yield grid(("table", "rows", "other rows", *DifferenceKind, "result"), rows)
    yield from _differences(document)
    yield sentence(document)


def runs_document(connection: Connection, schema: str, lane: str) -> Document:
    """The last runs, the newest first, without their keys."""
    return {"lane": lane, "runs": [one.as_json() for one in VerificationRuns(schema, lane).newest(connection)]}


def runs_text(document: Document) -> Iterator[RenderableType]:
    rows = [
        (
            str(one["id"]),
            moment(one["at"]),
            one["against"],
            *(f"{one[name]:,}" for name in ("tables", "rows", "differing")),
            "equal" if one["equal"] else "DIFFERENT",
        )
        for one in document["runs"]
    ]
    none = f"lane {document['lane']} has no comparison on record"
    yield grid(("run", "at", "against", "tables", "rows", "differing", "result"), rows) if rows else none


def sentence(document: Document) -> str:
    """The result in a sentence."""
    found = "equal" if document["equal"] else f"{document['differing']:,} keys differ"
    count = len(document["tables"])
    tables = "1 table" if count == 1 else f"{count:,} tables"
    return f"{tables}, {document['rows']:,} rows, against {document['against']}: {found}"


def _differences(document: Document) -> Iterator[str]:
    """The differing keys of each table, and what was not compared."""
    tables = document["tables"]
    for one in tables:
        if not one["equal"]:
            yield f"\n{one['table']}, against {one['other']}"
        yield from map(_line, one["differences"])
        if more := sum(one[kind] for kind in DifferenceKind) - len(one["differences"]):
            yield f"  ... and {more:,} more"
    for one in tables:
        if one["not_compared"]:
            yield f"{one['table']}: not compared: {', '.join(one['not_compared'])}"
    for one in document["skipped"]:
        yield f"{one['table']}: not compared: {one['why']}"
    for one in tables:
        if "compared_at" in one:
            yield f"{one['table']}: compared at {moment(one['compared_at'])}, by the call that was killed"
    if (found := document.get("positions")) and found["apart"]:
        target, other = offsets(found["target"]), offsets(found["other"])
        yield f"the target is at {target}, the replay at {other}: {found['apart']:,} offsets apart"


def _line(found: Document) -> str:
    key = ", ".join(f"{name}={_written(text)}" for name, text in found["key"].items())
    values = "; ".join(
        f"{name}: {_written(one['target'])}, other {_written(one['other'])}" for name, one in found["columns"].items()
    )
    return f"  {found['kind']:<9} {key}" + (f"  {values}" if values else "")


def _written(text: str | None) -> str:
    return "NULL" if text is None else text if text == HIDDEN else repr(text)
