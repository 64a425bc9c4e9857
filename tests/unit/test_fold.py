"""Compaction changes nothing: the last change of each key, sent alone, gives what all of them give in their order."""

import random
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from app.apply.order_plan import runs
from app.epoch.epoch_batch import CHANGES, EpochBatch
from app.model.row_layout import SEPARATOR, RowKind
from tests.decoded import table_of


@dataclass(frozen=True)
class Op:
    """One made-up message: `value` None deletes; `key` None: no message key; `table` None: nothing for the target."""

    table: str | None
    key: int | None
    value: int | None
    #: layouts of one table differ in columns, as after an ALTER TABLE at the source
    columns: tuple[str, ...]


ops = st.builds(
    Op,
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 2, 9, 10, 100]),
    st.none() | st.integers(0, 99),
    st.sampled_from([("id", "v"), ("id", "v", "w")]),
)
epochs = st.lists(ops, max_size=40)
State = dict[tuple[str, int], tuple[int, tuple[str, ...]]]


def arranged(given_ops: list[Op], seed: int = 0) -> EpochBatch:
    """The epoch of these messages, handed over in any order."""
    rows = [_row(op, offset) for offset, op in enumerate(given_ops)]
    random.Random(seed).shuffle(rows)
    return EpochBatch.arrange(table_of(rows))


def _row(op: Op, offset: int) -> dict[str, object]:
    kind = RowKind.FILTERED if op.table is None else RowKind.DELETE if op.value is None else RowKind.UPSERT
    columns = () if op.table is None else ("id",) if op.value is None else op.columns
    return {
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "layout": SEPARATOR.join([kind, "", "public" if op.table else "", op.table or "", *columns]),
        "key": None if op.key is None else f'{{"{op.table}_id":{op.key}}}',
        "line": f"{op.key}\n" if op.table else "",
        "ts_ms": 1000 + offset if op.table else None,
        "sequence": None,
    }


def fold(given_ops: list[Op], state: State | None = None) -> State:
    """One after the other."""
    result = dict(state or {})
    for op in given_ops:
        if op.table is None or op.key is None:
            continue
        result.pop((op.table, op.key), None)
        if op.value is not None:
            result[op.table, op.key] = (op.value, op.columns)
    return result


@given(epochs, st.integers())
def test_rows_come_into_kafkas_order_whatever_order_tasks_finish_in(given_ops: list[Op], seed: int) -> None:
    epoch = arranged(given_ops, seed)
    assert epoch.rows["offset"].to_pylist() == list(range(len(given_ops)))
    assert [epoch.layout(ordinal).table for ordinal in range(len(epoch))] == [op.table or "" for op in given_ops]


@given(epochs, st.integers())
def test_exactly_the_last_change_of_each_key_survives(given_ops: list[Op], seed: int) -> None:
    last = {(op.table, op.key): ordinal for ordinal, op in enumerate(given_ops) if op.table}
    assert arranged(given_ops, seed).survivors.tolist() == sorted(last.values())


@given(epochs, st.integers())
def test_survivors_are_written_in_the_order_of_their_keys(given_ops: list[Op], seed: int) -> None:
    epoch = arranged(given_ops, seed)
    written: dict[int, list[str]] = {index: [] for index in range(len(epoch.layouts))}
    for ordinal in epoch.survivors:
        written[int(epoch.codes[ordinal])].append(epoch.lines(np.array([ordinal])).to_pylist()[0])
    lines = [sorted(of_layout, key=int) for of_layout in written.values()] or [[]]
    assert [found.to_pylist() for found in epoch.last_lines] == lines
    offsets = {(epoch.codes[at], epoch.rows["line"][at].as_py()): str(at) for at in epoch.survivors.tolist()}
    stamped = [[stamp.split("\t")[3] for stamp in found.to_pylist()] for found in epoch.last_stamps]
    assert stamped == [[offsets[index, line] for line in of_layout] for index, of_layout in enumerate(lines)]


@given(epochs, epochs, st.booleans())
def test_survivors_alone_give_what_all_changes_give(before: list[Op], given_ops: list[Op], deletes_first: bool) -> None:
    state = fold(before)
    survivors = [given_ops[ordinal] for ordinal in arranged(given_ops).survivors]
    deletes = [op for op in survivors if op.value is None]
    upserts = [op for op in survivors if op.value is not None]
    sent = deletes + upserts if deletes_first else upserts + deletes
    assert fold(sent, state) == fold(given_ops, state)


@given(epochs)
def test_applying_an_epoch_twice_is_applying_it_once(given_ops: list[Op]) -> None:
    survivors = [given_ops[ordinal] for ordinal in arranged(given_ops).survivors]
    assert fold(survivors, fold(survivors)) == fold(given_ops)


@given(epochs, st.integers())
def test_runs_are_all_changes_in_their_order_and_no_run_meets_a_key_twice(given_ops: list[Op], seed: int) -> None:
    epoch = arranged(given_ops, seed)
    changes = epoch.of_kind(*CHANGES).tolist()
    sent: list[int] = []
    for layout, first, last in runs(epoch):
        run = [ordinal for ordinal in changes if first <= ordinal <= last]
        assert {int(epoch.codes[ordinal]) for ordinal in run} == {layout}
        keys = [given_ops[ordinal].key for ordinal in run]
        assert len(keys) == len(set(keys))
        sent += run
    assert sent == changes


@given(st.lists(st.builds(Op, st.just("a"), st.none(), st.just(1), st.just(("id", "v"))), min_size=1, max_size=9))
def test_changes_without_a_key_all_survive_and_run_alone(given_ops: list[Op]) -> None:
    epoch = arranged(given_ops)
    assert epoch.survivors.tolist() == list(range(len(given_ops)))
    assert list(runs(epoch)) == [(0, ordinal, ordinal) for ordinal in range(len(given_ops))]


@given(epochs)
def test_every_message_is_counted_once(given_ops: list[Op]) -> None:
    epoch = arranged(given_ops)
    assert len(epoch) == len(given_ops)
    assert len(epoch.of_kind(*RowKind)) == len(given_ops)
    assert len(epoch.of_kind(RowKind.FILTERED)) == sum(op.table is None for op in given_ops)
    assert len(epoch.source_times()) == len(epoch.of_kind(*CHANGES))


def test_an_empty_epoch_has_nothing() -> None:
    epoch = EpochBatch.arrange(table_of([]))
    assert len(epoch) == 0
    assert epoch.survivors.tolist() == []
    assert list(runs(epoch)) == []
    assert len(epoch.of_kind(*RowKind)) == 0
    assert len(epoch.source_times()) == 0


def test_lines_are_taken_in_the_order_asked_for() -> None:
    rows = [_row(Op("a", key, 1, ("id", "v")), offset) for offset, key in enumerate([5, 6, 7])]
    epoch = EpochBatch.arrange(pa.concat_tables([table_of([rows[2]]), table_of(rows[:2])]))
    assert epoch.lines(epoch.survivors).to_pylist() == ["5\n", "6\n", "7\n"]
    assert epoch.lines(epoch.survivors[1:2]).to_pylist() == ["6\n"]
