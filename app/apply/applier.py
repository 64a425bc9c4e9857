"""Sending one epoch's changes to the target, inside the transaction it is given."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import psycopg2
import pyarrow as pa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.apply import staging
from app.apply.arrange import CHANGES, Epoch, Indices
from app.apply.plan import ATTEMPTS, Plan, parents_first, runs, single_changes
from app.apply.shapes import Shape, Shapes
from app.db.failures import describe, verdict_of
from app.db.sql import run
from app.errors import BadMessage, TargetMismatch, Verdict
from app.model.arrow import compute
from app.model.counts import Counts
from app.model.offsets import Position
from app.model.rows import Kind

#: Debezium's stand-in for a large value that an update left as it was
UNAVAILABLE = "__debezium_unavailable_value"
_UNAVAILABLE_FIELD = re.compile(rf"(^|\t){UNAVAILABLE}(\t|\n)")
#: statements of the faithful plan sent in one round trip
STATEMENTS_AT_ONCE = 500
_COPY_LINE = re.compile(r"COPY \S+, line (\d+)")
#: neither needs a scan of the whole target: the cost of an epoch follows its own size, not the table's
_NESTED_LOOPS = "set local enable_hashjoin = off; set local enable_mergejoin = off"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What became of an epoch's messages."""

    counts: Counts
    plan: Plan


class Applier:
    """Applies epochs of one lane."""

    def __init__(self, lane: str, shapes: Shapes) -> None:
        self._lane = lane
        self._shapes = shapes

    def prepare(self, epoch: Epoch) -> dict[int, Shape]:
        """Shapes of the epoch's layouts by index, tables that are left out not among them.

        Works outside the epoch's transaction. Raises BadMessage or TargetMismatch, naming the first message that
        cannot be applied whatever the target answers.
        """
        self._refuse_malformed(epoch)
        shapes: dict[int, Shape] = {}
        for index, layout in enumerate(epoch.layouts):
            if layout.kind in (Kind.UPSERT, Kind.DELETE, Kind.TRUNCATE, Kind.KEYLESS):
                example = epoch.position(int(np.flatnonzero(epoch.codes == index)[0]))
                if layout.kind in (Kind.TRUNCATE, Kind.KEYLESS):
                    if not self._shapes.leaves_out(layout):
                        self._refuse(layout.kind, layout.source, example)
                elif (shape := self._shapes.shape(layout, example)) is not None:
                    shapes[index] = shape
        self._refuse_unavailable(epoch, shapes)
        self._shapes.reclaim()
        return shapes

    def apply(self, connection: Connection, epoch: Epoch, shapes: dict[int, Shape]) -> Applied:
        """Send the changes; each plan in a subtransaction until one is accepted."""
        meant = epoch.of_kind(*CHANGES)
        meant = meant[np.isin(epoch.codes[meant], list(shapes))]
        if not len(meant):
            return Applied(counts=Counts(consumed=len(epoch), filtered=len(epoch)), plan=Plan.NONE)
        plan, applied = self._attempt(connection, epoch, shapes)
        counts = Counts(
            consumed=len(epoch), applied=applied, compacted=len(meant) - applied, filtered=len(epoch) - len(meant)
        )
        return Applied(counts=counts, plan=plan)

    def _attempt(self, connection: Connection, epoch: Epoch, shapes: dict[int, Shape]) -> tuple[Plan, int]:
        run(connection, _NESTED_LOOPS)
        for plan in _plans(epoch, shapes):
            try:
                with connection.begin_nested():
                    applied = self._send(connection, epoch, shapes, plan)
                    run(connection, "set constraints all immediate")
                    return plan, applied
            except (DBAPIError, psycopg2.Error) as error:
                if verdict_of(error) is not Verdict.POISON:
                    raise
                if plan is Plan.FAITHFUL:
                    self._shapes.forget()
                    raise self._refused(connection, epoch, shapes, error) from error
        raise AssertionError("the faithful plan returns or raises")

    def _send(self, connection: Connection, epoch: Epoch, shapes: dict[int, Shape], plan: Plan) -> int:
        if plan is Plan.FAITHFUL:
            return _send_runs(connection, epoch, shapes, runs(epoch))
        deletes = [index for index, shape in shapes.items() if shape.kind is Kind.DELETE]
        upserts = [index for index, shape in shapes.items() if shape.kind is Kind.UPSERT]
        tables = parents_first({shape.target.oid: shape.target for shape in shapes.values()}.values())
        rank = {table.oid: position for position, table in enumerate(tables)}
        deletes.sort(key=lambda index: -rank[shapes[index].target.oid])
        upserts.sort(key=lambda index: rank[shapes[index].target.oid])
        order = deletes + upserts if plan is Plan.DELETES_FIRST else upserts + deletes
        return sum(_send_last(connection, epoch, shapes[index], index) for index in order)

    def _refuse_malformed(self, epoch: Epoch) -> None:
        malformed = epoch.of_kind(Kind.MALFORMED)
        if len(malformed):
            raise BadMessage(
                f"lane {self._lane}: message {epoch.position(int(malformed[0]))} is not a Debezium change event in JSON"
                f" ({len(malformed)} such in this epoch)",
                hint="look at it with a console consumer at that partition and offset; the lane stays in front of it",
            )

    def _refuse(self, kind: Kind, table: str, example: Position) -> None:
        if kind is Kind.KEYLESS:
            raise TargetMismatch(
                f"lane {self._lane}: message {example} deletes a row of {table} but does not say which",
                hint=f"at the source: alter table {table} replica identity default (with a primary key) or full",
            )
        raise TargetMismatch(
            f"lane {self._lane}: message {example} truncates table {table}, which is not applied",
            hint="truncate the target by hand if that is meant, and leave such messages out: "
            "skipped.operations=t in the connector",
        )

    def _refuse_unavailable(self, epoch: Epoch, shapes: dict[int, Shape]) -> None:
        """An update that does not carry a large value must not overwrite it with the stand-in."""
        upserts = epoch.of_kind(Kind.UPSERT)
        upserts = upserts[np.isin(epoch.codes[upserts], list(shapes))]
        found = compute.indices_nonzero(compute.match_substring(epoch.lines(upserts), UNAVAILABLE)).to_numpy()
        for ordinal in (upserts[found] if len(upserts) != len(epoch) else found).tolist():
            if _UNAVAILABLE_FIELD.search(epoch.rows["line"][ordinal].as_py()):
                table = epoch.layout(ordinal).source
                raise TargetMismatch(
                    f"lane {self._lane}: message {epoch.position(ordinal)} of table {table} leaves out an unchanged"
                    " large (TOASTed) value",
                    hint=f"at the source: alter table {table} replica identity full",
                )

    def _refused(self, connection: Connection, epoch: Epoch, shapes: dict[int, Shape], error: Exception) -> Exception:
        """The error of the first message that the target refuses, found by sending the changes one by one."""
        found = _first_refused(connection, epoch, shapes)
        if found is None:
            return BadMessage(
                f"lane {self._lane}: the target refuses the epoch as a whole, though each change alone passes: "
                f"{describe(error)}",
                hint="a deferred constraint that the source does not have, or an epoch that ends inside a source "
                "transaction; drop or relax the constraint at the target",
            )
        ordinal, refusal = found
        return BadMessage(
            f"lane {self._lane}: message {epoch.position(ordinal)} of table {epoch.layout(ordinal).source}"
            f" is refused by the target: {describe(refusal)}",
            hint="change the target so that it takes the row; the lane goes on at this epoch when it is started again",
        )


def _plans(epoch: Epoch, shapes: dict[int, Shape]) -> tuple[Plan, ...]:
    """The plans whose success means that they were right, the fastest first.

    Changes are compacted by message key, so that has to be the target's primary key. A target that cascades would
    take along rows that have left the deleted one earlier in the epoch, and whoever hangs on them.
    """
    examples = {index: int(np.flatnonzero(epoch.codes == index)[0]) for index in shapes}
    meant = np.isin(epoch.codes, list(shapes))
    if (epoch.identities[meant] < 0).any() or any(
        epoch.key_columns(examples[index]) != set(shape.target.key) for index, shape in shapes.items()
    ):
        return (Plan.FAITHFUL,)
    cascades = any(shape.kind is Kind.DELETE and shape.target.cascades for shape in shapes.values())
    return (Plan.UPSERTS_FIRST, Plan.FAITHFUL) if cascades else ATTEMPTS


def _send_last(connection: Connection, epoch: Epoch, shape: Shape, layout: int) -> int:
    """Send the last change of each key that has this layout; returns how many."""
    survivors = epoch.of_layout(layout, epoch.survivors)
    if not len(survivors):
        return 0
    copied = staging.copy(connection, shape.staging, epoch.lines(survivors))
    result = run(connection, shape.merge.upsert() if shape.kind is Kind.UPSERT else shape.merge.delete())
    _refuse_swallowed(shape, result.rowcount, copied)
    staging.clear(connection, shape.staging)
    return copied


def _refuse_swallowed(shape: Shape, merged: int, staged: int) -> None:
    """Rows that a trigger or rule of the target drops in silence would be lost."""
    has_values = len(shape.staging.fields) > len(shape.target.key)
    if shape.kind is Kind.UPSERT and has_values and merged != staged:
        raise TargetMismatch(
            f"target table {shape.target}: {staged} rows were sent, {merged} were taken",
            hint="a trigger or rule of that table drops rows; disable it for the lane's role",
        )


def _send_runs(
    connection: Connection, epoch: Epoch, shapes: dict[int, Shape], wanted: Iterable[tuple[int, int, int]]
) -> int:
    """Stage every change with its ordinal, then send the runs in order."""
    sent = _stage_all(connection, epoch, shapes)
    statements = [_statement(shapes[layout], (first, last)) for layout, first, last in wanted if layout in shapes]
    for start in range(0, len(statements), STATEMENTS_AT_ONCE):
        run(connection, "; ".join(statements[start : start + STATEMENTS_AT_ONCE]))
    for shape in shapes.values():
        staging.clear(connection, shape.staging)
    return sent


def _stage_all(connection: Connection, epoch: Epoch, shapes: dict[int, Shape]) -> int:
    changes = epoch.of_kind(*CHANGES)
    sent = 0
    for index, shape in shapes.items():
        ordinals: Indices = epoch.of_layout(index, changes)
        sent += staging.copy(connection, shape.staging, epoch.lines(ordinals), pa.array(ordinals))
    return sent


def _statement(shape: Shape, ordinals: tuple[int, int]) -> str:
    return shape.merge.upsert(ordinals) if shape.kind is Kind.UPSERT else shape.merge.delete(ordinals)


def _first_refused(connection: Connection, epoch: Epoch, shapes: dict[int, Shape]) -> tuple[int, Exception] | None:
    """(ordinal, error) of the first change that the target refuses."""
    try:
        with connection.begin_nested():
            _stage_all(connection, epoch, shapes)
    except (DBAPIError, psycopg2.Error) as error:
        line = _COPY_LINE.search(str(error))
        return (_staged_ordinal(epoch, shapes, str(error), int(line[1])), error) if line else None
    for layout, ordinal, _ in single_changes(epoch):
        if layout in shapes:
            try:
                with connection.begin_nested():
                    run(connection, _statement(shapes[layout], (ordinal, ordinal)))
            except (DBAPIError, psycopg2.Error) as error:
                return ordinal, error
    return None


def _staged_ordinal(epoch: Epoch, shapes: dict[int, Shape], message: str, line: int) -> int:
    """Ordinal of the change that stands at a line of the COPY into the staging table that the message names."""
    changes = epoch.of_kind(*CHANGES)
    for index, shape in shapes.items():
        if shape.staging.name.rsplit('"', 2)[-2] in message:
            return int(epoch.of_layout(index, changes)[line - 1])
    return int(changes[0])
