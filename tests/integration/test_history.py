"""Versions of rows, and rows that stay when they are deleted, as Postgres computes both of the same changes."""

from collections.abc import Mapping
from typing import Any

import pytest

from app.apply.order_plan import OrderPlan
from app.config.on_skip import OnSkip
from app.config.settings import CommitMode
from app.errors import TargetMismatch
from tests import messages as m
from tests.commands import command
from tests.fix_bare_lane import MakeBareLane
from tests.fix_lane import MODES, MakeLane
from tests.fix_target import OWNER, Target
from tests.fix_topic import Topic
from tests.messages import LEFT_OUT, Debezium, Message, Table
from tests.queries import ORDERS, Shop
from tools.devstack.postgres import SUPERUSER

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
HISTORY: Mapping[str, Any] = {"history": {"public.flat": {"table": "reports.flat_history"}}}
SOFT: Mapping[str, Any] = {"soft_delete": {"public.flat": {"column": "deleted_at"}}}
VERSIONS = "select id, v, opened_offset, closed_offset, valid_from <= coalesce(valid_to, valid_from) from"
d = Debezium()


@pytest.fixture(autouse=True)
def schema(target: Target) -> None:
    """Where the lane may make tables."""
    target.create_schema("reports")
    target.execute(f"grant create on schema reports to {OWNER}")


def flat(number: int, v: str = "x") -> Message:
    return d.create(FLAT, {"id": number, "v": v})


def versions(target: Target) -> list[tuple[Any, ...]]:
    found = target.execute(f"{VERSIONS} reports.flat_history order by opened_offset")
    assert all(tuple(row)[4] for row in found), "no version ends before it begins"
    return [tuple(row)[:4] for row in found]


def alive(target: Target) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in target.execute("select id, v from flat where deleted_at is null order by 1")]


@pytest.mark.parametrize("mode", MODES)
def test_versions(mode: CommitMode, target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    lane = bare_lane(mode=mode, tables={**HISTORY, "on_truncate": "apply"})
    lane.apply([flat(1), flat(2)])  # 0, 1
    lane.apply([d.update(FLAT, {"id": 1, "v": "y"}), d.delete(FLAT, {"id": 2, "v": "x"})])  # 2, 3
    assert versions(target) == [(1, "x", 0, 2), (2, "x", 1, 3), (1, "y", 2, None)]
    # of several changes in one epoch the last one makes a version
    lane.apply([d.update(FLAT, {"id": 1, "v": "a"}), d.update(FLAT, {"id": 1, "v": "b"}), flat(2, "again")])  # 4 to 6
    assert versions(target)[2:] == [(1, "y", 2, 5), (1, "b", 5, None), (2, "again", 6, None)]
    lane.apply(d.rekey(FLAT, {"id": 1, "v": "b"}, {"id": 7, "v": "b"}))  # 7 to 9
    assert versions(target)[3:] == [(1, "b", 5, 7), (2, "again", 6, None), (7, "b", 9, None)]
    lane.reopen_without_report()
    lane.replay()
    assert versions(target)[3:] == [(1, "b", 5, 7), (2, "again", 6, None), (7, "b", 9, None)]
    lane.apply([d.truncate(FLAT), flat(8)])  # 10, 11
    assert [row[:3] for row in versions(target)[4:]] == [(2, "again", 6), (7, "b", 9), (8, "x", 11)]
    open_ones = target.execute("select id from reports.flat_history where valid_to is null")
    assert open_ones == [(8,)]


@pytest.mark.parametrize("mode", MODES)
def test_an_epoch_in_parts(mode: CommitMode, target: Target, bare_lane: MakeBareLane) -> None:
    """A refused message has the epoch applied in parts: of several changes still the last one makes a version."""
    target.create(FLAT)
    target.execute("alter table flat add check (v <> 'never')")
    lane = bare_lane(mode=mode, on_skip=OnSkip.CONTINUE, tables=HISTORY)
    lane.apply([flat(1), flat(2), flat(3)])  # 0 to 2
    changes = [d.update(FLAT, {"id": 1, "v": "a"}), d.delete(FLAT, {"id": 2, "v": "x"}), flat(9, "never")]  # 3 to 5
    changes += [flat(2, "again"), d.update(FLAT, {"id": 1, "v": "b"}), flat(4), d.delete(FLAT, {"id": 4, "v": "x"})]
    record = lane.apply([*changes, d.delete(FLAT, {"id": 3, "v": "x"})])  # 6 to 10
    assert (record.plan, record.counts.quarantined) == (OrderPlan.NARROWED, 1)
    expected = [(1, "x", 0, 7), (2, "x", 1, 6), (3, "x", 2, 10), (2, "again", 6, None), (1, "b", 7, None)]
    assert versions(target) == expected
    lane.reopen_without_report()
    lane.replay()
    assert versions(target) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_version_that_is_refused(mode: CommitMode, target: Target, bare_lane: MakeBareLane) -> None:
    """By a constraint of the history: its message is skipped, and the rest is applied."""
    target.create(FLAT)
    lane = bare_lane(mode=mode, on_skip=OnSkip.CONTINUE, tables=HISTORY)
    lane.apply([flat(1)])  # 0
    target.execute("alter table reports.flat_history add check (v <> 'never')")
    record = lane.apply([flat(2), flat(3, "never"), d.update(FLAT, {"id": 1, "v": "y"})])  # 1 to 3
    assert (record.plan, record.counts.quarantined) == (OrderPlan.NARROWED, 1)
    assert versions(target) == [(1, "x", 0, 3), (2, "x", 1, None), (1, "y", 3, None)]
    assert target.execute("select id from flat order by 1") == [(1,), (2,)]


@pytest.mark.parametrize("mode", MODES)
def test_every_change(mode: CommitMode, target: Target, bare_lane: MakeBareLane) -> None:
    """Applied again, too: a version is closed by the change that closed it."""
    target.create(FLAT)
    every = {"history": {"public.flat": {"table": "reports.flat_history", "every_change": True}}}
    lane = bare_lane(mode=mode, tables={**every, "on_truncate": "apply"})
    record = lane.apply([flat(1), flat(2)])  # 0, 1
    assert record.plan == OrderPlan.DELETES_FIRST, "nothing to keep in its place"
    changes = [d.update(FLAT, {"id": 1, "v": "a"}), d.update(FLAT, {"id": 1, "v": "b"})]  # 2, 3
    changes += [d.delete(FLAT, {"id": 1, "v": "b"}), flat(1, "c"), d.update(FLAT, {"id": 2, "v": "y"})]  # 4 to 6
    record = lane.apply(changes)
    assert record.plan == OrderPlan.FAITHFUL
    expected = [(1, "x", 0, 2), (2, "x", 1, 6), (1, "a", 2, 3), (1, "b", 3, 4), (1, "c", 5, None), (2, "y", 6, None)]
    assert versions(target) == expected
    times = target.execute("select valid_from, valid_to from reports.flat_history order by opened_offset")
    lane.reopen_without_report()
    lane.replay()
    assert versions(target) == expected
    assert target.execute("select valid_from, valid_to from reports.flat_history order by opened_offset") == times
    rekeyed = d.rekey(FLAT, {"id": 1, "v": "c"}, {"id": 7, "v": "c"})  # 7 to 9
    lane.apply([*rekeyed, d.update(FLAT, {"id": 7, "v": "d"}), d.truncate(FLAT), flat(8)])  # 10 to 12
    found = target.execute("select id, v, opened_offset, valid_to is null from reports.flat_history order by 3")
    last = [(1, "c", 5), (2, "y", 6), (7, "c", 9), (7, "d", 10), (8, "x", 12)]
    assert [tuple(row) for row in found[4:]] == [(*one, one[0] == 8) for one in last]


def test_a_value_that_the_message_leaves_out_is_in_the_version(target: Target, bare_lane: MakeBareLane) -> None:
    wide = Table("wide", {"id": m.INT, "v": m.TEXT, "large": m.TEXT})
    target.create(wide)
    lane = bare_lane(tables={"history": {"public.wide": {"table": "reports.wide_history"}}})
    lane.apply([d.create(wide, {"id": 1, "v": "a", "large": "L"})])
    lane.apply([d.update(wide, {"id": 1, "v": "b", "large": LEFT_OUT})])
    found = target.execute("select v, large from reports.wide_history order by opened_offset")
    assert found == [("a", "L"), ("b", "L")]


def test_patches_that_together_are_as_one_that_was_skipped(target: Target, bare_lane: MakeBareLane) -> None:
    """In an epoch in parts the version of their row is written, too."""
    wide = Table("wide", {"id": m.INT, "v": m.TEXT, "a": m.TEXT, "b": m.TEXT, "c": m.TEXT})
    target.create(wide)
    target.execute("alter table wide add check (v <> 'never')")
    lane = bare_lane(on_skip=OnSkip.CONTINUE, tables={"history": {"public.wide": {"table": "reports.wide_history"}}})
    lane.apply([d.create(wide, {"id": number, "v": "x", "a": "A", "b": "B", "c": "C"}) for number in (1, 2)])  # 0, 1
    only_a, only_b = {"a": "a", "b": LEFT_OUT, "c": LEFT_OUT}, {"a": LEFT_OUT, "b": "b", "c": LEFT_OUT}
    changes = [d.update(wide, {"id": 1, "v": "y", **only_a}), d.update(wide, {"id": 1, "v": "z", **only_b})]  # 2, 3
    record = lane.apply([*changes, d.update(wide, {"id": 2, "v": "never", "a": "a", "b": "b", "c": LEFT_OUT})])  # 4
    assert (record.plan, record.counts.quarantined) == (OrderPlan.NARROWED, 1)
    found = target.execute("select id, v, a, b, c, opened_offset, closed_offset from reports.wide_history order by 6")
    first, second = (1, "x", "A", "B", "C", 0, 3), (2, "x", "A", "B", "C", 1, None)
    assert [tuple(row) for row in found] == [first, second, (1, "z", "a", "b", "C", 3, None)]


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_stay(mode: CommitMode, target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    target.execute("alter table flat add column deleted_at timestamptz")
    lane = bare_lane(mode=mode, tables={**HISTORY, **SOFT, "on_truncate": "apply"})
    lane.apply([flat(1), flat(2), flat(3)])  # 0 to 2
    record = lane.apply([d.delete(FLAT, {"id": 2, "v": "x"})])  # 3
    assert (record.counts.consumed, record.counts.applied) == (1, 1)
    ((stamp,),) = target.execute("select deleted_at from flat where id = 2")
    lane.reopen_without_report()
    lane.replay()
    assert target.execute("select deleted_at from flat where id = 2") == [(stamp,)]
    assert alive(target) == [(1, "x"), (3, "x")]
    assert target.execute("select count(*) from flat") == [(3,)]
    lane.apply([flat(2, "again"), d.delete(FLAT, {"id": 3, "v": "x"})])  # 4, 5
    assert alive(target) == [(1, "x"), (2, "again")]
    assert versions(target) == [(1, "x", 0, None), (2, "x", 1, 3), (3, "x", 2, 5), (2, "again", 4, None)]
    lane.apply(d.rekey(FLAT, {"id": 1, "v": "x"}, {"id": 3, "v": "moved"}))  # over one that was deleted
    assert alive(target) == [(2, "again"), (3, "moved")]
    lane.apply([d.truncate(FLAT), flat(9)])
    assert alive(target) == [(9, "x")]


def test_a_delete_that_a_trigger_drops_stops_the_lane(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    target.execute("alter table flat add column deleted_at timestamptz")
    lane = bare_lane(tables=SOFT)
    lane.apply([flat(1)])
    target.execute("create function skip() returns trigger language plpgsql as 'begin return null; end'")
    target.execute("create trigger t before update on flat for each row execute function skip()")
    with pytest.raises(TargetMismatch, match="deletes were sent"):
        lane.apply([d.delete(FLAT, {"id": 1, "v": "x"})])


def test_what_does_not_fit(target: Target, bare_lane: MakeBareLane) -> None:
    target.create(FLAT)
    with pytest.raises(TargetMismatch, match=r"no timestamptz column deleted_at.*\n.*add column deleted_at"):
        bare_lane(tables=SOFT).apply([flat(1)])
    target.execute("alter table flat alter v type timestamptz using null")
    with pytest.raises(TargetMismatch, match="the source has column v"):
        bare_lane(tables={"soft_delete": {"public.flat": {"column": "v"}}}).apply([flat(1)])
    target.execute("create table reports.flat_history (id int)")
    with pytest.raises(TargetMismatch, match="is no history of the lane's"):
        bare_lane(tables=HISTORY).apply([flat(1)])


#: of each epoch the last change of a row
BATCH = """
    with epochs as (
        select generation, epoch, (start_position -> :topic ->> '0')::bigint as first,
               (end_position -> :topic ->> '0')::bigint as behind
        from surelane.ledger where lane = :lane and epoch >= 0 and duplicate = 0
    ), last as (
        select distinct on (e.first, s.id) s.*
        from seen s join epochs e on s."offset" >= e.first and s."offset" < e.behind
        order by e.first, s.id, s."offset" desc
    ), followed as (
        select *, lead("offset") over next as closed_offset, lead(ts) over next as ended
        from last window next as (partition by id order by "offset")
    )
    select id, customer, amount, ts as valid_from, case when ended is not null then greatest(ts, ended) end as valid_to,
           "offset", closed_offset
    from followed where op <> 'd' order by "offset"
"""
#: of each change
EVERY_BATCH = """
    with followed as (
        select *, lead("offset") over next as closed_offset, lead(ts) over next as ended
        from seen window next as (partition by id order by "offset")
    )
    select id, customer, amount, ts as valid_from, case when ended is not null then greatest(ts, ended) end as valid_to,
           "offset", closed_offset
    from followed where op <> 'd' order by "offset"
"""
FOUND = """
    select id, customer, amount, valid_from, valid_to, opened_offset, closed_offset
    from reports.orders_history order by opened_offset
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_lane_keeps_every_change(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    shop = Shop(target, topic, seed=12)
    target.create(ORDERS)
    rules = {"history": {"public.orders": {"table": "reports.orders_history", "every_change": True}}}
    made = lane(mode, target=rules, epoch={"max_messages": 50})
    for count in (160, 40):
        shop.send(count)
        made.run_until_caught_up()
        shop.fill_seen()
        assert target.execute(FOUND) == target.execute(EVERY_BATCH)
    assert target.execute("select from surelane.ledger where plan = :plan", plan=OrderPlan.FAITHFUL.value)


@pytest.mark.parametrize("mode", MODES)
def test_a_lane(mode: CommitMode, lane: MakeLane, target: Target, topic: Topic) -> None:
    """Its tasks stage, and the history equals the batch; verify counts marked rows as absent."""
    shop = Shop(target, topic, seed=11)
    target.create(ORDERS)
    target.execute("alter table orders add column deleted_at timestamptz")
    rules = {
        "history": {"public.orders": {"table": "reports.orders_history"}},
        "soft_delete": {"public.orders": {"column": "deleted_at"}},
    }
    made = lane(mode, target=rules, epoch={"max_messages": 50})
    for count in (160, 40):
        shop.send(count)
        made.run_until_caught_up()
        shop.fill_seen()
        wanted = target.execute(BATCH, topic=topic.name, lane=made.name)
        assert target.execute(FOUND) == wanted
    assert target.execute("select count(*) from orders where deleted_at is not null")[0][0] > 0
    rows = target.execute("select id, amount from orders where deleted_at is null order by 1")
    assert [tuple(row) for row in rows] == sorted((key, row["amount"]) for key, row in shop.rows.items())
    # the source: the same rows, and those that are deleted are gone
    target.create_schema("source")
    columns = ", ".join(f'"{name}"' for name in ORDERS.columns)
    target.execute(f"create table source.orders as select {columns} from orders where deleted_at is null")
    target.execute("alter table source.orders add primary key (id)")
    verify = ("verify", "--against", target.url_as(SUPERUSER), "--against-schema", "source", "--json")
    same = command(made, *verify)
    assert same.status == 0, same.out + same.err
    target.execute("update orders set deleted_at = now() where id = (select min(id) from source.orders)")
    assert (
        command(made, "verify", "--against", target.url_as(SUPERUSER), "--against-schema", "source", "--json").status
        == 16
    )
