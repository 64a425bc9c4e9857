"""The benchmark's workloads: what their messages say is what the oracle expects, in every table."""

import json
from collections import Counter

import pytest

from bench.tables import BEGIN_MICROS, WIDE_COLUMNS, Expected
from bench.workload import Kind, Workload, as_many_bytes, key_of, value_of

COUNT = 500


@pytest.mark.parametrize("kind", Kind)
def test_folded_messages_are_what_is_expected(kind: Kind) -> None:
    tables = {table.name: table for table in kind.tables}
    rows: dict[str, dict[int, tuple[str | None, ...]]] = {name: {} for name in tables}
    workload = Workload(kind, COUNT)
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
    assert len(Kind.WIDE.tables[0].columns) == WIDE_COLUMNS
    assert as_many_bytes(Kind.MANY_TABLES, 1000) == 1000
    assert 100 < as_many_bytes(Kind.WIDE, 1000) < 250


def _row(image: dict[str, object]) -> tuple[str | None, ...]:
    return tuple(None if value is None else json.dumps(value).strip('"') for value in image.values())
