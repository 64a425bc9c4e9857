"""Keys that Postgres calls equal although they are written in two ways: 1.0 and 1.00, 'a' and 'A' of citext."""

from decimal import Decimal

import pytest

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
