"""What the configuration says of tables and columns: truncates, columns that are left out or renamed, declared keys."""

import datetime
from collections.abc import Iterator
from itertools import permutations

import pytest

from app.config.on_skip import OnSkip
from app.config.settings import CommitMode
from app.errors import TargetMismatch
from tests import messages as m
from tests.fix_bare_lane import MakeBareLane
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import LEFT_OUT, Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
PARENT = Table("parent", {"id": m.INT})
CHILD = Table("child", {"id": m.INT, "parent": m.INT}, constraints=("foreign key (parent) references parent",))
PERSON = Table("person", {"id": m.INT, "name": m.TEXT, "ssn": m.TEXT, "note": m.TEXT})
d = Debezium()


def flat(number: int, v: str = "x") -> Message:
    return d.create(FLAT, {"id": number, "v": v})


@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
def test_a_truncate_deletes_what_was_there_before_it(mode: CommitMode, target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    lane = bare_lane(mode=mode, tables={"on_truncate": "apply"})
    lane.apply([flat(1), flat(2)])
    record = lane.apply([flat(3), d.update(FLAT, {"id": 1, "v": "y"}), d.truncate(FLAT), flat(4), flat(1, "again")])
    assert target.rows("public.flat") == {(1,): {"id": 1, "v": "again"}, (4,): {"id": 4, "v": "x"}}
    assert (record.counts.consumed, record.counts.applied) == (5, 5)
    lane.apply([d.truncate(FLAT)])
    assert target.rows("public.flat") == {}


@pytest.mark.parametrize("order", list(permutations([PARENT, CHILD])))
def test_tables_truncated_together_go_in_an_order_that_their_keys_allow(
    order: tuple[Table, ...], target: Target, bare_lane: MakeBareLane
) -> None:
    target.create(PARENT)
    target.create(CHILD)
    lane = bare_lane(tables={"on_truncate": "apply"})
    lane.apply([d.create(PARENT, {"id": 1}), d.create(CHILD, {"id": 1, "parent": 1})])
    lane.apply([d.create(PARENT, {"id": 2}), *(d.truncate(table) for table in order), d.create(PARENT, {"id": 3})])
    assert target.execute("select id from parent") == [(3,)]
    assert target.execute("select id from child") == []


def test_a_reader_from_before_still_sees_the_rows(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    lane = bare_lane(tables={"on_truncate": "apply"})
    lane.apply([flat(1)])
    with target.engine.connect().execution_options(isolation_level="REPEATABLE READ") as reader:
        assert reader.exec_driver_sql("select 1").scalar() == 1
        lane.apply([d.truncate(FLAT)])
        assert reader.exec_driver_sql("select count(*) from flat").scalar() == 1


def test_entries_from_before_a_truncate_are_superseded(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table flat (id int primary key, v text check (v <> 'bad'))")
    lane = bare_lane(tables={"on_truncate": "apply"}, on_skip=OnSkip.CONTINUE)
    lane.apply([flat(1, "bad")])
    lane.apply([flat(2, "bad"), d.truncate(FLAT), flat(3, "bad"), flat(4)])
    states = target.execute("select state from surelane.quarantine order by id")
    assert [one.state for one in states] == ["superseded", "superseded", "quarantined"]


def test_a_truncate_that_is_ignored(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    record = bare_lane(tables={"on_truncate": "ignore"}).apply([flat(1), d.truncate(FLAT), flat(2)])
    assert sorted(target.rows("public.flat")) == [(1,), (2,)]
    assert (record.counts.applied, record.counts.filtered) == (2, 1)


def test_what_a_truncate_took_does_not_complete_a_later_change(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    lane = bare_lane(tables={"on_truncate": "apply"}, on_skip=OnSkip.CONTINUE)
    lane.apply([flat(1), d.truncate(FLAT), d.update(FLAT, {"id": 1, "v": LEFT_OUT})])
    assert target.rows("public.flat") == {}
    assert target.execute("select sqlstate from surelane.quarantine") == [("P0002",)]


def test_columns_are_left_out_and_renamed(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table person (nr int primary key, full_name text, note text, ssn text default 'none')")
    rule = {"exclude": ["ssn"], "rename": {"id": "nr", "name": "full_name"}}
    lane = bare_lane(tables={"columns": {"public.per*": rule}})
    row = {"id": 1, "name": "Ada", "ssn": "secret", "note": "a"}
    record = lane.apply(
        [d.create(PERSON, row), d.create(PERSON, {**row, "id": 2}), d.update(PERSON, {**row, "note": "b"})]
    )
    assert record.counts.compacted == 1
    lane.apply([d.delete(PERSON, {**row, "id": 2})])
    assert target.execute("select * from person") == [(1, "Ada", "b", "none")]


def test_only_some_columns_go_on(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table person (id int primary key, name text)")
    lane = bare_lane(tables={"columns": {"public.person": {"include": ["id", "name"]}}})
    lane.apply([d.create(PERSON, {"id": 1, "name": "Ada", "ssn": "secret", "note": "a"})])
    assert target.execute("select * from person") == [(1, "Ada")]


def test_a_name_that_an_excluded_column_had(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table person (id int primary key, note text)")
    rule = {"exclude": ["note", "ssn"], "rename": {"name": "note"}}
    bare_lane(tables={"columns": {"*.*": rule}}).apply(
        [d.create(PERSON, {"id": 1, "name": "A", "ssn": "s", "note": "n"})]
    )
    assert target.execute("select * from person") == [(1, "A")]


def test_unknown_columns_can_be_ignored(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table person (id int primary key, note text)")
    lane = bare_lane(tables={"unknown_column": "ignore"})
    lane.apply([d.create(PERSON, {"id": 1, "name": "Ada", "ssn": "secret", "note": "a"})])
    assert target.execute("select * from person") == [(1, "a")]


def test_a_column_that_is_added_by_hand_is_seen_by_a_lane_that_runs(
    target: Target, bare_lane: MakeBareLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.execute("create table person (id int primary key, note text)")
    lane = bare_lane(tables={"unknown_column": "ignore"})
    row = {"id": 1, "name": "Ada", "ssn": "secret", "note": "a"}
    lane.apply([d.create(PERSON, row)])
    target.execute("alter table person add name text")
    monkeypatch.setattr("app.apply.table_plans.LOOK_AGAIN_SECONDS", 0.0)
    lane.apply([d.update(PERSON, row)])
    assert target.execute("select id, name from person") == [(1, "Ada")]


@pytest.mark.parametrize("index", ["primary key (id)", ""])
def test_a_declared_key(index: str, target: Target, bare_lane: MakeBareLane) -> None:
    target.execute(f"create table log (id int not null, at int not null, v text{', ' if index else ''}{index})")
    target.execute("create unique index on log (at, id) include (v)")
    table = Table("log", {"id": m.INT, "at": m.INT, "v": m.TEXT}, key=("id", "at"))
    lane = bare_lane(tables={"keys": {"public.log": ["id", "at"]}})
    lane.apply([d.create(table, {"id": 1, "at": 1, "v": "a"}), d.update(table, {"id": 1, "at": 1, "v": "b"})])
    lane.apply([d.create(table, {"id": 2, "at": 1, "v": "c"}), d.delete(table, {"id": 1, "at": 1, "v": "b"})])
    assert target.execute("select * from log") == [(2, 1, "c")]


@pytest.mark.parametrize(
    "index",
    [
        "",
        "create index on log (id)",
        "create unique index on log (id) where v is null",
        "alter table log alter id drop not null, add unique (id)",
        "create unique index on log (id, v)",
    ],
)
def test_a_declared_key_that_nothing_keeps_unique(index: str, target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table log (id int not null, v text)")
    if index:
        target.execute(index)
    table = Table("log", {"id": m.INT, "v": m.TEXT})
    with pytest.raises(TargetMismatch, match="known by id, but nothing keeps that unique") as caught:
        bare_lane(tables={"keys": {"public.log": ["id"]}}).apply([d.create(table, {"id": 1, "v": "a"})])
    assert "create unique index on public.log (id)" in str(caught.value.hint)


@pytest.mark.parametrize("mode", list(CommitMode), ids=lambda mode: mode.value)
def test_through_the_whole_lane(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """With envelope: what a column means follows from its name at the source."""
    target.execute("create table person (id int primary key, born date, photo bytea)")
    table = Table("person", {"id": m.INT, "birthday": m.DATE, "picture": m.BYTEA, "ssn": m.TEXT})
    source = Debezium(envelope=True)
    rule = {"exclude": ["ssn"], "rename": {"birthday": "born", "picture": "photo"}}
    topic.send(_persons(source, table))
    lane(mode, target={"columns": {"public.person": rule}, "on_truncate": "apply"}).run_until_caught_up()
    assert target.execute("select id, born::text, encode(photo, 'hex') from person") == [(2, "1815-12-10", "00ff")]


def _persons(source: Debezium, table: Table) -> Iterator[Message]:
    row = {"birthday": datetime.date(1815, 12, 10), "picture": b"\x00\xff", "ssn": "x"}
    yield source.create(table, {"id": 1, **row})
    yield source.truncate(table)
    yield source.create(table, {"id": 2, **row})
