"""Applying epochs to a real target: whatever the order of statements, the result is that of the messages' order.

Without Kafka and Spark, so that many histories and many ways to cut them into epochs can be tried.
"""

import dataclasses
import datetime
import random
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

import app.apply.staging
from app.apply.order_plan import OrderPlan
from app.errors import BadMessage, TargetMismatch
from tests import messages as m
from tests.fix_bare_lane import MakeBareLane
from tests.fix_target import SCHEMA, Target
from tests.messages import Debezium, Message, Table
from tests.workload import TABLES, Shop

PARENT = Table("parent", {"id": m.INT, "name": m.TEXT}, constraints=("unique (name)",))
CHILD = Table(
    "child", {"id": m.INT, "parent": m.INT, "note": m.TEXT}, constraints=("foreign key (parent) references parent",)
)
FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9), cuts=st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_any_history_cut_anywhere_equals_the_oracle(
    seed: int, cuts: list[int], target: Target, bare_lane: MakeBareLane
) -> None:
    """An epoch may even begin or end inside a transaction of the source."""
    for table in TABLES:
        target.execute(f"drop table if exists {table.quoted} cascade")
    target.create(*TABLES)
    lane, messages = bare_lane(), Shop(seed).messages(sum(cuts))
    for cut in cuts:
        epoch, messages = messages[:cut], messages[cut:]
        record = lane.apply(epoch, shuffle=seed)
        assert record.counts.consumed == len(epoch)
        lane.check()


def p(number: int, name: str | None = None) -> dict[str, object]:
    """A row of PARENT."""
    return {"id": number, "name": name or f"name {number}"}


def c(number: int, parent: int | None, note: str = "") -> dict[str, object]:
    """A row of CHILD."""
    return {"id": number, "parent": parent, "note": note}


d = Debezium()

#: name: (messages before, messages of the epoch, the plan they need)
CASES: dict[str, tuple[list[Message], list[Message], OrderPlan]] = {
    "nothing for the target": (
        [],
        [d.begin(), d.end(), d.heartbeat(), d.logical(), d.tombstone(PARENT, p(1))],
        OrderPlan.NONE,
    ),
    "parents with their children": (
        [],
        [d.create(PARENT, p(1)), d.create(CHILD, c(1, 1)), d.create(PARENT, p(2)), d.create(CHILD, c(2, 2))],
        OrderPlan.DELETES_FIRST,
    ),
    "a child's parent made last": (
        [d.create(PARENT, p(1)), d.create(CHILD, c(1, 1))],
        [d.create(PARENT, p(2)), d.update(CHILD, c(1, 2)), d.update(PARENT, p(2, "renamed"))],
        OrderPlan.DELETES_FIRST,
    ),
    "children go with their parents": (
        [d.create(PARENT, p(1)), d.create(CHILD, c(1, 1))],
        [d.delete(CHILD, c(1, 1)), d.tombstone(CHILD, c(1, 1)), d.delete(PARENT, p(1))],
        OrderPlan.DELETES_FIRST,
    ),
    "a unique value is freed and taken": (
        [d.create(PARENT, p(1, "x"))],
        [d.delete(PARENT, p(1, "x")), d.create(PARENT, p(2, "x"))],
        OrderPlan.DELETES_FIRST,
    ),
    "a key changes": (
        [d.create(PARENT, p(1, "x"))],
        [*d.rekey(PARENT, p(1, "x"), p(2, "x")), d.update(PARENT, p(2, "y"))],
        OrderPlan.DELETES_FIRST,
    ),
    "children move away before their parent goes": (
        [d.create(PARENT, p(1)), d.create(PARENT, p(2)), d.create(CHILD, c(1, 1))],
        [d.update(CHILD, c(1, 2)), d.delete(PARENT, p(1))],
        OrderPlan.UPSERTS_FIRST,
    ),
    "a parent's key changes and its children follow": (
        [d.create(PARENT, p(1, "x")), d.create(CHILD, c(1, 1))],
        [d.create(PARENT, p(2, "y")), d.update(CHILD, c(1, 2)), d.delete(PARENT, p(1, "x"))],
        OrderPlan.UPSERTS_FIRST,
    ),
    "unique values are swapped": (
        [d.create(PARENT, p(1, "x")), d.create(PARENT, p(2, "y"))],
        [d.update(PARENT, p(1, "waits")), d.update(PARENT, p(2, "x")), d.update(PARENT, p(1, "y"))],
        OrderPlan.FAITHFUL,
    ),
    "children move away and the new parent takes the old one's name": (
        [d.create(PARENT, p(1, "x")), d.create(CHILD, c(1, 1)), d.create(PARENT, p(2, "y"))],
        [d.update(CHILD, c(1, 2)), d.delete(PARENT, p(1, "x")), d.create(PARENT, p(3, "x"))],
        OrderPlan.FAITHFUL,
    ),
    "a row comes and goes": (
        [],
        [d.create(PARENT, p(1)), d.delete(PARENT, p(1)), d.tombstone(PARENT, p(1))],
        OrderPlan.DELETES_FIRST,
    ),
    "a row goes and comes back": (
        [d.create(PARENT, p(1, "x"))],
        [d.delete(PARENT, p(1, "x")), d.create(PARENT, p(1, "y")), d.update(PARENT, p(1, "z"))],
        OrderPlan.DELETES_FIRST,
    ),
    "updates and deletes of rows the target does not have": (
        [],
        [d.update(PARENT, p(1)), d.delete(PARENT, p(2)), d.read(PARENT, p(3))],
        OrderPlan.DELETES_FIRST,
    ),
}


@pytest.mark.costly(5)
@pytest.mark.parametrize("case", CASES)
def test_the_fastest_plan_that_the_target_takes_is_used(case: str, target: Target, bare_lane: MakeBareLane) -> None:
    before, epoch, plan = CASES[case]
    target.create(PARENT, CHILD)
    lane = bare_lane()
    lane.apply(before)
    record = lane.apply(epoch)
    lane.check()
    assert record.plan == plan


def test_what_the_counts_say(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(PARENT)
    counts = (
        bare_lane()
        .apply([d.begin(), d.create(PARENT, p(1)), d.update(PARENT, p(1, "b")), d.create(PARENT, p(2)), d.end()])
        .counts
    )
    assert (counts.consumed, counts.applied, counts.compacted, counts.filtered) == (5, 2, 1, 2)


def test_tables_that_point_at_each_other(target: Target, bare_lane: MakeBareLane) -> None:
    """Each needs the other's row first; only the source's order is possible."""
    target.create(PARENT, CHILD)
    target.execute("alter table parent add column favourite int references child")
    table = Table("parent", {**PARENT.columns, "favourite": m.INT})
    lane = bare_lane()
    first, last = {**p(1), "favourite": None}, {**p(1), "favourite": 5}
    record = lane.apply([d.create(table, first), d.create(CHILD, c(5, 1)), d.update(table, last)])
    lane.check()
    assert record.plan == OrderPlan.FAITHFUL


def test_a_tree_in_one_table(target: Target, bare_lane: MakeBareLane) -> None:
    tree = Table("tree", {"id": m.INT, "up": m.INT}, constraints=("foreign key (up) references tree",))
    target.create(tree)
    lane = bare_lane()
    lane.apply([d.create(tree, {"id": i, "up": i - 1 or None}) for i in range(1, 9)])
    lane.check()
    lane.apply([d.update(tree, {"id": 8, "up": 1}), *(d.delete(tree, {"id": i, "up": i - 1}) for i in range(7, 1, -1))])
    lane.check()


def test_a_deferred_constraint_of_the_target_is_checked_at_the_epochs_end(
    target: Target, bare_lane: MakeBareLane
) -> None:
    child = Table(
        "child", CHILD.columns, constraints=("foreign key (parent) references parent deferrable initially deferred",)
    )
    target.create(PARENT, child)
    lane = bare_lane()
    lane.apply([d.create(child, c(1, 1)), d.create(PARENT, p(1))])
    lane.check()


def test_a_cascade_of_the_target_takes_nothing_that_the_source_kept(target: Target, bare_lane: MakeBareLane) -> None:
    """Deleting the parent first would take along the child, which comes back, and the grandchild, which does not."""
    child = Table("child", CHILD.columns, constraints=("foreign key (parent) references parent on delete cascade",))
    grandchild = Table(
        "grandchild",
        {"id": m.INT, "child": m.INT},
        constraints=("foreign key (child) references child on delete cascade",),
    )
    target.create(PARENT, child, grandchild)
    lane = bare_lane()
    lane.apply(
        [
            d.create(PARENT, p(1)),
            d.create(PARENT, p(2)),
            d.create(child, c(1, 1)),
            d.create(grandchild, {"id": 1, "child": 1}),
        ]
    )
    lane.apply([d.update(child, c(1, 2)), d.delete(PARENT, p(1))])
    lane.check()


def test_changes_without_message_key_keep_their_order(target: Target, bare_lane: MakeBareLane) -> None:
    """Debezium writes no key for a source table without one; the target's key comes from the row."""
    target.create(FLAT)
    lane = bare_lane()
    row = {"id": 1, "v": "a"}
    lane.apply([d.keyless("c", FLAT, row), d.delete(FLAT, row, keyed=False)])
    lane.check()
    lane.apply(
        [d.keyless("c", FLAT, row), d.keyless("u", FLAT, {"id": 1, "v": "b"}), d.create(FLAT, {"id": 2, "v": "c"})]
    )
    lane.check()
    lane.apply([d.delete(FLAT, row, keyed=False), d.keyless("c", FLAT, {"id": 1, "v": "d"})])
    lane.check()


def test_a_message_key_that_several_rows_share_loses_no_row(target: Target, bare_lane: MakeBareLane) -> None:
    """`message.key.columns` may name columns that are no key of the table, to keep related rows in one partition."""
    by_parent = Table("child", CHILD.columns, key=("parent",))
    target.create(PARENT, Table("child", CHILD.columns))
    target.execute("insert into parent values (7, 'seven')")
    bare_lane().apply([d.create(by_parent, c(1, 7)), d.create(by_parent, c(2, 7))])
    assert sorted(target.rows("public.child")) == [(1,), (2,)]


def test_a_message_key_with_more_columns_than_the_targets(target: Target, bare_lane: MakeBareLane) -> None:
    """As from a partitioned source table, whose key has to contain the partition's column."""
    target.create(FLAT)
    dated = Table("flat", FLAT.columns, key=("id", "v"))
    lane = bare_lane()
    lane.apply([d.create(dated, {"id": 1, "v": "january"})])
    lane.apply(
        [*d.rekey(dated, {"id": 1, "v": "january"}, {"id": 1, "v": "february"}), d.create(dated, {"id": 2, "v": ""})]
    )
    assert target.text_rows("public.flat") == ["(1,february)", '(2,"")']


def test_a_message_key_that_is_no_row(target: Target, bare_lane: MakeBareLane) -> None:
    """A transformation of the connector may leave a bare value of it."""
    target.create(FLAT)
    lane = bare_lane()
    keys = [b"1", b'"x"', b"x", b"[1]", b""]
    lane.apply(
        [dataclasses.replace(d.create(FLAT, {"id": number, "v": "a"}), key=key) for number, key in enumerate(keys)]
    )
    lane.check()


def test_columns_come_and_go_in_the_middle_of_an_epoch(target: Target, bare_lane: MakeBareLane) -> None:
    wide = Table("flat", {"id": m.INT, "v": m.TEXT, "w": m.numeric(8, 2)})
    target.create(wide)
    lane = bare_lane()
    lane.apply(
        [
            d.create(FLAT, {"id": 1, "v": "old"}),
            d.create(FLAT, {"id": 2, "v": "old"}),
            d.update(wide, {"id": 1, "v": "new", "w": Decimal("1.50")}),
            d.create(wide, {"id": 3, "v": "new", "w": None}),
        ]
    )
    rows = target.rows("public.flat")
    assert rows[1,] == {"id": 1, "v": "new", "w": Decimal("1.50")}
    assert rows[2,] == {"id": 2, "v": "old", "w": None}


def test_columns_that_only_the_target_has_keep_their_values(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute(
        "create table flat (id int primary key, v text, own text default 'default',"
        " twice text generated always as (v || v) stored)"
    )
    lane = bare_lane()
    lane.apply([d.create(FLAT, {"id": 1, "v": "a"}), d.create(FLAT, {"id": 2, "v": "b"})])
    target.execute("update flat set own = 'mine' where id = 1")
    lane.apply([d.update(FLAT, {"id": 1, "v": "c"})])
    assert target.text_rows("public.flat") == ["(1,c,mine,cc)", "(2,b,default,bb)"]


def test_a_generated_identity_and_a_generated_column_of_the_source(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute(
        "create table flat (id int generated always as identity primary key, v text,"
        " twice text generated always as (v || v) stored)"
    )
    table = Table("flat", {"id": m.INT, "v": m.TEXT, "twice": m.TEXT})
    lane = bare_lane()
    lane.apply(
        [d.create(table, {"id": 7, "v": "a", "twice": "aa"}), d.update(table, {"id": 7, "v": "b", "twice": "bb"})]
    )
    lane.check()


def test_a_table_that_is_nothing_but_its_key(target: Target, bare_lane: MakeBareLane) -> None:
    pair = Table("pair", {"a": m.INT, "b": m.TEXT}, key=("a", "b"))
    target.create(pair)
    lane = bare_lane()
    lane.apply([d.create(pair, {"a": 1, "b": "x"}), d.create(pair, {"a": 1, "b": "y"})])
    lane.apply([d.create(pair, {"a": 1, "b": "x"}), d.delete(pair, {"a": 1, "b": "y"})])
    lane.check()


def test_names_that_need_quotes(target: Target, bare_lane: MakeBareLane) -> None:
    columns = {"Id": m.INT, 'a "quoted" %s name': m.TEXT, "order": m.TEXT, "surelane_line": m.DATE}
    table = Table('Weird % "Table"', columns, key=("Id",), schema="Sch%ema")
    target.create_schema("Sch%ema")
    target.execute(
        'create table "Sch%ema"."Weird % ""Table""" ("Id" int primary key, "a ""quoted"" %s name" text,'
        ' "order" text, surelane_line date)'
    )
    row = {"Id": 1, 'a "quoted" %s name': "100 % :x %(y)s", "order": "'", "surelane_line": datetime.date(2024, 2, 29)}
    lane = bare_lane(routes={"*.*": "*.*"})
    lane.apply([d.create(table, row), d.create(table, {**row, "Id": 2}), d.delete(table, {**row, "Id": 2})])
    found = target.execute('select * from "Sch%ema"."Weird % ""Table"""')
    assert [tuple(one) for one in found] == [tuple(row.values())]


def test_columns_with_names_of_the_lanes_own(target: Target, bare_lane: MakeBareLane) -> None:
    """Staging tables have columns of such names, too."""
    names = ("surelane_ordinal", "surelane_ordinal_", *(f"surelane_out_{number}" for number in range(6)))
    table = Table("flat", {"id": m.INT, **dict.fromkeys(names, m.TEXT)})
    wider = dataclasses.replace(table, columns={"gone": m.TEXT, **table.columns})
    target.create(table)
    lane = bare_lane(tables={"unknown_column": "ignore"})
    one, two, three = ({"id": number, **dict.fromkeys(names, f"v{number}")} for number in range(3))
    lane.apply([d.create(table, one), d.create(wider, {"gone": "x", **two})])
    lane.apply([*d.rekey(table, one, three), d.delete(table, two), d.create(table, one)])
    assert target.rows("public.flat") == {(0,): one, (2,): three}


@pytest.mark.parametrize("ignored", [False, True])
def test_no_route_leads_to_the_lanes_own_tables(ignored: bool, target: Target, bare_lane: MakeBareLane) -> None:
    """A source may have such a schema, being a target itself."""
    ledger = Table("ledger", {"lane": m.TEXT}, key=("lane",), schema=SCHEMA)
    lane = bare_lane({"*.*": "*.*"}, ignore_unknown=ignored)
    if ignored:
        assert lane.apply([d.delete(ledger, {"lane": "x"})]).counts.filtered == 1
    else:
        with pytest.raises(TargetMismatch, match="schema surelane has Surelane's own tables"):
            lane.apply([d.delete(ledger, {"lane": "x"})])


def test_a_partitioned_target(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table flat (id int primary key, v text) partition by range (id)")
    target.execute("create table flat_low partition of flat for values from (0) to (10)")
    target.execute("create table flat_high partition of flat for values from (10) to (20)")
    lane = bare_lane()
    lane.apply([d.create(FLAT, {"id": number, "v": "a"}) for number in range(20)])
    lane.apply([d.update(FLAT, {"id": 3, "v": "b"}), *d.rekey(FLAT, {"id": 4, "v": "a"}, {"id": 4, "v": "c"})])
    lane.check()


def test_a_row_that_a_trigger_drops_stops_the_lane(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    target.execute("create function drop_it() returns trigger language plpgsql as 'begin return null; end'")
    target.execute("create trigger t before insert on flat for each row when (new.id = 2) execute function drop_it()")
    lane = bare_lane()
    with pytest.raises(TargetMismatch, match=r"public\.flat: 2 rows were sent, 1 were taken"):
        lane.apply([d.create(FLAT, {"id": 1, "v": "a"}), d.create(FLAT, {"id": 2, "v": "a"})])
    assert target.rows("public.flat") == {}


@pytest.mark.costly(4)
@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        (d.truncate(FLAT), TargetMismatch, ["public.flat", "truncates the table", "target.on_truncate"]),
        (d.create(Table("gone", FLAT.columns), {"id": 1, "v": ""}), TargetMismatch, ["public.gone", "does not exist"]),
        (d.create(Table("flat", FLAT.columns, schema="x"), {"id": 1, "v": ""}), TargetMismatch, ["x.flat", "no route"]),
        (
            d.create(Table("keyless", FLAT.columns), {"id": 1, "v": ""}),
            TargetMismatch,
            ["no primary key", "alter table"],
        ),
        (
            d.create(Table("flat", {**FLAT.columns, "more": m.INT}), {"id": 1, "v": "", "more": 1}),
            TargetMismatch,
            ["has no column more", 'alter table "public"."flat" add column if not exists "more" ...'],
        ),
        (
            d.create(Table("flat", {"v": m.TEXT}, key=("v",)), {"v": "x"}),
            TargetMismatch,
            ["key column id", "not in the message"],
        ),
        (d.create(FLAT, {"id": 2**31, "v": "x"}), BadMessage, ["out of range", "22003"]),
        (d.create(FLAT, {"id": 1, "v": "\0"}), BadMessage, ["0x00", "22021"]),
        (d.create(FLAT, {"id": 1, "v": None}), BadMessage, ["not-null", "23502"]),
        (d.create(FLAT, {"id": 1, "v": "x" * 11}), BadMessage, ["too long", "22001"]),
    ],
)
def test_what_cannot_be_applied_is_named(
    message: Message, error: type[Exception], words: list[str], target: Target, bare_lane: MakeBareLane
) -> None:
    """Lane, position and cause; nothing of the epoch is left, and the lane goes on where it was."""
    target.execute("create table flat (id int primary key, v varchar(10) not null)")
    target.execute("create table keyless (id int, v text)")
    lane = bare_lane()
    good = d.create(FLAT, {"id": 5, "v": "good"})
    with pytest.raises(error) as refused:
        lane.apply([good, d.begin(), message, good])
    for word in [lane.name, "made-up[0]@2", "what to do", *words]:
        assert word in str(refused.value)
    assert target.rows("public.flat") == {}
    lane.apply([good])
    lane.check()


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("create index on flat (v)", ["index row", "54000"]),
        ("alter table flat add check (length(v) < 9)", ["check constraint", "23514"]),
        ("alter table flat add constraint x exclude (length(v) with =) where (length(v) > 9)", ["exclusion", "23P01"]),
        (
            "create function no() returns trigger language plpgsql as"
            " $$ begin if length(new.v) > 9 then raise 'too much'; end if; return new; end $$;"
            " create trigger t before insert on flat for each row execute function no()",
            ["too much", "P0001"],
        ),
    ],
)
def test_whatever_of_the_target_refuses_a_row_the_message_is_named(
    ddl: str, says: list[str], target: Target, bare_lane: MakeBareLane
) -> None:
    target.create(FLAT)
    target.execute(ddl)
    target.execute("insert into flat values (0, :long)", long="-" * 8)
    if "exclusion" in says:
        target.execute("insert into flat values (9, :long)", long="-" * 20_000)
    lane = bare_lane()
    large = "".join(random.Random(1).choices("0123456789abcdef", k=20_000))
    with pytest.raises(BadMessage) as refused:
        lane.apply([d.create(FLAT, {"id": 1, "v": "a"}), d.create(FLAT, {"id": 2, "v": large})])
    for word in ["made-up[0]@1 of table public.flat", *says]:
        assert word in str(refused.value)
    assert (1,) not in target.rows("public.flat")


def test_routes_and_tables_that_are_left_out(target: Target, bare_lane: MakeBareLane) -> None:
    target.create_schema("copy")
    target.execute("create table copy.flat_2 (id int primary key, v text)")
    lane = bare_lane(routes={"public.flat": "copy.*_2".replace("*", "flat")}, ignore_unknown=True)
    record = lane.apply([d.create(FLAT, {"id": 1, "v": "a"}), d.create(PARENT, p(1))])
    assert target.text_rows("copy.flat_2") == ["(1,a)"]
    assert (record.counts.applied, record.counts.filtered) == (1, 1)


@pytest.mark.parametrize("message", [d.truncate(PARENT), d.delete(PARENT, p(1), keyed=False)])
def test_nothing_about_a_table_that_is_left_out_is_refused(
    message: Message, target: Target, bare_lane: MakeBareLane
) -> None:
    target.create(FLAT)
    for routes in ({"public.flat": "public.flat"}, {"public.*": "public.*"}):
        assert bare_lane(routes=routes, ignore_unknown=True).apply([message]).counts.filtered == 1


def test_a_lane_leaves_the_staging_tables_of_lanes_with_longer_names_alone(
    target: Target, bare_lane: MakeBareLane
) -> None:
    target.create(FLAT, PARENT)
    short, long = "a" * 40, "a" * 40 + "_" + "b" * 22
    running = bare_lane(name=long)
    running.apply([d.create(FLAT, {"id": 1, "v": "a"})])
    bare_lane(name=short).apply([d.create(PARENT, p(1)), d.delete(PARENT, p(1))])
    running.apply([d.create(FLAT, {"id": 2, "v": "a"}), d.create(PARENT, p(2)), d.delete(PARENT, p(2))])
    running.check()


def test_rows_are_written_in_the_order_of_their_keys(target: Target, bare_lane: MakeBareLane) -> None:
    """So that neighbours in the index are written together."""
    target.create(FLAT)
    numbers = random.Random(1).sample(range(5000), 2000)
    lane = bare_lane()
    lane.apply([d.create(FLAT, {"id": number, "v": "new"}) for number in numbers])
    lane.check()
    assert [number for (number,) in target.execute("select id from flat order by ctid")] == sorted(numbers)


def test_staging_leaves_nothing_visible(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    lane = bare_lane()
    lane.apply([d.create(FLAT, {"id": 1, "v": "a"})])
    lane.apply([d.delete(FLAT, {"id": 1, "v": "a"})])
    found = target.execute("select c.oid::regclass::text from pg_class c where relpersistence = 'u' and relkind = 'r'")
    assert found
    for (staging,) in found:
        assert target.execute(f"select * from {staging}") == []


def test_staging_takes_long_rows_as_they_are(target: Target, bare_lane: MakeBareLane) -> None:
    """Nothing of what a page takes is moved out of a staging table's row, and longer ones arrive, too."""
    target.create(FLAT)
    lane, chance = bare_lane(), random.Random(1)
    moved_out = "select sum(pg_relation_size(reltoastrelid)) from pg_class where relpersistence = 'u' and relkind = 'r'"
    for number, (length, whole) in enumerate(((7_000, True), (200_000, False))):
        lane.apply([d.create(FLAT, {"id": number, "v": chance.randbytes(length // 2).hex()})])
        assert (target.execute(moved_out)[0][0] == 0) == whole
    lane.check()


def test_the_space_of_staging_is_given_back(
    target: Target, bare_lane: MakeBareLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between epochs; while another session's old snapshot needs the dead rows, once it is too much."""
    target.create(FLAT)
    lane, many = bare_lane(), range(2_000)
    monkeypatch.setattr(app.apply.staging, "RECLAIM_AFTER_BYTES", 0)

    def staged() -> int:
        lane.apply([d.update(FLAT, {"id": number, "v": "a" * 100}) for number in many])
        for value in "bcd":  # a thread gives back, what it cannot is given back by the next epoch but one
            lane.apply([d.update(FLAT, {"id": 1, "v": value})])
        sizes = "select max(pg_relation_size(oid)) from pg_class where relpersistence = 'u' and relkind = 'r'"
        return target.execute(sizes)[0][0]

    assert staged() < 100_000
    with target.engine.connect().execution_options(isolation_level="REPEATABLE READ") as reader:
        reader.execute(text("select txid_current()"))
        assert staged() > 200_000
        monkeypatch.setattr(app.apply.staging, "KEEP_BYTES", 0)
        assert staged() < 100_000
    lane.check()
