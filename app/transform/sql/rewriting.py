"""Applies the SQL of their table to the rows of a batch."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from app.config.table_rules import TableRules
from app.kafka.batch import Batch
from app.model.arrow import compute, single
from app.model.row_layout import SEPARATOR, Layout, RowKind
from app.model.rows import SCHEMA
from app.transform.sql.layout import Delete, Made, RowChange
from app.transform.sql.rule import Rule

#: maximum number of layouts in memory; only a source that changes its tables all the time has more
_MOST_LAYOUTS = 10_000


class Gone(Protocol):
    """The delete of the row that a message wrote; see `app.decode.decoder.Decoder.gone`."""

    def __call__(
        self, key: bytes | None, value: bytes | None, *, enveloped: bool
    ) -> tuple[RowKind, tuple[str, ...], str]:
        """Kind, columns, line."""
        ...


class Sql:
    """Applies the configuration's `sql` to decoded rows. Not safe for several threads at once."""

    def __init__(self, rules: Sequence[Rule], gone: Gone) -> None:
        self._rules = TableRules({f"{rule.schema}.{rule.table}": rule for rule in rules}, "")
        self._gone = gone
        #: by layout; None: no rule is for it
        self._plans: dict[str, RowChange | Delete | None] = {}

    def __call__(self, rows: pa.Table, batches: Sequence[Batch]) -> pa.Table:
        """`rows` are those of the batches' messages, in their order.

        A row that the SQL fails for becomes one of kind FAILED, with the error's text in its line; a change without a
        column that the SQL names becomes one of kind UNFIT, whose columns are the missing names.
        """
        encoded = single(rows["layout"]).dictionary_encode()
        plans = [self._plan(text) for text in encoded.dictionary.to_pylist()]
        is_mine = np.array([plan is not None for plan in plans], bool)
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        mine = is_mine[codes] if len(plans) else np.zeros(0, bool)
        if not mine.any():
            return rows
        messages = [one for batch in batches for one in zip(batch.keys, batch.values, strict=True)]
        lines, are_read = rows["line"].to_pylist(), rows["is_read"].to_pylist()
        made = [
            self._made(plans[code], lines[at], messages[at], is_read=bool(are_read[at]))
            for at, code in zip(np.flatnonzero(mine).tolist(), codes[mine].tolist(), strict=True)
        ]
        return _with(rows, mine, made)

    def _made(
        self, plan: RowChange | Delete | None, line: str, message: tuple[bytes | None, bytes | None], *, is_read: bool
    ) -> Made:
        if not isinstance(plan, RowChange):
            assert plan is not None, "it is one of mine"
            return plan.made(line)
        made = plan.made(line, is_read=is_read)
        return self._without(plan, message) if made is None else made

    def _without(self, plan: RowChange, message: tuple[bytes | None, bytes | None]) -> Made:
        """The delete for a row that `where` leaves out: the target may have an earlier state of it."""
        of = plan.layout
        kind, columns, line = self._gone(*message, enveloped=bool(of.schema_hash))
        if kind in (RowKind.FILTERED, RowKind.MALFORMED):
            return SEPARATOR.join([kind, "", "", ""]), ""
        layout = Layout(kind, of.schema_hash, of.schema, of.table, columns)
        if kind is RowKind.KEYLESS:
            return layout.text, ""
        made = self._plans.get(layout.text) or self._plans.setdefault(layout.text, Delete(plan.rule, layout))
        assert isinstance(made, Delete)
        return made.made(line)

    def _plan(self, text: str) -> RowChange | Delete | None:
        if text not in self._plans:
            if len(self._plans) > _MOST_LAYOUTS:
                self._plans.clear()
            self._plans[text] = self._new_plan(text)
        return self._plans[text]

    def _new_plan(self, text: str) -> RowChange | Delete | None:
        layout = Layout.parse(text)
        if layout.kind not in (RowKind.UPSERT, RowKind.DELETE):
            return None
        rule = self._rules.of(layout.schema, layout.table)
        if rule is None:
            return None
        return RowChange(rule, layout) if layout.kind is RowKind.UPSERT else Delete(rule, layout)


def _with(rows: pa.Table, mine: "np.ndarray[tuple[int], np.dtype[np.bool_]]", made: Sequence[Made]) -> pa.Table:
    texts = {
        "layout": pa.array([layout for layout, _ in made], pa.string()),
        "line": pa.array([line for _, line in made], pa.string()),
    }
    if len(made) < len(rows):
        mask = pa.array(mine)
        texts = {name: compute.replace_with_mask(single(rows[name]), mask, column) for name, column in texts.items()}
    return pa.table([texts.get(name, rows[name]) for name in SCHEMA.names], schema=SCHEMA)
