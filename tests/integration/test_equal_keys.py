"""Keys that Postgres calls equal although they are written in two ways: 1.0 and 1.00, 'a' and 'A' of citext."""

from decimal import Decimal

import pytest

from app.config.on_skip import OnSkip
from tests import messages as m
from tests.fix_bare_lane import MakeBareLane
from tests.fix_target import Target
from tests.messages import Debezium, Table, Type

CITEXT = Type(sql="citext", schema={"type": "string"})
LENIENT = Type(sql="text collate lenient", schema={"type": "string"})
d = Debezium()


@pytest.mark.parametrize(
    ("kind", "old", "new", "text"),
    [
        (m.NUMERIC, Decimal("1.0"), Decimal("1.00"), "1.00"),
        (CITEXT, "a", "A", "A"),
        (m.DOUBLE, 0.0, -0.0, "-0"),
        (LENIENT, "a", "A", "A"),
    ],
    ids=["numeric", "citext", "double", "collation"],
)
@pytest.mark.parametrize("action", ["cascade", "no action"])
def test_a_key_that_is_written_in_another_way(
    kind: Type, old: object, new: object, text: str, action: str, target: Target, bare_lane: MakeBareLane
) -> None:
    """It comes as a delete and an insert, and the row has to stay."""
    target.execute("create extension if not exists citext")
    target.execute("create collation lenient (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    table = Table("thing", {"id": kind, "v": m.TEXT})
    child = Table(
        "child", {"id": m.INT, "thing": kind}, constraints=(f"foreign key (thing) references thing on delete {action}",)
    )
    target.create(table, child)
    lane = bare_lane()
    lane.apply([d.create(table, {"id": old, "v": "x"})])
    lane.apply(d.rekey(table, {"id": old, "v": "x"}, {"id": new, "v": "y"}))
    assert target.execute("select id::text, v from thing") == [(text, "y")]


@pytest.mark.parametrize("action", ["on delete cascade", "on update cascade", "on delete set null", ""])
def test_children_stay_with_a_row_whose_key_is_written_in_another_way(
    action: str, target: Target, bare_lane: MakeBareLane
) -> None:
    """At the source nothing happens to them, so no message brings them back."""
    table = Table("thing", {"id": m.NUMERIC, "v": m.TEXT})
    child = Table(
        "child", {"id": m.INT, "thing": m.NUMERIC}, constraints=(f"foreign key (thing) references thing {action}",)
    )
    target.create(table, child)
    lane = bare_lane()
    lane.apply([d.create(table, {"id": Decimal("1.0"), "v": "x"}), d.create(child, {"id": 7, "thing": Decimal("1.0")})])
    lane.apply(d.rekey(table, {"id": Decimal("1.0"), "v": "x"}, {"id": Decimal("1.00"), "v": "y"}))
    assert target.execute("select id::text, v from thing") == [("1.00", "y")]
    assert [row.id for row in target.execute("select id from child where thing = 1")] == [7]


@pytest.mark.parametrize("refused", [False, True], ids=["whole", "in parts"])
def test_a_changed_key_takes_its_children_along(refused: bool, target: Target, bare_lane: MakeBareLane) -> None:
    """The source changes the key first, and its children afterwards; the order of these changes is needed."""
    table = Table("thing", {"id": m.INT, "v": m.TEXT, "big": m.TEXT})
    child = Table(
        "child", {"id": m.INT, "thing": m.INT}, constraints=("foreign key (thing) references thing on update cascade",)
    )
    target.create(table, child)
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    lane.apply([d.create(table, {"id": 1, "v": "x", "big": "large"}), d.create(child, {"id": 7, "thing": 1})])
    changes = [
        *d.rekey(table, {"id": 1}, {"id": 2, "v": "y", "big": m.LEFT_OUT}),
        d.update(child, {"id": 7, "thing": 2}),
        *d.rekey(table, {"id": 2}, {"id": 3, "v": "z", "big": m.LEFT_OUT}),
        d.update(child, {"id": 7, "thing": 3}),
        *([d.create(child, {"id": 8, "thing": 99})] if refused else []),
    ]
    lane.apply(changes)
    assert target.execute("select id, v, big from thing") == [(3, "z", "large")]
    assert target.execute("select id, thing from child") == [(7, 3)]


def test_a_row_that_has_its_new_key_by_now(target: Target, bare_lane: MakeBareLane) -> None:
    """At least once: what was applied is applied again, in the order of the changes."""
    table = Table("thing", {"id": m.NUMERIC, "v": m.TEXT})
    target.create(table)
    changes = [
        *d.rekey(table, {"id": Decimal("1.0"), "v": "x"}, {"id": Decimal("2"), "v": "y"}),
        d.create(table, {"id": Decimal("1"), "v": "another"}),
        *d.rekey(table, {"id": Decimal("2"), "v": "y"}, {"id": Decimal("2.0"), "v": "z"}),
    ]
    target.execute("insert into thing values (1.0, 'x')")
    target.execute("create table child (thing numeric references thing on delete cascade)")
    for _ in range(2):
        bare_lane().apply(changes)
    assert target.text_rows("public.thing") == ["(1,another)", "(2.0,z)"]


def test_a_key_that_only_an_insert_may_write(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute(
        "create table flat (id int generated always as identity primary key,"
        " n int generated always as identity, v text)"
    )
    target.execute("create table child (flat int references flat deferrable initially deferred)")
    flat = Table("flat", {"id": m.INT, "n": m.INT, "v": m.TEXT})
    lane = bare_lane()
    lane.apply([d.create(flat, {"id": 1, "n": 5, "v": "x"})])
    lane.apply([d.update(flat, {"id": 1, "n": 5, "v": "y"}), *d.rekey(flat, {"id": 1}, {"id": 2, "n": 5, "v": "z"})])
    lane.check()
