"""Results of tables that are compared already, kept in the target, for a call that resumes a killed comparison."""

import datetime
import hashlib
import json
from dataclasses import asdict
from typing import Any

from sqlalchemy import Column, Connection, DateTime, MetaData, Table, Text, delete, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from app.verify.pair import Pair
from app.verify.pairs import Choice
from app.verify.result import Difference, DifferenceKind, TableResult, Values


class Parts:
    """The results of one comparison: of a lane's target with one other side, for the same choice of tables."""

    def __init__(self, schema: str, lane: str, against: str, choice: Choice) -> None:
        self._lane = lane
        self._comparison = hashlib.sha256(json.dumps([against, asdict(choice)]).encode()).hexdigest()[:32]
        self._table = Table(
            "verification_part",
            MetaData(schema=schema),
            *(Column(name, Text, primary_key=True) for name in ("lane", "comparison", "name")),
            Column("at", DateTime(timezone=True)),
            Column("result", JSONB),
        )
        self._mine = (self._table.c.lane == lane, self._table.c.comparison == self._comparison)

    def read(self, connection: Connection) -> dict[str, tuple[datetime.datetime, dict[str, Any]]]:
        """By name of the target's table: when it was compared, and its result for `restored`."""
        rows = connection.execute(select(self._table).where(*self._mine))
        return {row.name: (row.at, row.result) for row in rows}

    def write(self, connection: Connection, result: TableResult) -> None:
        """Keep the result of a table."""
        values = {"lane": self._lane, "comparison": self._comparison, "name": str(result.pair)}
        put = insert(self._table).values(**values, result=_plain(result))
        connection.execute(put.on_conflict_do_update(index_elements=[*values], set_={"result": put.excluded.result}))

    def forget(self, connection: Connection) -> None:
        """Delete all results: the comparison is finished, or begins anew."""
        connection.execute(delete(self._table).where(*self._mine))


def restored(pair: Pair, kept: dict[str, Any], at: datetime.datetime) -> TableResult | None:
    """A kept result; None where names, key, columns or redaction have changed since."""
    if kept["shape"] != _shape(pair):
        return None
    return TableResult(
        pair=pair,
        target_rows=kept["target_rows"],
        other_rows=kept["other_rows"],
        counts={kind: kept["counts"][kind] for kind in DifferenceKind},
        differences=[
            Difference(
                tuple(one["key"]), DifferenceKind(one["kind"]), tuple(Values(**value) for value in one["values"])
            )
            for one in kept["differences"]
        ],
        compared_at=at,
    )


def _plain(result: TableResult) -> dict[str, Any]:
    return {
        "shape": _shape(result.pair),
        "target_rows": result.target_rows,
        "other_rows": result.other_rows,
        "counts": {kind.value: count for kind, count in result.counts.items()},
        "differences": [_difference(one) for one in result.differences],
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {"key": list(one.key), "kind": one.kind.value, "values": [asdict(value) for value in one.values]}


def _shape(pair: Pair) -> dict[str, Any]:
    """What a kept result depends on: names, key, columns and redaction."""
    columns = [list(names) for names in pair.columns]
    return {"other": str(pair.other), "key": list(pair.key), "columns": columns, "hidden": sorted(pair.hidden)}
