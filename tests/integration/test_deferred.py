"""Constraints that wait for the epoch's end: the message they fail for is found, and only that one is skipped."""

import random
from collections.abc import Callable, Collection, Sequence

import pytest

from app.config.on_skip import OnSkip
from app.config.settings import BreakerSettings, CommitMode
from app.errors import BadMessage, BreakerTripped, SurelaneError, TargetMismatch, Unreachable
from app.lane.deferred_constraint_search import FEW_MESSAGES
from app.quarantine.operator import Operator
from tests import messages as m
from tests.fix_bare_lane import LIMITS, TOPIC, BareLane, MakeBareLane
from tests.fix_target import SCHEMA, Target
from tests.messages import Debezium, Message, Table

PARENT = Table("parent", {"id": m.INT, "v": m.TEXT})
CHILD = Table("child", {"id": m.INT, "parent": m.INT})
SEAT = Table("seat", {"id": m.INT, "number": m.INT})
BOOKING = Table("booking", {"id": m.INT, "pair": m.INT, "amount": m.INT})
DDL = (
    "create table parent (id int primary key, v text)",
    "create table child (id int primary key, parent int references parent deferrable initially deferred)",
    "create table seat (id int primary key, number int unique deferrable initially deferred)",
    "create table booking (id int primary key, pair int, amount int)",
    """
    create function balanced() returns trigger language plpgsql as $$ begin
        if (select coalesce(sum(amount), 0) from booking where pair = coalesce(new.pair, old.pair)) <> 0 then
            raise 'pair % is not balanced', coalesce(new.pair, old.pair);
        end if;
        return null;
    end $$
    """,
    "create constraint trigger balanced after insert or update or delete on booking deferrable initially deferred"
    " for each row execute function balanced()",
)
d = Debezium()

MakeLane = Callable[..., BareLane]


@pytest.fixture(params=list(CommitMode), ids=lambda mode: mode.value)
def make(request: pytest.FixtureRequest, target: Target, bare_lane: MakeBareLane) -> MakeLane:
    """Lanes of each mode in turn."""
    for statement in DDL:
        target.execute(statement)
    return lambda **settings: bare_lane(**{"mode": request.param, "on_skip": OnSkip.CONTINUE} | settings)


@pytest.fixture
def lane(make: MakeLane) -> BareLane:
    """A lane that skips."""
    return make()


@pytest.fixture
def one_mode(target: Target, bare_lane: MakeBareLane) -> BareLane:
    """A lane that skips, for what has nothing to do with the mode."""
    for statement in DDL:
        target.execute(statement)
    return bare_lane(on_skip=OnSkip.CONTINUE)


def parent(number: int, v: str = "x") -> Message:
    return d.create(PARENT, {"id": number, "v": v})


def no_parent(number: int) -> Message:
    return d.delete(PARENT, {"id": number, "v": None})


def child(number: int, parent: int | None) -> Message:
    return d.create(CHILD, {"id": number, "parent": parent})


def no_child(number: int) -> Message:
    return d.delete(CHILD, {"id": number, "parent": None})


def seat(number: int, place: int | None) -> Message:
    return d.create(SEAT, {"id": number, "number": place})


def booking(number: int, pair: int, amount: int) -> Message:
    return d.create(BOOKING, {"id": number, "pair": pair, "amount": amount})


def kept(lane: BareLane) -> dict[int, tuple[int, str | None]]:
    """What is in quarantine: (attempts, SQLSTATE) by offset."""
    rows = lane.target.execute(
        'select "offset", attempts, sqlstate from surelane.quarantine where lane = :lane order by 1', lane=lane.name
    )
    return {row.offset: (row.attempts, row.sqlstate) for row in rows}


def check(lane: BareLane, bad: Collection[int]) -> None:
    """Everything but the bad messages is applied, the books balance, and nothing is left behind."""
    for one in [one for one in lane.sent if one.position.offset in bad]:
        lane.sent.remove(one)
    lane.check()
    total = lane.target.ledger_sum(lane.name)
    assert total.adds_up
    assert (total.consumed, total.quarantined) == (len(lane.sent) + len(bad), len(bad))
    assert lane.target.prepared() == []
    ((suspects,),) = lane.target.execute("select count(*) from surelane.suspect where lane = :lane", lane=lane.name)
    assert suspects == 0


GOOD = [parent(number) for number in range(100, 150)]

#: messages, which of them are bad (by their place), SQLSTATE
CASES: dict[str, tuple[list[Message], tuple[int, ...], str]] = {
    "child without parent": ([*GOOD, child(1, 100), child(2, 7), child(3, 101), *GOOD], (51,), "23503"),
    "parent deleted, child stays": ([*GOOD, child(1, 100), no_parent(100), *GOOD[1:]], (51,), "23503"),
    "a value twice": ([seat(1, 1), *GOOD, seat(2, 2), seat(3, 1), *GOOD], (52,), "23505"),
    "a trigger": ([*GOOD, booking(1, 1, 5), booking(2, 2, 9), booking(3, 1, -5), *GOOD], (51,), "P0001"),
    "the first": ([child(2, 7), *GOOD], (0,), "23503"),
    "the last": ([*GOOD, child(2, 7)], (50,), "23503"),
    "the only one": ([child(2, 7)], (0,), "23503"),
    "neighbours": ([*GOOD, child(1, 7), child(2, 7), child(3, 8), *GOOD], (50, 51, 52), "23503"),
    "first and last": ([child(1, 7), *GOOD, child(2, 7)], (0, 51), "23503"),
    "all": ([child(number, 7) for number in range(20)], tuple(range(20)), "23503"),
    "a mended one before it": ([child(1, 1), *GOOD, parent(1), child(2, 7), *GOOD], (52,), "23503"),
    "a mended one around it": ([child(1, 1), *GOOD, child(2, 7), *GOOD, parent(1)], (51,), "23503"),
    "mended ones across it": (
        [child(1, 1), child(3, 3), *GOOD, parent(3), child(2, 7), child(4, 4), parent(1), *GOOD, parent(4)],
        (53,),
        "23503",
    ),
    "a mended one behind it": ([child(2, 7), *GOOD, child(1, 1), *GOOD, parent(1)], (0,), "23503"),
    "mended and broken again": ([child(1, 1), *GOOD, parent(1), no_parent(1), *GOOD], (52,), "23503"),
    "the same key again": ([*GOOD, child(1, 7), *GOOD, child(1, 100)], (), ""),
    "the same key, bad again": ([*GOOD, child(1, 100), child(1, 7), *GOOD, child(1, 8)], (51, 102), "23503"),
}


@pytest.mark.costly(2)
@pytest.mark.parametrize("case", CASES)
def test_the_culprit_is_kept_and_the_rest_applied(case: str, lane: BareLane) -> None:
    messages, bad, sqlstate = CASES[case]
    lane.apply(messages)
    assert kept(lane) == dict.fromkeys(bad, (LIMITS.max_attempts, sqlstate))
    check(lane, bad)


def test_what_is_mended_within_the_epoch_costs_nothing(lane: BareLane) -> None:
    """Child before parent, values that change places, a pair that is balanced in the end."""
    lane.apply([seat(1, 1), seat(2, 2)])
    mended = [child(1, 1), seat(1, 2), booking(1, 1, 5), *GOOD, parent(1), seat(2, 1), booking(2, 1, -5)]
    assert lane.apply(mended).plan == "deletes-first"
    assert kept(lane) == {}
    check(lane, [])


def test_culprits_among_many(lane: BareLane) -> None:
    """Far behind them there is more than is asked for one by one; mended ones lie around."""
    lane.apply([parent(500), child(500, 500)])
    good = [parent(number) for number in range(1000, 2000)]
    mended = [child(number, number) for number in range(50)]
    messages = [
        *mended,
        *good,
        child(1001, 7777),
        booking(1, 1, 5),
        no_parent(500),
        child(1002, 1500),
        *[parent(number) for number in range(50)],
        *good,
    ]
    lane.apply(messages)
    assert len(messages) > 2000 > FEW_MESSAGES
    assert kept(lane) == {1052: (3, "23503"), 1053: (3, "P0001"), 1054: (3, "23503")}
    check(lane, [1052, 1053, 1054])


def test_the_message_is_kept_whole(lane: BareLane) -> None:
    message = child(2, 7)
    lane.apply([*GOOD, message, *GOOD])
    (found,) = lane.target.execute("select * from surelane.quarantine where lane = :lane", lane=lane.name)
    assert (bytes(found.key), bytes(found.value)) == (message.key, message.value)
    assert (found.topic, found.source_table, found.stage, found.state) == (TOPIC.topic, "child", "apply", "quarantined")
    assert "Key (parent)=(7) is not present" in found.error


def test_beside_messages_that_are_refused_by_themselves(lane: BareLane) -> None:
    messages = [*GOOD, child(2**31, 100), child(1, 7), parent(1, "a\0b"), child(2, 1), *GOOD]
    lane.apply(messages)
    assert [code for _, code in kept(lane).values()] == ["22003", "23503", "22021", "23503"]
    check(lane, [50, 51, 52, 53])


def test_park(make: MakeLane) -> None:
    """Later changes of its key follow."""
    lane = make(on_skip=OnSkip.PARK)
    lane.apply([child(1, 7), *GOOD, child(1, 100)])  # only the last of a key is sent: nothing to find
    assert kept(lane) == {}
    lane.apply([*GOOD, child(2, 7), child(3, 101), *GOOD])
    lane.apply([parent(7), child(2, 102), no_child(2)])
    assert kept(lane) == {102: (3, "23503"), 155: (0, None), 156: (0, None)}
    check(lane, [102, 155, 156])


def test_stop(make: MakeLane) -> None:
    """In front of the message, which is named; the next start tries it anew."""
    lane = make(on_skip=OnSkip.STOP)
    for _ in range(2):
        with pytest.raises(BadMessage, match=r"made-up\D+0\D+50\b.*child.*refused by the target.*23503"):
            lane.apply([*GOOD, child(2, 7), *GOOD])
        lane.reopen()
    assert lane.target.prepared() == []
    lane.target.execute("insert into parent (id) values (7)")
    lane.apply([*GOOD, child(2, 7), *GOOD])
    assert kept(lane) == {}


def test_the_breaker_counts_them(make: MakeLane) -> None:
    lane = make(breaker=BreakerSettings(messages=2, minutes=10))
    with pytest.raises(BreakerTripped):
        lane.apply([*GOOD, child(1, 7), child(2, 7), child(3, 7)])
    lane.reopen()
    assert (kept(lane), lane.target.rows("public.parent"), lane.target.prepared()) == ({}, {}, [])
    lane.apply([*GOOD, child(1, 7), child(2, 7)])
    check(lane, [50, 51])


def test_a_release_that_they_refuse_is_refused_by_itself(make: MakeLane) -> None:
    lane = make()
    lane.apply([child(1, 7), *GOOD, child(2, 8)])
    lane.apply([parent(8)])
    numbers = [row.id for row in lane.target.execute("select id from surelane.quarantine order by id")]
    with lane.target.engine.begin() as connection:
        Operator(SCHEMA, lane.name, several=False).request_release(connection, numbers, "me", None, forced=False)
    lane.release()
    found = lane.target.execute('select state, release_refused from surelane.quarantine order by "offset"')
    assert [row.state for row in found] == ["quarantined", "released"]
    assert "is not present in table" in found[0].release_refused
    lane.apply([child(3, 8)])
    assert sorted(lane.target.rows("public.child")) == [(2,), (3,)]


def holds(messages: Sequence[Message]) -> bool:
    """What the target's constraints say of a plain fold."""
    rows: dict[str, dict[object, dict[str, object]]] = {"public.parent": {}, "public.child": {}, "public.seat": {}}
    for message in messages:
        change = message.change
        assert change is not None
        if change.row is None:
            rows[change.table].pop(change.key, None)
        else:
            rows[change.table][change.key] = dict(change.row)
    parents = {row["id"] for row in rows["public.parent"].values()}
    seats = [row["number"] for row in rows["public.seat"].values()]
    return {row["parent"] for row in rows["public.child"].values()} <= parents and len(seats) == len(set(seats))


@pytest.mark.costly(2)
@pytest.mark.parametrize("seed", range(6))
def test_of_a_random_epoch_nothing_is_skipped_in_vain(seed: int, one_mode: BareLane) -> None:
    chance = random.Random(seed)
    kinds: list[Callable[[], Message]] = [
        lambda: parent(chance.randrange(8)),
        lambda: no_parent(chance.randrange(8)),
        lambda: child(chance.randrange(30), chance.randrange(8)),
        lambda: no_child(chance.randrange(30)),
        lambda: seat(chance.randrange(6), chance.randrange(12)),
    ]
    messages = [chance.choices(kinds, (4, 1, 3, 2, 2))[0]() for _ in range(60)]
    one_mode.apply(messages)
    bad = sorted(kept(one_mode))
    check(one_mode, bad)
    for one in bad:
        assert not holds([message for at, message in enumerate(messages) if at == one or at not in bad])


def test_one_name_for_two_constraints(target: Target, bare_lane: MakeBareLane) -> None:
    """Then its check cannot be deferred again, and everything is checked each time."""
    target.execute("create table parent (id int primary key, v text)")
    target.execute("create table child (id int primary key, parent int)")
    target.execute("alter table child add constraint fits foreign key (parent) references parent initially deferred")
    target.execute("alter table parent add constraint fits check (id < 5000)")
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    lane.apply([child(1, 100), *GOOD, child(2, 7), child(3, 1), *GOOD, parent(1)])
    assert list(kept(lane)) == [51]
    check(lane, [51])


KILL = """
create function kill() returns trigger language plpgsql security definer as $$ begin
    perform pg_terminate_backend(pg_backend_pid()); return null;
end $$;
create constraint trigger kill after insert on parent deferrable initially deferred
for each row when (new.v = 'kill') execute function kill()
"""


@pytest.mark.parametrize("survives", [False, True], ids=["the process dies", "only the connection"])
def test_a_constraint_that_kills(survives: bool, one_mode: BareLane) -> None:
    """What is in progress is known while constraints are asked: it narrows as elsewhere."""
    lane, good = one_mode, [parent(number) for number in range(100, 400)]
    lane.target.execute(KILL)
    messages = [*good, child(1, 7), *good, parent(1, "kill"), *good]
    for _ in range(12):
        try:
            lane.apply(messages)
            break
        except Unreachable:
            lane.reconnect() if survives else lane.reopen()
    count = LIMITS.max_losses if survives else LIMITS.max_attempts
    assert {offset: attempts for offset, (attempts, _) in kept(lane).items()} == {300: 3, 601: count}
    check(lane, [300, 601])


RAISE = """
create function away() returns trigger language plpgsql as $$ begin
    raise exception using errcode = '{code}'; end $$;
create constraint trigger away after insert on parent deferrable initially deferred
for each row when (new.v = 'away') execute function away()
"""


@pytest.mark.parametrize(("code", "kind"), [("53100", Unreachable), ("40P01", Unreachable), ("ZZ001", TargetMismatch)])
def test_what_no_message_is_to_blame_for(code: str, kind: type[SurelaneError], one_mode: BareLane) -> None:
    """While one is looked for."""
    one_mode.target.execute(RAISE.format(code=code))
    messages = [*GOOD, child(1, 7), *GOOD, parent(1, "away"), *GOOD]
    for _ in range(LIMITS.max_losses + 1):
        with pytest.raises(kind):
            one_mode.apply(messages)
        one_mode.reconnect()
    one_mode.target.execute("drop trigger away on parent")
    one_mode.apply(messages)
    assert kept(one_mode) == {50: (3, "23503")}
    check(one_mode, [50])
