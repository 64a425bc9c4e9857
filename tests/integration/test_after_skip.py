"""What happens after a skip: parking, superseding, releasing, the circuit breaker; on a real Postgres."""

from collections.abc import Iterator, Sequence

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, event

from app.config.on_skip import OnSkip
from app.config.settings import BreakerSettings, CommitMode
from app.errors import BadMessage, BreakerTripped, ExitStatus, Fenced, Refused
from app.ledger.store import Ledger
from app.metrics.lane_metrics import LaneMetrics
from app.quarantine.operator import Operator
from app.quarantine.quarantine import RELEASES_AT_ONCE, Quarantine
from app.transform import Change
from app.worker.monitor import show_breaker
from tests import messages as m
from tests.fix_bare_lane import LIMITS, BareLane, Death, MakeBareLane
from tests.fix_target import SCHEMA, Target
from tests.messages import Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
OTHER = Table("other", {"id": m.INT, "v": m.TEXT})
COLUMNS = "(id int primary key, v varchar(10) not null)"
#: the target does not take it, until `mend`
BAD = "x" * 11
d = Debezium()


@pytest.fixture(autouse=True)
def tables(target: Target) -> None:
    """Of the target."""
    target.execute(f"create table flat {COLUMNS}")
    target.execute(f"create table other {COLUMNS}")


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Everything that is sent to a database."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


def row(number: int, v: str = "x", table: Table = FLAT) -> Message:
    """A change."""
    return d.create(table, {"id": number, "v": v})


def gone(number: int, table: Table = FLAT) -> Message:
    """A deletion."""
    return d.delete(table, {"id": number, "v": None})


def mend(target: Target) -> None:
    """The target takes everything from here on."""
    target.execute("alter table flat alter v type text")
    target.execute("alter table other alter v type text")


def values(target: Target, table: str = "flat") -> dict[int, str]:
    """What is in the target."""
    return {row.id: row.v for row in target.execute(f"select id, v from {table}")}


def states(lane: BareLane) -> dict[int, str]:
    """State of each entry, by offset."""
    statement = 'select "offset", state from surelane.quarantine where lane = :lane order by 1'
    return {row.offset: row.state for row in lane.target.execute(statement, lane=lane.name)}


def words(lane: BareLane, offset: int) -> str | None:
    """Why a release was refused."""
    ((reason,),) = lane.target.execute(
        'select release_refused from surelane.quarantine where lane = :lane and "offset" = :offset',
        lane=lane.name,
        offset=offset,
    )
    return reason


def ids(lane: BareLane, offsets: Sequence[int]) -> list[int]:
    """Numbers of entries."""
    statement = 'select id from surelane.quarantine where lane = :lane and "offset" = any(:offsets)'
    return [number for (number,) in lane.target.execute(statement, lane=lane.name, offsets=list(offsets))]


def request(lane: BareLane, *offsets: int, forced: bool = False) -> None:
    """As `surelane quarantine release`."""
    operator, reason = Operator(SCHEMA, lane.name, several=False), "because" if forced else None
    with lane.target.engine.begin() as connection:
        operator.request_release(connection, ids(lane, offsets), "me@here", reason, forced=forced)


def discard(lane: BareLane, *offsets: int) -> None:
    """As `surelane quarantine discard`."""
    with lane.target.engine.begin() as connection:
        Operator(SCHEMA, lane.name, several=False).discard(connection, ids(lane, offsets), "me@here", "test")


def counts(lane: BareLane) -> dict[str, int]:
    """Of the last epoch, without zeroes."""
    record = lane.target.ledger(lane.name)
    assert record is not None
    assert record.counts.adds_up
    return {name: count for name, count in record.counts.as_dict().items() if count}


@pytest.fixture
def parking(bare_lane: MakeBareLane) -> BareLane:
    """A lane with `on_skip: park`."""
    return bare_lane(on_skip=OnSkip.PARK)


@pytest.fixture
def going_on(bare_lane: MakeBareLane) -> BareLane:
    """A lane with `on_skip: continue`."""
    return bare_lane(on_skip=OnSkip.CONTINUE)


# park


def test_later_changes_of_the_key_follow(parking: BareLane) -> None:
    parking.apply([row(1, "old"), row(2)])
    parking.apply([row(1, BAD), row(3)])
    parking.apply([row(1, "newer"), row(2, "newer"), gone(1)])
    assert values(parking.target) == {1: "old", 2: "newer", 3: "x"}
    assert states(parking) == {2: "quarantined", 4: "parked", 6: "parked"}
    assert counts(parking) == {"consumed": 3, "applied": 1, "quarantined": 2}


def test_what_follows_in_the_same_epoch(parking: BareLane) -> None:
    """Whatever part of the epoch it is in; what came before is applied."""
    before = [row(1, "before"), *(row(number) for number in range(2, 40))]
    behind = [row(number, "behind") for number in range(2, 40)]
    parking.apply([*before, row(1, BAD), *behind, row(1, BAD), *behind, row(1, "last"), row(99, BAD)])
    assert values(parking.target) == {1: "before"} | dict.fromkeys(range(2, 40), "behind")
    assert states(parking) == {39: "quarantined", 78: "parked", 117: "parked", 118: "quarantined"}
    assert (counts(parking)["consumed"], counts(parking)["quarantined"]) == (119, 4)


def test_a_held_key_is_held_after_a_restart(parking: BareLane) -> None:
    parking.apply([row(1, BAD)])
    parking.reopen()
    parking.apply([row(1), row(2)])
    assert states(parking) == {0: "quarantined", 1: "parked"}
    assert values(parking.target) == {2: "x"}


def test_equal_keys_of_several_tables(parking: BareLane) -> None:
    parking.apply([row(1, BAD), row(1, table=OTHER)])
    parking.apply([row(1), row(1, "newer", OTHER), row(2, BAD, OTHER)])
    parking.apply([row(2), row(2, table=OTHER)])
    assert (values(parking.target), values(parking.target, "other")) == ({2: "x"}, {1: "newer"})
    assert states(parking) == {0: "quarantined", 2: "parked", 4: "quarantined", 6: "parked"}


def test_a_discarded_key_is_free_again(parking: BareLane) -> None:
    parking.apply([row(1, BAD), row(2, BAD)])
    parking.apply([row(1, "parked")])
    discard(parking, 0)
    parking.apply([row(1, "parked2")])
    assert states(parking) == {0: "discarded", 1: "quarantined", 2: "parked", 3: "parked"}
    discard(parking, 2, 3)
    parking.apply([row(1, "free"), row(2, "held")])
    assert values(parking.target) == {1: "free"}
    assert states(parking) == {0: "discarded", 1: "quarantined", 2: "discarded", 3: "discarded", 5: "parked"}


def test_an_operator_cannot_discard_what_an_epoch_relies_on(target: Target, bare_lane: MakeBareLane) -> None:
    """Else a change would be parked behind nothing."""
    lane = bare_lane(on_skip=OnSkip.PARK, mode=CommitMode.TWO_PHASE)
    lane.apply([row(1, BAD)])
    lane.prepare([row(1)])
    with pytest.raises(Refused, match="not committed yet"):
        discard(lane, 0)
    lane.lane.committer.commit()
    discard(lane, 0)
    assert states(lane) == {0: "discarded", 1: "parked"}


def test_tables_have_policies_of_their_own(bare_lane: MakeBareLane) -> None:
    tables = {"public.fl*": OnSkip.CONTINUE, "public.*": OnSkip.PARK}
    lane = bare_lane(on_skip=OnSkip.STOP, on_skip_tables=tables)
    lane.apply([row(1, BAD), row(1, BAD, OTHER)])
    lane.apply([row(1), row(1, table=OTHER)])
    assert states(lane) == {0: "superseded", 1: "quarantined", 3: "parked"}
    assert values(lane.target) == {1: "x"}


def test_stop_for_one_table(bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=OnSkip.CONTINUE, on_skip_tables={"public.other": OnSkip.STOP})
    lane.apply([row(1, BAD)])
    with pytest.raises(BadMessage, match="of table public"):
        lane.apply([row(2), row(2, BAD), row(1, BAD, OTHER)])
    assert states(lane) == {0: "quarantined"}
    assert values(lane.target) == {}


def test_no_more_keys_than_allowed_are_held(bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=OnSkip.PARK, max_parked_keys=2)
    lane.apply([row(1, BAD), row(2, BAD)])
    lane.apply([row(1), row(2)])
    with pytest.raises(BreakerTripped, match="max_parked_keys") as stopped:
        lane.apply([row(3, BAD), row(4)])
    assert "surelane quarantine release --all" in str(stopped.value)
    assert states(lane) == {0: "quarantined", 1: "quarantined", 2: "parked", 3: "parked"}
    assert values(lane.target) == {}
    discard(lane, 0, 2)
    lane.apply([row(3, BAD), row(4)])
    assert values(lane.target) == {4: "x"}
    lane.apply([row(1)])
    assert values(lane.target) == {1: "x", 4: "x"}


@pytest.mark.parametrize("on_skip", [OnSkip.CONTINUE, OnSkip.PARK])
def test_nothing_is_known_of_a_message_that_cannot_be_decoded(on_skip: OnSkip, bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=on_skip)
    lane.killers = {0}
    for _ in range(LIMITS.max_attempts):
        with pytest.raises(Death):
            lane.apply([row(1, "old")])
        lane.reopen()
    lane.apply([row(1, "old")])
    lane.killers = ()
    lane.apply([row(1, "new")])
    assert states(lane) == {0: "quarantined"}
    request(lane, 0)
    lane.release()
    assert "it is unknown" in str(words(lane, 0))
    assert values(lane.target) == {1: "new"}
    request(lane, 0, forced=True)
    lane.release()
    assert (states(lane), values(lane.target)) == ({0: "released"}, {1: "old"})


@pytest.mark.parametrize("on_skip", [OnSkip.CONTINUE, OnSkip.PARK])
def test_what_the_transform_raises_for(on_skip: OnSkip, bare_lane: MakeBareLane) -> None:
    """It is condemned before it is in the epoch; its table and key are known all the same."""

    def raising(change: Change) -> Change:
        if change.row["v"] == "raise":
            raise ValueError("no")
        return change

    lane = bare_lane(on_skip=on_skip)
    lane.transform = raising
    lane.apply([row(1, "before"), row(1, "raise"), row(2), row(1, "after")])
    if on_skip is OnSkip.CONTINUE:
        assert (states(lane), values(lane.target)) == ({1: "superseded"}, {1: "after", 2: "x"})
        return
    assert (states(lane), values(lane.target)) == ({1: "quarantined", 3: "parked"}, {1: "before", 2: "x"})
    assert counts(lane) == {"consumed": 4, "applied": 2, "quarantined": 2}
    request(lane, 1, 3)
    lane.release()
    assert "the transform raised ValueError: no" in str(words(lane, 1))
    assert "is still open" in str(words(lane, 3))
    lane.transform = None
    request(lane, 1, 3)
    lane.release()
    assert (states(lane), values(lane.target)) == ({1: "released", 3: "released"}, {1: "after", 2: "x"})


# superseded


def test_a_newer_change_supersedes(going_on: BareLane) -> None:
    going_on.apply([row(1, BAD), row(2, BAD)])
    going_on.apply([row(3), row(1, BAD)])
    assert states(going_on) == {0: "quarantined", 1: "quarantined", 3: "quarantined"}
    going_on.reopen()
    going_on.apply([row(1, "new"), row(3, "new")])
    assert states(going_on) == {0: "superseded", 1: "quarantined", 3: "superseded"}
    going_on.apply([gone(2)])
    assert set(states(going_on).values()) == {"superseded"}


def test_superseded_in_the_same_epoch(going_on: BareLane) -> None:
    """The order within the epoch counts."""
    others = [row(number) for number in range(10, 60)]
    going_on.apply([row(1, BAD), row(2, "good"), *others, row(1, "good"), row(2, BAD)])
    assert states(going_on) == {0: "superseded", 53: "quarantined"}
    assert values(going_on.target)[1] == "good"


def test_a_requested_release_records_that_it_is_superseded(going_on: BareLane) -> None:
    going_on.apply([row(1, BAD)])
    request(going_on, 0)
    going_on.apply([row(1, "new")])
    assert states(going_on) == {0: "superseded"}
    assert words(going_on, 0) == "a newer change of its key was applied"


# replays


@pytest.mark.parametrize("on_skip", [OnSkip.CONTINUE, OnSkip.PARK])
def test_an_epoch_that_is_rolled_back_leaves_nothing(on_skip: OnSkip, bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=on_skip, mode=CommitMode.TWO_PHASE)
    messages = [row(1, "before"), row(2, BAD), *(row(number) for number in range(3, 40)), row(2, "later")]
    messages += [row(40, BAD)]
    lane.prepare(messages)
    lane.lane.committer.abort()
    assert (states(lane), values(lane.target)) == ({}, {})
    lane.reopen()
    lane.apply(messages)
    if on_skip is OnSkip.CONTINUE:
        kept = {1: "superseded", 40: "quarantined"}
    else:
        kept = {1: "quarantined", 39: "parked", 40: "quarantined"}
    assert states(lane) == kept
    ((events,),) = lane.target.execute("select count(*) from surelane.quarantine_event where what = 'kept'")
    assert events == len(kept)
    lane.reopen()
    lane.apply([row(2, "last")])
    assert values(lane.target).get(2) == ("last" if on_skip is OnSkip.CONTINUE else None)


@pytest.mark.parametrize("on_skip", [OnSkip.CONTINUE, OnSkip.PARK])
def test_an_epoch_that_is_applied_again(on_skip: OnSkip, bare_lane: MakeBareLane) -> None:
    """At-least-once: an entry is held for what comes after it, not for what came before."""
    lane = bare_lane(on_skip=on_skip, mode=CommitMode.AT_LEAST_ONCE)
    others = [row(number) for number in range(2, 20)]
    lane.apply([row(1, "before"), *others, row(1, BAD), row(20, BAD), *others, row(1, "later")])
    kept, rows = states(lane), values(lane.target)
    if on_skip is OnSkip.CONTINUE:
        assert kept == {19: "superseded", 20: "quarantined"}
    else:
        assert kept == {19: "quarantined", 20: "quarantined", 39: "parked"}
    assert rows[1] == ("later" if on_skip is OnSkip.CONTINUE else "before")
    lane.reopen()
    lane.replay()
    assert (states(lane), values(lane.target)) == (kept, rows)


# release


def test_a_release_applies_the_message(going_on: BareLane) -> None:
    going_on.apply([row(1, BAD), row(2)])
    mend(going_on.target)
    request(going_on, 0)
    going_on.release()
    assert (states(going_on), values(going_on.target)) == ({0: "released"}, {1: BAD, 2: "x"})
    going_on.apply([row(1, "new")])
    assert (states(going_on), values(going_on.target)) == ({0: "released"}, {1: "new", 2: "x"})


def test_a_release_comes_before_the_epoch(parking: BareLane) -> None:
    """And frees its key for it."""
    parking.apply([row(1, BAD)])
    parking.apply([row(1, "parked")])
    mend(parking.target)
    request(parking, 0, 1)
    parking.release_wanted.set()
    parking.apply([row(1, "free"), row(2)])
    assert states(parking) == {0: "released", 1: "released"}
    assert values(parking.target) == {1: "free", 2: "x"}


def test_parked_ones_are_released_in_order(parking: BareLane) -> None:
    parking.apply([row(1, BAD)])
    parking.apply([row(1, "second"), gone(1), row(1, "fourth")])
    mend(parking.target)
    request(parking, 1, 2)
    parking.release()
    assert "is still open" in str(words(parking, 1))
    assert "is still open" in str(words(parking, 2))
    assert values(parking.target) == {}
    request(parking, 3, 1, 2, 0)
    parking.release()
    assert set(states(parking).values()) == {"released"}
    assert values(parking.target) == {1: "fourth"}


def test_part_of_what_is_parked(parking: BareLane) -> None:
    """The key stays held while something of it is open."""
    parking.apply([row(1, BAD)])
    parking.apply([row(1, "second")])
    mend(parking.target)
    request(parking, 0)
    parking.release()
    parking.apply([row(1, "third")])
    assert states(parking) == {0: "released", 1: "parked", 2: "parked"}
    assert values(parking.target) == {1: BAD}


def test_out_of_order_by_force(parking: BareLane) -> None:
    """What came before is superseded by it."""
    parking.apply([row(1, BAD)])
    parking.apply([row(1, "second"), row(1, "third")])
    request(parking, 1, forced=True)
    parking.release()
    assert states(parking) == {0: "superseded", 1: "released", 2: "parked"}
    assert values(parking.target) == {1: "second"}
    parking.apply([row(1, "fourth")])
    assert states(parking)[3] == "parked"


def test_superseded_by_force(going_on: BareLane) -> None:
    going_on.apply([row(1, BAD)])
    going_on.apply([row(1, "new")])
    mend(going_on.target)
    request(going_on, 0, forced=True)
    going_on.release()
    assert (states(going_on), values(going_on.target)) == ({0: "released"}, {1: BAD})


def test_refused_again(going_on: BareLane) -> None:
    """One that is refused takes none of the others along."""
    going_on.apply([row(1, BAD), row(2, BAD), row(3, BAD)])
    going_on.target.execute("alter table flat alter v type varchar(20), add check (id <> 2)")
    request(going_on, 0, 1, 2)
    going_on.release()
    assert states(going_on) == {0: "released", 1: "quarantined", 2: "released"}
    assert "23514" in str(words(going_on, 1))
    assert values(going_on.target) == {1: BAD, 3: BAD}


def test_hidden_columns_are_not_shown_when_it_is_refused_again(bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=OnSkip.CONTINUE, redact=["public.flat.v"])
    lane.apply([row(1, BAD)])
    lane.target.execute("alter table flat alter v type text, add check (id <> 1)")
    request(lane, 0)
    lane.release()
    assert "23514" in str(words(lane, 0))
    assert BAD not in str(words(lane, 0))


def test_a_fenced_writer_releases_nothing(going_on: BareLane) -> None:
    going_on.apply([row(1, BAD)])
    mend(going_on.target)
    request(going_on, 0)
    ledger = Ledger(SCHEMA, going_on.name)
    with going_on.target.engine.begin() as connection:
        newer = ledger.claim(connection, checkpoint="another", delivery="test", at_least=0).generation
        ledger.activate(connection, newer, "another")
    with pytest.raises(Fenced):
        going_on.release()
    assert (states(going_on), values(going_on.target)) == ({0: "quarantined"}, {})


def test_without_its_table(going_on: BareLane) -> None:
    """A release never stops the lane."""
    going_on.apply([row(1, BAD), row(1, BAD, OTHER)])
    going_on.target.execute("drop table flat")
    mend_other = "alter table other alter v type text"
    going_on.target.execute(mend_other)
    request(going_on, 0, 1)
    going_on.release()
    assert states(going_on) == {0: "quarantined", 1: "released"}
    assert "does not exist" in str(words(going_on, 0))


def test_more_than_one_batch(bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=OnSkip.CONTINUE)
    count = RELEASES_AT_ONCE + 10
    lane.apply([row(number, BAD) for number in range(count)])
    mend(lane.target)
    request(lane, *range(count))
    lane.release()
    assert len(values(lane.target)) == RELEASES_AT_ONCE
    assert lane.lane.wants_release
    lane.lane.release()
    assert len(values(lane.target)) == count
    assert set(states(lane).values()) == {"released"}


def test_a_release_that_kills_is_not_tried_again(going_on: BareLane) -> None:
    going_on.apply([row(1, BAD), row(2, BAD)])
    mend(going_on.target)
    request(going_on, 0, 1)
    going_on.release_killers = {1}
    for _ in range(2):  # together, then by itself
        with pytest.raises(Death):
            going_on.release()
        going_on.reopen()
    going_on.release()
    assert states(going_on) == {0: "released", 1: "quarantined"}
    assert "ask again" in str(words(going_on, 1))
    going_on.release_killers = ()
    request(going_on, 1)
    going_on.release()
    assert states(going_on) == {0: "released", 1: "released"}


def test_a_release_and_its_state_are_one(target: Target, going_on: BareLane) -> None:
    """Whatever goes wrong in between leaves neither."""
    going_on.apply([row(1, BAD)])
    mend(target)
    target.execute(
        "create function no() returns trigger language plpgsql security definer as $$"
        " begin if new.state = 'released' then perform pg_terminate_backend(pg_backend_pid()); end if;"
        " return new; end $$"
    )
    target.execute("create trigger no before update on surelane.quarantine for each row execute function no()")
    request(going_on, 0)
    with pytest.raises(Exception, match="terminat"):
        going_on.release()
    assert (states(going_on), values(target)) == ({0: "quarantined"}, {})
    target.execute("drop trigger no on surelane.quarantine")
    going_on.reopen()
    going_on.release()
    assert "ask again" in str(words(going_on, 0))
    request(going_on, 0)
    going_on.release()
    assert (states(going_on), values(target)) == ({0: "released"}, {1: BAD})


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_releases_beside_a_prepared_epoch(end: str, bare_lane: MakeBareLane) -> None:
    """A release is there once, whatever becomes of the epoch that comes after it."""
    lane = bare_lane(on_skip=OnSkip.PARK, mode=CommitMode.TWO_PHASE)
    lane.apply([row(1, BAD)])
    mend(lane.target)
    request(lane, 0)
    lane.release_wanted.set()
    lane.prepare([row(1, "next")])
    assert (states(lane), values(lane.target)) == ({0: "released"}, {1: BAD})
    if end == "abort":
        lane.lane.committer.abort()
        lane.reopen()
        lane.release()
        lane.apply([row(1, "next")])
    else:
        lane.lane.committer.commit()
    assert (states(lane), values(lane.target)) == ({0: "released"}, {1: "next"})
    ((released,),) = lane.target.execute("select count(*) from surelane.quarantine_event where to_state = 'released'")
    assert released == 1


def test_nothing_is_asked_while_nothing_is_held(target: Target, bare_lane: MakeBareLane, statements: list[str]) -> None:
    """A healthy lane pays nothing for all this."""
    lane = bare_lane(on_skip=OnSkip.PARK)
    statements.clear()
    lane.apply([row(1), row(2)])
    assert not [one for one in statements if ".quarantine " in one.replace("\n", " ")]


# breaker


@pytest.mark.parametrize("epochs", [1, 4])
def test_too_many_at_once_trip_the_breaker(epochs: int, bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=OnSkip.CONTINUE, breaker=BreakerSettings(messages=3, minutes=10))
    bad = [row(number, BAD) for number in range(4)]
    for one in bad[: epochs - 1]:
        lane.apply([one])
    with pytest.raises(BreakerTripped, match=r"guard\.breaker") as tripped:
        lane.apply([row(9), *bad[epochs - 1 :]])
    assert tripped.value.exit_status is ExitStatus.BREAKER
    assert "ops/runbooks/quarantined-message.md" in str(tripped.value)
    assert len(states(lane)) == epochs - 1
    assert values(lane.target) == {}
    lane.reopen()
    with pytest.raises(BreakerTripped):
        lane.apply([row(9), *bad[epochs - 1 :]])
    mend(lane.target)
    lane.reopen()
    lane.apply([row(9), *bad[epochs - 1 :]])
    assert len(states(lane)) == epochs - 1, "what is mended is not skipped"


def test_the_breaker_closes_with_time(bare_lane: MakeBareLane) -> None:
    breaker = BreakerSettings(messages=2, minutes=10)
    lane = bare_lane(on_skip=OnSkip.CONTINUE, breaker=breaker)
    registry = CollectorRegistry()
    metrics = LaneMetrics(lane.name, registry)

    def shown(name: str, breaker: BreakerSettings | None = breaker) -> float | None:
        with lane.target.engine.connect() as connection:
            show_breaker(connection, breaker, Quarantine(SCHEMA, lane.name), metrics)
        return registry.get_sample_value(f"surelane_guard_breaker_{name}", {"lane": lane.name})

    assert shown("messages", breaker=None) is None
    assert (shown("messages"), shown("limit")) == (0, 2)
    lane.apply([row(1, BAD), row(2, BAD)])
    assert shown("messages") == 2
    with pytest.raises(BreakerTripped):
        lane.apply([row(3, BAD)])
    assert shown("messages") == 2
    lane.target.execute("update surelane.quarantine_event set at = at - interval '11 minutes'")
    assert shown("messages") == 0
    lane.apply([row(3, BAD)])
    assert len(states(lane)) == 3


def test_parked_messages_do_not_trip_the_breaker(bare_lane: MakeBareLane) -> None:
    lane = bare_lane(on_skip=OnSkip.PARK, breaker=BreakerSettings(messages=1, minutes=10))
    lane.apply([row(1, BAD)])
    lane.apply([row(1), row(1, "a"), row(1, "b")])
    assert list(states(lane).values()) == ["quarantined", "parked", "parked", "parked"]
