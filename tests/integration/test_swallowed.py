"""A change that the target drops in silence stops the lane, whatever dropped it and however the change is sent."""

from collections.abc import Callable

import pytest

from app.apply.order_plan import OrderPlan
from app.config.settings import CommitMode
from app.errors import TargetMismatch
from tests import messages as m
from tests.fix_bare_lane import BareLane, MakeBareLane
from tests.fix_target import Target
from tests.messages import Debezium, Message, Table

d = Debezium()
FLAT = Table("flat", {"id": m.INT, "v": m.TEXT}, constraints=("unique (v)",))
#: what keeps the row 2
TRIGGER = (
    "create function drop_it() returns trigger language plpgsql as 'begin return null; end'",
    "create trigger t before delete on flat for each row when (old.id = 2) execute function drop_it()",
)
RULE = ("create rule r as on delete to flat where old.id = 2 do instead nothing",)
POLICY = (
    "alter table flat enable row level security",
    "alter table flat force row level security",
    "create policy p on flat using (id <> 2) with check (true)",
)
WAYS = {"trigger": TRIGGER, "rule": RULE, "policy": POLICY}


def row(number: int, v: str | None = None) -> dict[str, object]:
    return {"id": number, "v": v or f"v{number}"}


def swapped(one: int, other: int) -> list[Message]:
    """What only the faithful plan gets past the unique index."""
    return [
        d.update(FLAT, row(one, "waits")),
        d.update(FLAT, row(other, f"v{one}")),
        d.update(FLAT, row(one, f"v{other}")),
    ]


#: messages after rows 1 to 9 were created
CHANGES: dict[str, Callable[[], list[Message]]] = {
    "delete": lambda: [d.delete(FLAT, row(number)) for number in range(1, 8)],
    "delete, faithful": lambda: [*swapped(8, 9), *(d.delete(FLAT, row(number)) for number in range(1, 8))],
    "changed key": lambda: d.rekey(FLAT, row(2), row(20)),
    "changed key, faithful": lambda: [*swapped(8, 9), *d.rekey(FLAT, row(2), row(20))],
    "truncate": lambda: [d.truncate(FLAT)],
}


@pytest.fixture
def filled(target: Target, bare_lane: MakeBareLane) -> Callable[[CommitMode], BareLane]:
    def make(mode: CommitMode) -> BareLane:
        target.create(FLAT)
        lane = bare_lane(mode=mode, tables={"on_truncate": "apply"})
        lane.apply([d.create(FLAT, row(number)) for number in range(1, 10)])
        return lane

    return make


@pytest.mark.parametrize("mode", [CommitMode.TWO_PHASE, CommitMode.LEDGER])
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("way", WAYS)
def test_a_delete_that_the_target_swallows(
    way: str, what: str, mode: CommitMode, target: Target, filled: Callable[[CommitMode], BareLane]
) -> None:
    lane = filled(mode)
    for statement in WAYS[way]:
        target.execute(statement)
    lane.reopen_without_report()
    before = target.rows("public.flat")
    with pytest.raises(TargetMismatch) as caught:
        lane.apply(CHANGES[what]())
    assert "flat" in caught.value.message
    assert caught.value.hint
    assert target.rows("public.flat") == before, "nothing of the epoch is there"
    assert target.prepared() == []
    assert target.execute("select from surelane.quarantine") == []
    _stop(target, way)
    lane.reopen_without_report()
    lane.apply(CHANGES[what]())
    if what == "truncate":  # the oracle knows of none
        assert target.rows("public.flat") == {}
    else:
        lane.check()


def _stop(target: Target, way: str) -> None:
    target.execute(
        {
            "trigger": "drop trigger t on flat",
            "rule": "drop rule r on flat",
            "policy": "alter table flat disable row level security",
        }[way]
    )


def test_a_trigger_that_is_made_while_the_lane_runs(target: Target, filled: Callable[[CommitMode], BareLane]) -> None:
    lane = filled(CommitMode.LEDGER)
    for statement in TRIGGER:
        target.execute(statement)
    with pytest.raises(TargetMismatch, match=r"public\.flat: 7 deletes were sent, 6 rows went"):
        lane.apply(CHANGES["delete"]())


def test_an_upsert_that_the_target_swallows_in_the_faithful_plan(
    target: Target, filled: Callable[[CommitMode], BareLane]
) -> None:
    lane = filled(CommitMode.LEDGER)
    target.execute(TRIGGER[0])
    target.execute("create trigger t before update on flat for each row when (old.id = 2) execute function drop_it()")
    with pytest.raises(TargetMismatch, match=r"public\.flat: it did not take, or did not give up, a row"):
        lane.apply([*swapped(8, 9), d.update(FLAT, row(2, "other"))])


@pytest.mark.parametrize("faithful", [False, True])
def test_a_row_that_was_never_there_is_gone(faithful: bool, filled: Callable[[CommitMode], BareLane]) -> None:
    """Also twice, and one that comes back."""
    lane = filled(CommitMode.LEDGER)
    gone = [d.delete(FLAT, row(number)) for number in (1, 77, 1, 3)]
    record = lane.apply([*(swapped(8, 9) if faithful else ()), *gone, d.create(FLAT, row(3, "again"))])
    assert (record.plan == OrderPlan.FAITHFUL) == faithful
    lane.check()


def test_a_partition_that_swallows(target: Target, bare_lane: MakeBareLane) -> None:
    target.execute("create table flat (id int primary key, v text) partition by range (id)")
    target.execute("create table flat_low partition of flat for values from (0) to (10)")
    lane = bare_lane()
    lane.apply([d.create(FLAT, row(number)) for number in range(1, 10)])
    target.execute(TRIGGER[0])
    target.execute(TRIGGER[1].replace("on flat", "on flat_low"))
    with pytest.raises(TargetMismatch, match=r"public\.flat: 7 deletes were sent, 6 rows went"):
        lane.apply(CHANGES["delete"]())


def test_a_rule_that_does_more_is_no_obstacle(target: Target, filled: Callable[[CommitMode], BareLane]) -> None:
    target.execute("create table log (id int)")
    lane = filled(CommitMode.LEDGER)
    target.execute("create rule r as on delete to flat do also insert into log values (old.id)")
    target.execute("grant all on log to public")
    lane.reopen_without_report()
    lane.apply(CHANGES["delete"]())
    lane.check()
