"""`guard.url` names another database than the target's: what the guard knows outlives what happens there."""

import pytest

from app.config.on_skip import OnSkip
from app.errors import Unreachable
from tests import messages as m
from tests.fix_bare_lane import LIMITS, BareLane, Death, MakeBareLane
from tests.fix_target import Target
from tests.messages import Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
d = Debezium()
#: `fatal` ends the session that writes it
FATAL = """
create function hit() returns trigger language plpgsql security definer as $$
begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$
"""
TRIGGER = "create trigger hit before insert on flat for each row when (new.v = 'fatal') execute function hit()"


@pytest.fixture
def lane(target: Target, elsewhere: Target, bare_lane: MakeBareLane) -> BareLane:
    """A lane that skips, its guard in the other database."""
    target.create(FLAT)
    return bare_lane(on_skip=OnSkip.CONTINUE, guard=elsewhere)


def rows(count: int, fatal: int) -> list[Message]:
    return [d.create(FLAT, {"id": number, "v": "fatal" if number == fatal else "x"}) for number in range(count)]


def recorded(database: Target) -> tuple[int, int]:
    """Rows of attempt and suspect."""
    (row,) = database.execute(
        "select (select count(*) from surelane.attempt) as begun, (select count(*) from surelane.suspect) as suspected"
    )
    return row.begun, row.suspected


def skipped(lane: BareLane) -> list[tuple[int, int]]:
    """Offset and attempts of what is in quarantine."""
    return [tuple(row) for row in lane.target.execute('select "offset", attempts from surelane.quarantine')]


def check(lane: BareLane, bad: int) -> None:
    """Everything else is applied, nothing is suspected any more, and the target has nothing of the guard's own."""
    lane.sent = [one for one in lane.sent if one.position.offset != bad]
    lane.check()
    assert (recorded(lane.guard), recorded(lane.target)) == ((1, 0), (0, 0))


def test_deaths_are_counted_there(lane: BareLane) -> None:
    lane.killers = {70}
    for _ in range(3 + LIMITS.max_attempts):  # twice the epoch, a part, the message
        with pytest.raises(Death):
            lane.apply(rows(200, -1))
        assert recorded(lane.target) == (0, 0)
        lane.reopen()
        assert recorded(lane.guard)[1] == 1
    lane.apply(rows(200, -1))
    assert skipped(lane) == [(70, LIMITS.max_attempts)]
    check(lane, 70)


def test_a_message_that_ends_the_targets_session_each_time(target: Target, lane: BareLane) -> None:
    """The epoch is rolled back, what the guard counts is not."""
    target.execute(FATAL)
    target.execute(TRIGGER)
    losses = 0
    while losses < 20:
        try:
            lane.apply(rows(200, 33))
        except Unreachable:
            losses += 1
            lane.reconnect()
        else:
            break
    assert skipped(lane) == [(33, LIMITS.max_losses)]
    assert losses <= 3 + LIMITS.max_losses
    check(lane, 33)


def test_while_it_is_away_nothing_is_processed(lane: BareLane, elsewhere: Target) -> None:
    lane.apply(rows(1, -1))
    elsewhere.server.execute(f'alter database "{elsewhere.database}" allow_connections false')
    elsewhere.cut_connections()
    try:
        with pytest.raises(Unreachable):
            lane.apply([d.create(FLAT, {"id": 5, "v": "y"})])
    finally:
        elsewhere.server.execute(f'alter database "{elsewhere.database}" allow_connections true')
    assert (5,) not in lane.target.rows("public.flat")
    lane.reconnect()
    lane.apply([d.create(FLAT, {"id": 5, "v": "y"})])
    lane.check()
    assert skipped(lane) == []
