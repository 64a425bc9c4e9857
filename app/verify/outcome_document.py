"""A comparison as a document: what `surelane verify --json` prints, and what is kept of the last runs."""

from typing import Any

from app.config.redaction import Columns
from app.quarantine.lossless_json import HIDDEN
from app.verify.pair import Pair
from app.verify.pairs import SkippedTable
from app.verify.positions import SidePositions
from app.verify.result import Difference, TableResult, Values
from app.verify.side import SHOWN_CHARACTERS
from app.verify.verification_records import Verification

#: keys of a table that are kept of a run
KEPT_KEYS = 100


def outcome_document(
    record: Verification,
    tables: list[TableResult],
    skipped: list[SkippedTable],
    stands: SidePositions | None,
    show: int,
) -> dict[str, Any]:
    """With the first `show` differing keys of each table."""
    positions: dict[str, Any] = {}
    if stands:
        nested = {"target": stands.target.nested(), "other": stands.other.nested()}
        positions = {"positions": {**nested, "apart": stands.apart}}
    return {
        "lane": record.lane,
        "against": record.against,
        "equal": record.differing == 0,
        "rows": record.rows,
        "differing": record.differing,
        **positions,
        "tables": [_table(one, show) for one in tables],
        "skipped": [{"table": one.table, "why": one.why} for one in skipped],
    }


def redacted(document: dict[str, Any], hidden: Columns) -> dict[str, Any]:
    """The document of an earlier run, with the columns hidden that are to be hidden now: it may be older than the
    setting."""
    return document | {"tables": [_hide(one, hidden) for one in document["tables"]]}


def _hide(table: dict[str, Any], hidden: Columns) -> dict[str, Any]:
    def values(found: dict[str, Any]) -> dict[str, Any]:
        both = {"target": HIDDEN, "other": HIDDEN}
        return {
            **found,
            "key": {name: HIDDEN if name in hidden else text for name, text in found["key"].items()},
            "columns": {name: both if name in hidden else one for name, one in found["columns"].items()},
        }

    return table | {"differences": [values(one) for one in table["differences"]]}


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


def _difference(pair: Pair, found: Difference) -> dict[str, Any]:
    return {
        "key": {name: HIDDEN if name in pair.hidden else text for name, text in zip(pair.key, found.key, strict=True)},
        "kind": found.kind.value,
        "columns": {
            one.column: {"target": _value(one, one.target), "other": _value(one, one.other)} for one in found.values
        },
    }


def _value(one: Values, text: str | None) -> str | None:
    if one.hidden:
        return HIDDEN
    return text if text is None or len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
