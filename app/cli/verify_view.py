"""Comparisons as tables, text and JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from app.cli.rendering import grid, printable, utc
from app.quarantine.lossless_json import HIDDEN
from app.verify.pair import Pair
from app.verify.positions import SidePositions
from app.verify.result import Difference, DifferenceKind, TableResult, Values
from app.verify.side import SHOWN_CHARACTERS, Key
from app.verify.verify import VerifyOutcome


def as_json(outcome: VerifyOutcome, show: int) -> dict[str, Any]:
    """For `--json`, with the first `show` differing keys of each table."""
    done = outcome.record
    return {
        "lane": done.lane,
        "against": done.against,
        "equal": outcome.equal,
        "rows": done.rows,
        "differing": done.differing,
        **({"positions": _positions(outcome.standing)} if outcome.standing else {}),
        "tables": [_table(one, show) for one in outcome.tables],
        "skipped": [{"table": one.table, "why": one.why} for one in outcome.skipped],
    }


def _table(one: TableResult, show: int) -> dict[str, Any]:
    return {
        "table": str(one.pair.target),
        "other": str(one.pair.other),
        "key": list(one.pair.key),
        "not_compared": list(one.pair.left_out),
        "rows": {"target": one.target_rows, "other": one.other_rows},
        "equal": one.differing == 0,
        **{kind.value: count for kind, count in one.counts.items()},
        "differences": [_difference(one.pair, found) for found in one.differences[:show]],
        **({"compared_at": one.compared_at.isoformat()} if one.compared_at else {}),
    }


def _positions(found: SidePositions) -> dict[str, Any]:
    return {"target": found.target.nested(), "other": found.other.nested(), "apart": found.apart}


def _difference(pair: Pair, found: Difference) -> dict[str, Any]:
    columns = {one.column: {"target": _value(one, one.target), "other": _value(one, one.other)} for one in found.values}
    return {"key": _key(pair, found.key), "kind": found.kind.value, "columns": columns}


def _key(pair: Pair, key: Key) -> dict[str, str | None]:
    return {name: HIDDEN if name in pair.hidden else text for name, text in zip(pair.key, key, strict=True)}


def _value(one: Values, text: str | None) -> str | None:
    if one.hidden:
        return HIDDEN
    return text if text is None or len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def listed(outcome: VerifyOutcome) -> Table:
    """A line for each compared table."""
    rows: list[Sequence[str | Text]] = []
    for one in outcome.tables:
        numbers = (one.target_rows, one.other_rows, *one.counts.values())
        verdict = Text("DIFFERENT", style="red") if one.differing else Text("equal", style="green")
        rows.append((str(one.pair), *(f"{number:,}" for number in numbers), verdict))
    return grid(("table", "rows", "other rows", *DifferenceKind, "result"), rows)


def differences(outcome: VerifyOutcome, show: int) -> Iterator[str]:
    """The first `show` differing keys of each table, and what was not compared."""
    for one in outcome.tables:
        if one.differing:
            yield printable(f"\n{one.pair}, against {one.pair.other}")
        for found in one.differences[:show]:
            yield printable(_line(one.pair, found))
        if (more := one.differing - min(len(one.differences), show)) and one.differing:
            yield f"  ... and {more:,} more"
    for one in outcome.tables:
        if one.pair.left_out:
            yield printable(f"{one.pair}: not compared: {', '.join(one.pair.left_out)}")
    for one in outcome.skipped:
        yield printable(f"{one.table}: not compared: {one.why}")
    for one in outcome.tables:
        if one.compared_at:
            yield printable(f"{one.pair}: compared at {utc(one.compared_at)}, by the call that was killed")
    if (found := outcome.standing) and found.apart:
        yield printable(f"the target is at {found.target}, the replay at {found.other}: {found.apart:,} offsets apart")


def outcome_text(outcome: VerifyOutcome) -> str:
    """The result in a sentence."""
    done = outcome.record
    found = "equal" if outcome.equal else f"{done.differing:,} keys differ"
    tables = "1 table" if done.tables == 1 else f"{done.tables:,} tables"
    return printable(f"{tables}, {done.rows:,} rows, against {done.against}: {found}")


def _line(pair: Pair, found: Difference) -> str:
    key = ", ".join(f"{name}={_written(text)}" for name, text in _key(pair, found.key).items())
    values = "; ".join(
        f"{one.column}: {_written(_value(one, one.target))}, other {_written(_value(one, one.other))}"
        for one in found.values
    )
    return f"  {found.kind:<9} {key}" + (f"  {values}" if values else "")


def _written(text: str | None) -> str:
    return "NULL" if text is None else text if text == HIDDEN else repr(text)
