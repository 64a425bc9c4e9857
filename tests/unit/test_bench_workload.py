"""The benchmark's workloads: what their messages say is what the oracle expects, in every table."""

import hashlib
import json
import pickle
from collections import Counter

import pytest

from tools.testbed.tables import BEGIN_MICROS, WIDE_COLUMNS, Expected
from tools.testbed.workload import Kind, Shape, Workload, as_many_bytes, key_of, value_of

COUNT = 500


SHAPES = [
    *(kind.shape for kind in Kind),
    Shape(tables=7, most_rows=20),
    Shape(columns=5),
    Shape(columns=200, most_rows=20),
    Shape(row_bytes=100),
    Shape(row_bytes=100_000, most_rows=5),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_folded_messages_are_what_is_expected(shape: Shape) -> None:
    tables = {table.name: table for table in shape.made}
    rows: dict[str, dict[int, tuple[str | None, ...]]] = {name: {} for name in tables}
    workload = Workload(shape, COUNT)
    seen: Counter[str] = Counter()
    for ordinal, change in enumerate(workload):
        key, value = json.loads(key_of(change)), json.loads(value_of(change, ordinal, BEGIN_MICROS))
        name = value["source"]["table"]
        seen[name] += 1
        before, after = (None if image is None else _row(image) for image in (value["before"], value["after"]))
        assert rows[name].get(key["id"]) == before
        if after is None:
            del rows[name][key["id"]]
        else:
            assert list(value["after"]) == list(tables[name].columns)
            rows[name][key["id"]] = after
    assert seen.total() == COUNT
    assert seen.keys() == tables.keys()
    assert workload.expected() == {name: Expected.of(found.values()) for name, found in rows.items()}


def test_sizes() -> None:
    assert len(Kind.WIDE.shape.made[0].columns) == WIDE_COLUMNS
    assert as_many_bytes(Kind.MANY_TABLES.shape, 1000) == 1000
    assert 100 < as_many_bytes(Kind.WIDE.shape, 1000) < 250


def test_what_has_a_name_has_the_bytes_it_always_had() -> None:
    found: dict[Kind, str] = {}
    for kind in Kind:
        changes = enumerate(Workload(kind.shape, 3000))
        text = "".join(key_of(change) + value_of(change, ordinal, BEGIN_MICROS) for ordinal, change in changes)
        found[kind] = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert found == {
        Kind.UNIFORM: "13a65013dd62955f",
        Kind.HOT: "59ce4251d6690481",
        Kind.WIDE: "498b633335d6461c",
        Kind.MANY_TABLES: "04bdfe9b5200afbb",
    }


def test_names_distinguish_shapes() -> None:
    assert [kind.shape.name for kind in Kind] == ["uniform", "hot", "wide", "many-tables"]
    assert Shape().name == "uniform"
    assert Shape(tables=10, most_rows=100).name == "tables-10.rows-100"
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)


def test_rows_of_many_columns_stay_whole_where_that_is_asked() -> None:
    """Named apart, since the tables are others, and the changes the same."""
    whole, apart = Shape(columns=200, is_whole=True, most_rows=10), Shape(columns=200, most_rows=10)
    assert whole.name == "columns-200.rows-10.whole"
    assert [one.after for one in Workload(whole, 20)] == [one.after for one in Workload(apart, 20)]
    assert whole.made[0].ddl == apart.made[0].ddl + " with (toast_tuple_target = 8160)"


@pytest.mark.parametrize("size", [100, 1000, 10_000, 100_000])
def test_rows_are_as_long_as_asked(size: int) -> None:
    rows = Workload(Shape(row_bytes=size, most_rows=10), 60)
    found = [sum(len(value or "") for value in change.after) for change in rows if change.after]
    assert sum(found) / len(found) == pytest.approx(size, abs=12)


def test_a_table_stops_growing() -> None:
    workload = Workload(Shape(most_rows=30), 2000)
    ops = Counter(change.op for change in workload if len(workload.rows) <= 30)
    assert 25 <= len(workload.rows) <= 31
    assert ops["d"] == pytest.approx(ops["c"], rel=0.3)
    assert ops["u"] == pytest.approx(1200, rel=0.1)


def test_longer_messages_are_fewer() -> None:
    assert as_many_bytes(Shape(row_bytes=10_000), 100_000) == pytest.approx(100_000 * 792 / 17_000, rel=0.2)
    # never more of them
    assert as_many_bytes(Shape(columns=5), 100_000) == 100_000


def test_a_shape_goes_to_another_process() -> None:
    shape = Shape(tables=3, most_rows=10)
    assert shape.made
    assert pickle.loads(pickle.dumps(shape)) == shape


def _row(image: dict[str, object]) -> tuple[str | None, ...]:
    return tuple(None if value is None else json.dumps(value).strip('"') for value in image.values())
