"""Sends one epoch's changes to the target, inside the transaction it is given."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import psycopg2
import pyarrow as pa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.apply import staging
from app.apply.constraints import SETTLE, settle_constraints
from app.apply.merge import LOOK_UPS, SWALLOWED
from app.apply.order_plan import ATTEMPTS, OrderPlan, parents_first, runs
from app.apply.table_plans import TablePlan, TablePlans
from app.db.joined import later, subtransaction
from app.db.sql import discarded, run
from app.db.sqlstate import depends_on_order
from app.epoch import staging_copy
from app.epoch.epoch_batch import CHANGES, EpochBatch
from app.errors import TargetMismatch
from app.model.counts import Counts
from app.model.offsets import Position
from app.model.row_layout import Layout, RowKind
from app.model.statement import Statement

#: statements of the faithful plan sent in one round trip
STATEMENTS_AT_ONCE = 500
#: executes statements one by one in one round trip; returns how many rows each changed, or None where the transaction
#: fails if a statement does something else than it should
Execute = Callable[[Sequence[Statement]], list[int] | None]
#: kinds that no target can take
_REFUSED = (RowKind.KEYLESS, RowKind.UNFIT)


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Counts of an applied epoch, and the plan that the target accepted."""

    counts: Counts
    plan: OrderPlan


@dataclass(frozen=True, kw_only=True)
class StagedLayout:
    """The compacted changes of one layout in an epoch that tasks have staged (`app.stage`)."""

    #: its staging table has the rows; None: the table is left out
    shape: TablePlan | None
    #: columns of the message key, from its first message
    key: frozenset[str]
    messages: int
    rows: int
    #: the last one inserts the rows into the staging table; (): it has them
    filling: Sequence[str] = ()


class Applier:
    """Applies epochs of one lane."""

    def __init__(self, lane: str, shapes: TablePlans) -> None:
        self.lane, self._shapes = lane, shapes

    @property
    def schema(self) -> str:
        """Schema of the lane's own tables."""
        return self._shapes.schema

    def prepare(self, epoch: EpochBatch, parked: Collection[int] = ()) -> dict[int, TablePlan]:
        """Plans of the epoch's layouts by index, without tables that are left out, and without the layouts `parked`.

        Works outside the epoch's transaction. Raises TargetMismatch, naming the first message of a kind that the target
        cannot take.
        """
        with self._shapes.together():
            firsts = {index: example for index, example in epoch.firsts.items() if index not in parked}
            found = {index: self._shape(epoch, index, example) for index, example in firsts.items()}
        self._shapes.reclaim()
        return {index: shape for index, shape in found.items() if shape is not None}

    def forget(self) -> None:
        """Read the catalog again for the next epoch: the target may have been altered."""
        self._shapes.forget()

    def apply(
        self, connection: Connection, epoch: EpochBatch, shapes: dict[int, TablePlan], *, is_part: bool = False
    ) -> Applied:
        """Send the changes, in a subtransaction for each plan until the target accepts one; raises the error of the
        last.

        Deferred constraints are checked at once, so that another plan may satisfy them. `is_part`: of an epoch; they
        are not checked, and where a history keeps one version of an epoch, that of the part is only tried (then
        `keep_versions`).
        """
        meant = epoch.changes
        meant = meant[np.isin(epoch.codes[meant], list(shapes))]
        if not len(meant):
            return Applied(counts=Counts(consumed=len(epoch), filtered=len(epoch)), plan=OrderPlan.NONE)
        whole = epoch.completed()
        plan, applied = self._attempt(connection, epoch, whole, _needed(epoch, whole, shapes), is_part)
        counts = Counts(
            consumed=len(epoch), applied=applied, compacted=len(meant) - applied, filtered=len(epoch) - len(meant)
        )
        return Applied(counts=counts, plan=plan)

    def merge(
        self,
        connection: Connection,
        messages: int,
        staged: Sequence[StagedLayout],
        execute: Execute,
        *,
        at_once: bool = False,
    ) -> Applied | None:
        """Apply the staged rows of an epoch of `messages` messages, in a subtransaction for each plan until the target
        accepts one. None, with nothing applied, where the changes have to be sent one by one; raises errors that do not
        depend on the order. `at_once`: by the first plan; the transaction fails where the target does not accept it."""
        kept = [one for one in staged if one.shape is not None]
        shapes = {index: one.shape for index, one in enumerate(kept) if one.shape is not None}
        meant = sum(one.messages for one in kept)
        if not kept:
            execute(())
            return Applied(counts=Counts(consumed=messages, filtered=messages), plan=OrderPlan.NONE)
        plans = _plans({index: one.key for index, one in enumerate(kept)}, shapes)
        compact = [plan for plan in plans if plan is not OrderPlan.FAITHFUL]
        drops = any(_keeps_every_change(shapes[index]) and one.messages != one.rows for index, one in enumerate(kept))
        if drops or not compact:
            return None

        def send(plan: OrderPlan) -> int:
            order = [kept[index] for index in _order(shapes, plan) if kept[index].rows]
            _merge_staged(connection, order, execute)
            return sum(one.rows for one in order)

        later(connection, LOOK_UPS)
        try:
            if at_once:
                plan, applied = compact[0], send(compact[0])
            else:
                plan, applied = _first_accepted(connection, compact, send, settle=False)
        except (DBAPIError, psycopg2.Error) as error:
            if not depends_on_order(error):
                raise
            return None
        counts = Counts(consumed=messages, applied=applied, compacted=meant - applied, filtered=messages - meant)
        return Applied(counts=counts, plan=plan)

    def _shape(self, epoch: EpochBatch, index: int, example: int) -> TablePlan | None:
        layout = epoch.layouts[index]
        if layout.kind in CHANGES:
            return self._shapes.shape(layout, epoch.position(example))
        if layout.kind in _REFUSED and not self._shapes.leaves_out(layout):
            self._refuse(layout, epoch.position(example))
        return None

    def _attempt(
        self,
        connection: Connection,
        epoch: EpochBatch,
        whole: EpochBatch | None,
        shapes: dict[int, TablePlan],
        is_part: bool,
    ) -> tuple[OrderPlan, int]:
        """`whole`: the epoch for the plans that send the last change of each row; None: only the faithful plan is
        possible."""
        later(connection, LOOK_UPS)
        is_faithful = whole is None or _drops_versions(epoch, whole, shapes)
        plans = (OrderPlan.FAITHFUL,) if is_faithful else _plans_of(epoch, shapes)

        def send(plan: OrderPlan) -> int:
            if plan is OrderPlan.FAITHFUL or whole is None:
                return _send_runs(connection, epoch, shapes, is_part)
            return _send_last(connection, whole, shapes, plan, is_part)

        return _first_accepted(connection, plans, send, settle=not is_part)

    def keep_versions(self, connection: Connection, epoch: EpochBatch, shapes: dict[int, TablePlan]) -> None:
        """Write the versions of an epoch that was applied in parts, where a history keeps one of an epoch."""
        if not any(_keeps_the_last(shape) for shape in shapes.values()):
            return
        whole = epoch.completed()
        kept = {index: shape for index, shape in _needed(epoch, whole, shapes).items() if _keeps_the_last(shape)}
        later(connection, LOOK_UPS)
        if whole is None or _plans_of(epoch, kept) == (OrderPlan.FAITHFUL,):
            _stage_all(connection, epoch, kept)
            _keep_versions_in_order(connection, kept.values())
            staging_copy.clear(connection, {shape.staging.name for shape in kept.values()})
            return
        filled: set[str] = set()
        for index in _order(kept, OrderPlan.DELETES_FIRST):
            if _stage_last(connection, whole, index, kept[index], filled):
                _keep_versions(connection, kept[index])
        staging_copy.clear(connection, filled)

    def _refuse(self, layout: Layout, example: Position) -> None:
        table = layout.source
        if layout.kind is RowKind.UNFIT:
            raise TargetMismatch(
                f"lane {self.lane}: message {example} of table {table} does not have {', '.join(layout.columns)}, "
                "which the SQL for that table names",
                hint=f"mend `sql` for {table} in the configuration: names are those in the message, upper and lower "
                "case as there. Where an update leaves an unchanged large (TOASTed) value out: take that column out of "
                f"`sql`, or, for changes to come, at the source: alter table {table} replica identity full",
            )
        raise TargetMismatch(
            f"lane {self.lane}: message {example} deletes a row of {table} but does not say which",
            hint=f"at the source: alter table {table} replica identity default (with a primary key) or full",
        )


def _first_accepted(
    connection: Connection, plans: Sequence[OrderPlan], send: Callable[[OrderPlan], int], *, settle: bool
) -> tuple[OrderPlan, int]:
    """The first plan that the target accepts, and the result of `send`; raises the error of the last one."""
    for plan in plans:
        try:
            with subtransaction(connection):
                sent = send(plan)
                if settle:
                    settle_constraints(connection)
            return plan, sent
        except (DBAPIError, psycopg2.Error) as error:
            if plan is plans[-1] or not depends_on_order(error):
                raise
    raise AssertionError("the last plan returns or raises")


def _send_last(
    connection: Connection, epoch: EpochBatch, shapes: dict[int, TablePlan], plan: OrderPlan, is_part: bool
) -> int:
    """Send the changes that are the last of their keys, in the order of the plan; returns their number."""
    filled: set[str] = set()
    total = 0
    for index in _order(shapes, plan):
        shape = shapes[index]
        if sent := _stage_last(connection, epoch, index, shape, filled):
            result = run(connection, _merge(shape))
            _refuse_swallowed(connection, shape, result.rowcount, sent)
            _keep_versions(connection, shape, is_part)
            total += sent
    staging_copy.clear(connection, filled)
    return total


def _stage_last(connection: Connection, epoch: EpochBatch, index: int, shape: TablePlan, filled: set[str]) -> int:
    """Stage those changes of a layout that are the last of their keys; returns their number.

    `filled`: staging tables to clear, all in one round trip at the end. Layouts may share one.
    """
    lines = epoch.last_lines[index]
    if not len(lines):
        return 0
    if shape.staging.name in filled:
        staging_copy.clear(connection, [shape.staging.name])
    filled.add(shape.staging.name)
    stamps = epoch.last_stamps[index] if shape.staging.stamps else None
    return staging.copy(connection, shape.staging, lines, stamps=stamps)


def _merge_staged(connection: Connection, order: Sequence[StagedLayout], execute: Execute) -> None:
    """Merge the staged rows into the target, and check deferred constraints."""
    statements: list[Statement] = []
    merges: list[tuple[TablePlan, int, int]] = []
    for one in order:
        assert one.shape is not None, "the target takes it"
        statements += [Statement(sql) for sql in one.filling[:-1]]
        statements += [Statement(sql, one.rows) for sql in one.filling[-1:]]
        merges.append((one.shape, len(statements), one.rows))
        statements += [_counted(one.shape, one.rows), *map(Statement, _versions(one.shape))]
    counts = execute([*statements, Statement(SETTLE)])
    if counts is not None:
        for shape, place, rows in merges:
            _refuse_swallowed(connection, shape, counts[place], rows)


def _counted(shape: TablePlan, rows: int) -> Statement:
    """The merge of so many staged rows. A row to be deleted may be gone already."""
    match shape.kind:
        case RowKind.UPSERT if shape.merge.updates:
            return Statement(_merge(shape), rows)
        case RowKind.DELETE:
            return Statement(_merge(shape), rows, f"select where {shape.merge.kept()}")
        case _:
            return Statement(_merge(shape))


def _keep_versions(connection: Connection, shape: TablePlan, is_part: bool = False) -> None:
    """Write the versions of the merged rows, where they are kept; those of a part only try whether they can be."""
    if statements := _versions(shape):
        tried = is_part and _keeps_the_last(shape)
        with discarded(connection) if tried else nullcontext():
            run(connection, "; ".join(statements))


def _keep_versions_in_order(connection: Connection, shapes: Iterable[TablePlan], is_part: bool = False) -> None:
    """What was deleted ends before what was written begins."""
    for shape in sorted(shapes, key=lambda shape: shape.kind is not RowKind.DELETE):
        _keep_versions(connection, shape, is_part)


def _versions(shape: TablePlan) -> Sequence[str]:
    return () if shape.history is None else tuple(shape.history.statements())


def _keeps_every_change(shape: TablePlan) -> bool:
    return shape.history is not None and shape.history.every_change


def _keeps_the_last(shape: TablePlan) -> bool:
    """Whether of several changes of a row in an epoch the last one makes a version."""
    return shape.history is not None and not shape.history.every_change


def _needed(epoch: EpochBatch, whole: EpochBatch | None, shapes: Mapping[int, TablePlan]) -> dict[int, TablePlan]:
    """Plans of the layouts that rows have, as they were read and, in `whole`, as they are completed."""
    present = epoch.firsts.keys() | (epoch if whole is None else whole).firsts.keys()
    return {index: shape for index, shape in shapes.items() if index in present}


def _order(shapes: Mapping[int, TablePlan], plan: OrderPlan) -> list[int]:
    """The layouts in the order of the plan: parents are written before their children, and deleted after them."""
    deletes = [index for index, shape in shapes.items() if shape.kind is RowKind.DELETE]
    upserts = [index for index, shape in shapes.items() if shape.kind is not RowKind.DELETE]
    tables = parents_first({shape.target.oid: shape.target for shape in shapes.values()}.values())
    rank = {table.oid: position for position, table in enumerate(tables)}
    deletes.sort(key=lambda index: -rank[shapes[index].target.oid])
    upserts.sort(key=lambda index: rank[shapes[index].target.oid])
    return deletes + upserts if plan is OrderPlan.DELETES_FIRST else upserts + deletes


def _drops_versions(epoch: EpochBatch, whole: EpochBatch, shapes: Mapping[int, TablePlan]) -> bool:
    """Whether the last changes alone lack a version that is kept."""
    of = [index for index, shape in shapes.items() if _keeps_every_change(shape)]
    if not of:
        return False
    changes = epoch.by_layout(epoch.changes)
    return any(len(changes[index]) != len(whole.last_lines[index]) for index in of)


def _plans_of(epoch: EpochBatch, shapes: Mapping[int, TablePlan]) -> tuple[OrderPlan, ...]:
    """Plans for an epoch's rows: a change without key has to be sent in its place."""
    if (epoch.identities[np.isin(epoch.codes, list(shapes))] < 0).any():
        return (OrderPlan.FAITHFUL,)
    return _plans({index: epoch.key_columns(first) for index, first in epoch.firsts.items() if index in shapes}, shapes)


def _plans(keys: Mapping[int, Collection[str]], shapes: Mapping[int, TablePlan]) -> tuple[OrderPlan, ...]:
    """The plans whose success proves them right, the fastest first.

    Compaction is by message key, so that has to be the target's primary key. Where the target cascades, deletes first
    would also delete rows that left the deleted one earlier in the epoch, and all that refer to them. Where one key may
    be written in two ways, a delete and an insert may be of one row: upserts first would delete it.
    """
    if any(key != shapes[index].key for index, key in keys.items()):
        return (OrderPlan.FAITHFUL,)
    cascades = any(shape.kind is RowKind.DELETE and shape.target.cascades for shape in shapes.values())
    unwanted = {OrderPlan.DELETES_FIRST} if cascades else set[OrderPlan]()
    unwanted |= {OrderPlan.UPSERTS_FIRST} if _rewrites_keys(shapes) else set()
    return tuple(plan for plan in ATTEMPTS if plan not in unwanted)


def _rewrites_keys(shapes: Mapping[int, TablePlan]) -> bool:
    """Whether a row may be deleted under one text of its key and written under another."""
    deleted, written = (
        {shape.target.oid for shape in shapes.values() if (shape.kind is RowKind.DELETE) is wanted}
        for wanted in (True, False)
    )
    return any(shape.target.oid in deleted & written and not shape.target.has_exact_key for shape in shapes.values())


def _refuse_swallowed(connection: Connection, shape: TablePlan, merged: int, staged: int) -> None:
    """Raise TargetMismatch for changes that a trigger or rule of the target drops silently: they would be lost. A row
    to be deleted may be gone already."""
    if shape.kind is RowKind.UPSERT and shape.merge.updates and merged != staged:
        raise _swallowed(f"{shape.target}: {staged} rows were sent, {merged} were taken")
    if (
        shape.kind is RowKind.DELETE
        and merged < staged
        and run(connection, f"select {shape.merge.kept()}").scalar_one()
    ):
        raise _swallowed(f"{shape.target}: {staged} deletes were sent, {merged} rows went, and some of the others stay")


def _swallowed(what: str) -> TargetMismatch:
    return TargetMismatch(
        f"target table {what}",
        hint="a trigger or rule of that table drops changes; disable it for the lane's role (`surelane doctor`)",
    )


def _send_runs(
    connection: Connection,
    epoch: EpochBatch,
    shapes: dict[int, TablePlan],
    is_part: bool,
) -> int:
    """Stage every change with its ordinal, then send the runs in order."""
    sent = _stage_all(connection, epoch, shapes)
    meant = [(shapes[layout], (first, last)) for layout, first, last in runs(epoch) if layout in shapes]
    statements: list[str] = []
    for shape, ordinals in _truncates_in_order(meant):
        statements.append(_rekey(epoch, shapes, shape, ordinals[0]) or _checked(shape, ordinals))
        if shape.history is not None and _keeps_every_change(shape):
            statements += shape.history.statements(ordinals)
    statements.append(f"select current_setting('{SWALLOWED}', true)")
    results = [
        run(connection, "; ".join(statements[start : start + STATEMENTS_AT_ONCE]))
        for start in range(0, len(statements), STATEMENTS_AT_ONCE)
    ]
    if table := results[-1].scalar_one():
        raise _swallowed(f"{table}: it did not take, or did not give up, a row that it was sent")
    _keep_versions_in_order(connection, filter(_keeps_the_last, shapes.values()), is_part)
    staging_copy.clear(connection, {shape.staging.name for shape in shapes.values()})
    return sent


def _truncates_in_order(runs: list[tuple[TablePlan, tuple[int, int]]]) -> Iterator[tuple[TablePlan, tuple[int, int]]]:
    """One TRUNCATE of several tables is a message for each: children go before the tables that their keys reference."""
    for is_truncate, group in groupby(runs, lambda run: run[0].kind is RowKind.TRUNCATE):
        together = list(group)
        if is_truncate:
            tables = parents_first({shape.target.oid: shape.target for shape, _ in together}.values())
            rank = {table.oid: place for place, table in enumerate(tables)}
            together.sort(key=lambda run: -rank[run[0].target.oid])
        yield from together


def _stage_all(connection: Connection, epoch: EpochBatch, shapes: dict[int, TablePlan]) -> int:
    changes = epoch.by_layout(epoch.changes)
    sent = 0
    for index, shape in shapes.items():
        ordinals = changes[index]
        if shape.kind is RowKind.TRUNCATE:
            sent += len(ordinals)
            continue
        stamps = epoch.stamps(ordinals) if shape.staging.stamps else None
        sent += staging.copy(connection, shape.staging, epoch.lines(ordinals), pa.array(ordinals), stamps)
    return sent


def _rekey(epoch: EpochBatch, shapes: dict[int, TablePlan], old: TablePlan, deleted: int) -> str:
    """The statement for a delete that is the first half of a key change; "" for every other change."""
    written = epoch.key_changes.get(deleted)
    new = None if written is None else shapes.get(int(epoch.codes[written]))
    if written is None or new is None or not new.target.has_writable_key:
        return ""
    return new.merge.rekey(old.merge, deleted, written)


def _checked(shape: TablePlan, ordinals: tuple[int, int]) -> str:
    """The statement for a range of the staged rows; it records in SWALLOWED what the target drops."""
    match shape.kind:
        case RowKind.UPSERT:
            return shape.merge.checked_upsert(ordinals)
        case RowKind.DELETE:
            return shape.merge.checked_delete(ordinals)
        case _:
            return _merge(shape, ordinals)


def _merge(shape: TablePlan, ordinals: tuple[int, int] | None = None) -> str:
    """The statement that merges the staged rows, or a range of them, into the target."""
    match shape.kind:
        case RowKind.DELETE:
            return shape.merge.delete(ordinals)
        case RowKind.PATCH:
            return shape.merge.patch(ordinals)
        case RowKind.TRUNCATE:
            return shape.merge.truncate()
        case _:
            return shape.merge.upsert(ordinals)
