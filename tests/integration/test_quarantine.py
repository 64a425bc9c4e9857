"""The quarantine in the database: bytes stay bytes, states go only where they may, everything done leaves a word."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.db.sqlstate import sqlstate, verdict_of
from app.errors import Refused, Verdict
from app.ledger.migrations import upgrade
from app.model.offsets import Position
from app.quarantine.operator import Filter, Operator
from app.quarantine.quarantine import OPEN, RELEASES_AT_ONCE, Entry, EntryState, Quarantine
from tests.fix_target import SCHEMA, Target
from tests.kept import TOPIC, entry, parked


@pytest.fixture
def quarantine(target: Target) -> Quarantine:
    return Quarantine(SCHEMA, target.lane)


@pytest.fixture
def operator(target: Target) -> Operator:
    return Operator(SCHEMA, target.lane, several=False)


@pytest.fixture
def connection(target: Target) -> Iterator[Connection]:
    """Without a transaction."""
    with target.engine.connect() as connection:
        yield connection


def keep(connection: Connection, quarantine: Quarantine, *entries: Entry) -> list[int]:
    """Committed; gives the ids of all open entries."""
    with connection.begin():
        quarantine.add(connection, 1, 5, entries)
        return [one.id for one in quarantine.held(connection)]


def bring_to(
    connection: Connection, quarantine: Quarantine, operator: Operator, number: int, state: EntryState
) -> None:
    """By the ways there are."""
    with connection.begin():
        if state is EntryState.DISCARDED:
            operator.discard(connection, [number], "me@here", "why")
        elif state is EntryState.SUPERSEDED:
            quarantine.supersede(connection, [number])
        elif state is EntryState.RELEASED:
            operator.request_release(connection, [number], "me@here", None, forced=False)
            quarantine.released(connection, number)


@pytest.mark.parametrize("start", EntryState)
def test_every_step(
    target: Target, connection: Connection, quarantine: Quarantine, operator: Operator, start: EntryState
) -> None:
    """Tried with plain SQL, as any role with rights on the table may."""
    for end, forced in itertools.product(EntryState, (False, True)):
        made = parked(1) if start is EntryState.PARKED else entry(1)
        (number,) = keep(connection, quarantine, made)
        bring_to(connection, quarantine, operator, number, start)
        change = (
            "update surelane.quarantine set state = :state, release_requested_at = now(), release_forced = :forced,"
            " release_reason = 'why' where id = :id"
        )
        values = {"state": end.value, "forced": forced, "id": number}
        if may_go(start, end, forced=forced):
            target.execute(change, **values)
        else:
            with pytest.raises(DBAPIError) as refused:
                target.execute(change, **values)
            assert sqlstate(refused.value) == "SL001"
            assert verdict_of(refused.value) is Verdict.STOP, "never counted against a message"
        ((state,),) = target.execute("select state from surelane.quarantine")
        assert state == (end if may_go(start, end, forced=forced) else start)
        target.execute("alter table surelane.quarantine disable trigger quarantine_step")
        target.execute("delete from surelane.quarantine")
        target.execute("alter table surelane.quarantine enable trigger quarantine_step")


def may_go(start: EntryState, end: EntryState, *, forced: bool) -> bool:
    if start is EntryState.SUPERSEDED and end is EntryState.RELEASED:
        return forced
    return start is end or (start in OPEN and end not in OPEN)


@pytest.mark.parametrize("state", [state for state in EntryState if state not in OPEN])
def test_an_entry_begins_open(connection: Connection, quarantine: Quarantine, state: EntryState) -> None:
    with pytest.raises(DBAPIError) as refused:
        keep(connection, quarantine, entry(1, state=state))
    assert sqlstate(refused.value) == "SL001"


def test_what_waits(connection: Connection, quarantine: Quarantine, operator: Operator) -> None:
    """By table; what is closed does not wait, and a key counts once."""
    assert keep(connection, quarantine) == []
    made = [
        entry(1),
        parked(2),
        parked(3),
        entry(4, key_text="other"),
        entry(5, schema=None, table=None, key_text=None),
    ]
    numbers = keep(connection, quarantine, *made, entry(6, table="items"), entry(7, table="lines"))
    bring_to(connection, quarantine, operator, numbers[-1], EntryState.DISCARDED)
    with connection.begin():
        found = {one.table: (one.quarantined, one.parked, one.keys) for one in quarantine.waiting(connection)}
    assert found == {"orders": (2, 2, 2), "items": (1, 0, 1), None: (1, 0, 0)}


@pytest.mark.parametrize("state", EntryState)
def test_only_what_is_closed_can_be_deleted(
    target: Target, connection: Connection, quarantine: Quarantine, operator: Operator, state: EntryState
) -> None:
    (number,) = keep(connection, quarantine, parked(1) if state is EntryState.PARKED else entry(1))
    bring_to(connection, quarantine, operator, number, state)
    if state in OPEN:
        with pytest.raises(DBAPIError, match="discard it before"):
            target.execute("delete from surelane.quarantine")
    else:
        target.execute("delete from surelane.quarantine")
        assert target.execute("select 1 from surelane.quarantine_event") == []


@pytest.mark.parametrize(
    "change",
    ["state = 'released'", "release_forced = true", "state = 'lost'", "stage = 'lunch'", "verdict = 'guilty'"],
)
def test_values_that_make_no_sense(target: Target, connection: Connection, quarantine: Quarantine, change: str) -> None:
    keep(connection, quarantine, entry(1))
    with pytest.raises(DBAPIError):
        target.execute(f"update surelane.quarantine set {change}")


names = st.text(st.characters(), min_size=1, max_size=20)
blobs = st.none() | st.binary(max_size=200)


@given(
    key=blobs,
    value=blobs,
    headers=st.lists(st.tuples(names, blobs), max_size=5).map(tuple),
    timestamp_ms=st.none() | st.integers(-(2**63), 2**63 - 1),
    key_text=st.none() | st.text(),
    error=st.none() | st.text(st.characters()),
    table=st.none() | st.text(st.characters()),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_message_is_made_of_comes_back(
    connection: Connection, quarantine: Quarantine, operator: Operator, **parts: object
) -> None:
    made = entry(1, **parts)
    with connection.begin() as transaction:
        quarantine.add(connection, 1, 5, [made])
        (held,) = quarantine.held(connection)
        operator.request_release(connection, [held.id], "me@here", None, forced=False)
        (release,) = quarantine.requested(connection)
        transaction.rollback()
    assert release.message == made.message
    assert release.held == held
    assert held.key_text == made.key_text
    assert held.position == made.message.position


@pytest.mark.parametrize("forced", [False, True])
def test_the_record_says_whether_a_release_was_forced(
    connection: Connection, quarantine: Quarantine, operator: Operator, *, forced: bool
) -> None:
    (number,) = keep(connection, quarantine, entry(1))
    with connection.begin():
        operator.request_release(connection, [number], "me@here", "ticket 17", forced=forced)
        quarantine.released(connection, number)
        found = [(one.what, one.forced) for one in operator.history(connection, number)]
    assert found == [("kept", None), ("release requested", forced), ("changed", forced)]


def test_an_epoch_that_is_applied_again_adds_nothing(
    target: Target, connection: Connection, quarantine: Quarantine
) -> None:
    first = keep(connection, quarantine, entry(1, attempts=3), parked(2))
    with connection.begin():
        quarantine.add(connection, 2, 0, [entry(1, attempts=4, error="another"), parked(2)])
    assert keep(connection, quarantine) == first
    rows = target.execute(
        'select "offset", state, attempts, generation, epoch, error from surelane.quarantine order by 1'
    )
    assert [tuple(row) for row in rows] == [
        (1, "quarantined", 4, 2, 0, "value too long"),
        (2, "parked", 0, 2, 0, None),
    ]
    assert len(target.execute("select 1 from surelane.quarantine_event")) == 2, "and leaves no word"


def test_a_closed_entry_is_not_opened_by_a_replay(
    target: Target, connection: Connection, quarantine: Quarantine, operator: Operator
) -> None:
    (number,) = keep(connection, quarantine, entry(1))
    bring_to(connection, quarantine, operator, number, EntryState.DISCARDED)
    assert keep(connection, quarantine, entry(1, attempts=9)) == []
    assert target.execute("select state, attempts from surelane.quarantine") == [("discarded", 3)]


def test_it_is_there_exactly_when_its_epoch_is(target: Target, connection: Connection, quarantine: Quarantine) -> None:
    gid = f"surelane:{target.lane}:1:5"
    for end, there in (("rollback", 0), ("commit", 1)):
        with connection.begin():
            quarantine.add(connection, 1, 5, [entry(1)])
            connection.exec_driver_sql(f"prepare transaction '{gid}'")
        assert target.execute("select 1 from surelane.quarantine") == []
        target.server.execute(f"{end} prepared '{gid}'", database=target.database)
        assert len(target.execute("select 1 from surelane.quarantine")) == there


def test_what_is_held_is_in_order(connection: Connection, quarantine: Quarantine) -> None:
    keep(connection, quarantine, parked(9), entry(3, schema=None, table=None, key_text=None), entry(5))
    with connection.begin():
        held = quarantine.held(connection)
    assert [(one.position.offset, one.state, one.table) for one in held] == [
        (3, EntryState.QUARANTINED, None),
        (5, EntryState.QUARANTINED, "orders"),
        (9, EntryState.PARKED, "orders"),
    ]


def test_releases_come_in_order_and_once(connection: Connection, quarantine: Quarantine, operator: Operator) -> None:
    numbers = keep(connection, quarantine, *(entry(offset) for offset in (4, 2, 3)))
    with connection.begin():
        assert quarantine.requested(connection) == []
        operator.request_release(connection, numbers[::-1], "me@here", None, forced=False)
    with connection.begin():
        found = quarantine.requested(connection)
        assert [one.message.position.offset for one in found] == [2, 3, 4]
        assert not found[0].forced
        quarantine.released(connection, found[0].held.id)
        quarantine.refuse(connection, found[1].held.id, "a newer change of its key \0 was applied")
    with connection.begin():
        assert [one.message.position.offset for one in quarantine.requested(connection)] == [4]
        operator.request_release(connection, [found[1].held.id], "me@here", "now it fits", forced=True)
        again = quarantine.requested(connection)
        assert [(one.message.position.offset, one.forced) for one in again] == [(3, True), (4, False)]


def test_one_epoch_releases_only_so_many(connection: Connection, quarantine: Quarantine, operator: Operator) -> None:
    numbers = keep(connection, quarantine, *(entry(offset) for offset in range(RELEASES_AT_ONCE + 5)))
    with connection.begin():
        operator.request_release(connection, numbers, "me@here", None, forced=False)
        found = quarantine.requested(connection)
    assert [one.message.position.offset for one in found] == list(range(RELEASES_AT_ONCE))


def test_superseded_is_released_by_force_alone(
    connection: Connection, quarantine: Quarantine, operator: Operator
) -> None:
    (number,) = keep(connection, quarantine, entry(1))
    with connection.begin():
        operator.request_release(connection, [number], "me@here", None, forced=False)
        quarantine.supersede(connection, [number])
        assert quarantine.requested(connection) == []
    with connection.begin(), pytest.raises(Refused, match="superseded"):
        operator.request_release(connection, [number], "me@here", None, forced=False)
    with connection.begin():
        operator.request_release(connection, [number], "me@here", "the newer one is wrong", forced=True)
        (release,) = quarantine.requested(connection)
        assert release.forced
        quarantine.released(connection, number)
        assert quarantine.counts(connection)[EntryState.RELEASED] == 1


def test_what_is_closed_is_not_superseded(connection: Connection, quarantine: Quarantine, operator: Operator) -> None:
    numbers = keep(connection, quarantine, entry(1), parked(2), entry(3))
    bring_to(connection, quarantine, operator, numbers[0], EntryState.DISCARDED)
    with connection.begin():
        quarantine.supersede(connection, numbers)
        counts = quarantine.counts(connection)
    assert counts == dict.fromkeys(EntryState, 0) | {EntryState.DISCARDED: 1, EntryState.SUPERSEDED: 2}


def test_the_breaker_counts_what_was_quarantined_lately(
    target: Target, connection: Connection, quarantine: Quarantine, operator: Operator
) -> None:
    numbers = keep(connection, quarantine, entry(1), entry(2), parked(3), entry(4))
    keep(connection, Quarantine(SCHEMA, "another"), entry(1))
    bring_to(connection, quarantine, operator, numbers[0], EntryState.DISCARDED)
    target.execute("update surelane.quarantine_event set at = at - interval '10 minutes' where id = :id", id=numbers[1])
    with connection.begin():
        assert quarantine.since(connection, 5) == 2
        assert quarantine.since(connection, 15) == 3
        quarantine.add(connection, 1, 6, [entry(9)])
        assert quarantine.since(connection, 5) == 3, "with those of this very transaction"


def test_everything_leaves_a_word(
    target: Target, connection: Connection, quarantine: Quarantine, operator: Operator
) -> None:
    numbers = keep(connection, quarantine, entry(1), parked(2))
    with connection.begin():
        operator.request_release(connection, numbers[:1], "me@here", "fixed", forced=False)
    with connection.begin():
        quarantine.refuse(connection, numbers[0], "not yet")
    with connection.begin():
        operator.request_release(connection, numbers[:1], "you@there", "again", forced=False)
        quarantine.released(connection, numbers[0])
        operator.discard(connection, numbers[1:], "me@here", "test data")
    with connection.begin():
        words = [
            [
                (one.what, one.from_state, one.to_state, one.who, one.reason)
                for one in operator.history(connection, number)
            ]
            for number in numbers
        ]
    assert words == [
        [
            ("kept", None, "quarantined", None, None),
            ("release requested", "quarantined", "quarantined", "me@here", "fixed"),
            ("release refused", "quarantined", "quarantined", None, "not yet"),
            ("release requested", "quarantined", "quarantined", "you@there", "again"),
            ("changed", "quarantined", "released", "you@there", "again"),
        ],
        [("kept", None, "parked", None, None), ("changed", "parked", "discarded", "me@here", "test data")],
    ]
    assert target.execute("select distinct db_user = session_user from surelane.quarantine_event") == [(True,)]


def test_the_operators_name_ends_with_the_transaction(
    target: Target, connection: Connection, quarantine: Quarantine, operator: Operator
) -> None:
    numbers = keep(connection, quarantine, entry(1), entry(2))
    with connection.begin():
        operator.discard(connection, numbers[:1], "me@here", "why")
    with connection.begin():
        quarantine.supersede(connection, numbers[1:])
        assert [one.who for one in operator.history(connection, numbers[1])] == [None, None]


def test_lanes_do_not_see_each_other(target: Target, connection: Connection, quarantine: Quarantine) -> None:
    (number,) = keep(connection, quarantine, entry(1))
    other = Quarantine(SCHEMA, f"{target.lane}.0")
    assert keep(connection, other, entry(1)) != [number]
    with connection.begin():
        other.supersede(connection, [number])
        assert [one.id for one in quarantine.held(connection)] == [number]
        assert Operator(SCHEMA, target.lane, several=False).ids(connection, Filter()) == [number]
        (its,) = Operator(SCHEMA, target.lane, several=True).ids(connection, Filter())
        assert its != number
        with pytest.raises(Refused, match="no entry"):
            Operator(SCHEMA, target.lane, several=True).discard(connection, [number], "me", "why")


FILTERS = (
    (Filter(), [5, 4, 3, 2, 1]),
    (Filter(states=(EntryState.PARKED,)), [2]),
    (Filter(states=OPEN, table="public.orders"), [2, 1]),
    (Filter(table="public.*"), [5, 2, 1]),
    (Filter(table="*.order_"), []),
    (Filter(table="a%b.it_m\\"), [3]),
    (Filter(table="a%.*"), []),
    (Filter(topic=TOPIC), [5, 4, 3, 2, 1]),
    (Filter(topic="another"), []),
    (Filter(reason="TOO LONG"), [5, 1]),
    (Filter(reason="badmess"), [5, 4, 3, 1]),
    (Filter(reason="%"), [3]),
    (Filter(sqlstate="22"), [5, 3, 1]),
    (Filter(sqlstate="22001"), [5, 1]),
)


def test_filters(connection: Connection, quarantine: Quarantine, operator: Operator) -> None:
    keep(
        connection,
        quarantine,
        entry(1),
        parked(2),
        entry(3, schema="a%b", table="it_m\\", error="100% wrong", sqlstate="22P02"),
        entry(4, schema=None, table=None, error="not JSON", sqlstate=None),
        entry(5, table="items"),
    )
    with connection.begin():
        for filters, offsets in FILTERS:
            assert [row.offset for row in operator.find(connection, filters, 50)] == offsets, filters
            assert [row.offset for row in operator.find(connection, filters, 2)] == offsets[:2], filters
            assert operator.count(connection, filters) == len(operator.ids(connection, filters)) == len(offsets)


def test_in_a_schema_of_another_name(target: Target, connection: Connection) -> None:
    """The triggers find their tables whatever the search path is."""
    upgrade(target.engine, 'Odd "name')
    quarantine = Quarantine('Odd "name', "orders")
    (number,) = keep(connection, quarantine, entry(1))
    with connection.begin():
        quarantine.supersede(connection, [number])
        history = Operator('Odd "name', "orders", several=False).history(connection, number)
    assert [one.what for one in history] == ["kept", "changed"]
    assert target.execute("select 1 from surelane.quarantine") == []


def test_a_large_message(connection: Connection, quarantine: Quarantine, operator: Operator) -> None:
    value = bytes(range(256)) * 40_000
    (number,) = keep(connection, quarantine, entry(1, value=value, position=Position(TOPIC, 7, 2**62)))
    with connection.begin():
        row = operator.get(connection, number)
    assert row.value == value
    assert (row.partition, row.offset) == (7, 2**62)
