"""Parents before children, whatever the tables are called and however they point at each other."""

from hypothesis import given
from hypothesis import strategies as st

from app.apply.order_plan import ATTEMPTS, OrderPlan, parents_first
from app.apply.target_tables import TargetTable

COUNT = 6
edges = st.sets(st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1)))


def table(oid: int, parents: set[int], name: str = "") -> TargetTable:
    """A table of which only the foreign keys matter."""
    return TargetTable(
        oid=oid, schema="public", name=name or f"t{oid}", columns=(), key=("id",), parents=frozenset(parents)
    )


@given(edges, st.permutations(range(COUNT)))
def test_without_a_cycle_every_parent_stands_before_its_children(pairs: set[tuple[int, int]], order: list[int]) -> None:
    parents = {child: {parent for parent, other in pairs if other == child and parent < child} for child in order}
    names = {oid: f"t{order.index(oid)}" for oid in order}
    sorted_tables = parents_first([table(oid, parents[oid], names[oid]) for oid in order])
    place = {found.oid: index for index, found in enumerate(sorted_tables)}
    assert len(place) == COUNT
    assert all(place[parent] < place[child] for child in order for parent in parents[child])


@given(edges, st.permutations(range(COUNT)))
def test_a_cycle_ends_and_the_order_depends_on_nothing_but_the_tables(
    pairs: set[tuple[int, int]], order: list[int]
) -> None:
    tables = [table(oid, {parent for parent, child in pairs if child == oid}) for oid in range(COUNT)]
    there = parents_first(tables)
    assert sorted(found.oid for found in there) == list(range(COUNT))
    assert parents_first([tables[index] for index in order]) == there


def test_a_parent_that_is_not_in_the_epoch_delays_no_table() -> None:
    tables = [table(2, {99}), table(1, {2})]
    assert [found.oid for found in parents_first(tables)] == [2, 1]


def test_the_faithful_plan_is_the_last_resort() -> None:
    assert ATTEMPTS[-1] is OrderPlan.FAITHFUL
    assert set(ATTEMPTS) == set(OrderPlan) - {OrderPlan.NONE, OrderPlan.NARROWED}
