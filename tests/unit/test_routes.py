"""Routes: first match wins, wildcards carry their text over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.routes import RouteInvalid, Routes

names = st.text(st.characters(exclude_characters=".*", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("tables", "source", "target"),
    [
        ({"public.*": "public.*"}, "public.orders", "public.orders"),
        ({"public.*": "shop.*"}, "public.orders", "shop.orders"),
        ({"*.*": "shop.*"}, "public.orders", "shop.orders"),
        ({"*.*": "copy_of_*.*"}, "public.orders", "copy_of_public.orders"),
        ({"public.orders_*": "public.all_*_orders"}, "public.orders_2024", "public.all_2024_orders"),
        ({"public.*_p*": "public.*_q*"}, "public.a_p1", "public.a_q1"),
        ({"public.a": "public.b", "public.*": "public.*"}, "public.a", "public.b"),
        ({"public.*": "public.*", "public.a": "public.b"}, "public.a", "public.a"),
        ({"public.o.x": "public.y"}, "public.o.x", "public.y"),
    ],
)
def test_target(tables: dict[str, str], source: str, target: str) -> None:
    schema, _, table = source.partition(".")
    assert ".".join(Routes(tables).target(schema, table) or ()) == target


@pytest.mark.parametrize("source", [("other", "orders"), ("publi", "orders"), ("publicx", "orders")])
def test_no_route(source: tuple[str, str]) -> None:
    assert Routes({"public.*": "public.*"}).target(*source) is None


@pytest.mark.parametrize("name", ["or.ers", "orders+", "ORDERS"])
def test_only_the_star_is_special(name: str) -> None:
    assert Routes({"public.or.ers": "a.b", "public.orders+": "a.c"}).target("public", "orders") is None
    assert Routes({f"public.{name}": "a.b"}).target("public", name) == ("a", "b")


@pytest.mark.parametrize(
    "tables", [{}, {"orders": "public.orders"}, {"public.*": "x"}, {"public.a": "public.*"}, {"*.a": "a.*"}]
)
def test_refused(tables: dict[str, str]) -> None:
    with pytest.raises(RouteInvalid):
        Routes(tables)


def test_nothing_goes_into_the_schema_of_our_own_tables() -> None:
    routes = Routes({"*.*": "*.*"}, "surelane")
    assert routes.target("surelane", "ledger") is None
    assert routes.target("public", "ledger") == ("public", "ledger")
    with pytest.raises(RouteInvalid, match="schema surelane has Surelane's own tables"):
        Routes({"public.*": "public.*", "a.*": "surelane.*"}, "surelane")


def test_what_routes_reach() -> None:
    routes = Routes({"public.a": "shop.b", "public.*": "copy.x_*"})
    assert routes.named() == [("shop", "b")]
    assert routes.reaches("shop", "b")
    assert routes.reaches("copy", "x_orders")
    assert not routes.reaches("copy", "orders")


@given(schema=names, table=names)
def test_the_identity_route_keeps_every_name(schema: str, table: str) -> None:
    assert Routes({"*.*": "*.*"}).target(schema, table) == (schema, table)


@given(schema=names, table=names, prefix=names)
def test_what_is_routed_is_reached(schema: str, table: str, prefix: str) -> None:
    routes = Routes({"*.*": f"*.{prefix}*"})
    assert routes.reaches(*(routes.target(schema, table) or ("", "")))
