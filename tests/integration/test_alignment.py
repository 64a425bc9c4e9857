"""`epoch.align: source-transaction`: an epoch never ends inside a transaction of the source."""

import pytest

from app.config.on_skip import OnSkip
from app.config.settings import CommitMode
from app.errors import ConfigInvalid, ExitStatus, TransactionTooLong
from tests import messages as m
from tests.fix_bare_lane import TOPIC, BareLane, MakeBareLane
from tests.fix_lane import MODES
from tests.fix_target import Target
from tests.messages import Debezium, Message, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
PARENT = Table("parent", {"id": m.INT})
CHILD = Table(
    "child", {"id": m.INT, "parent": m.INT}, constraints=("foreign key (parent) references parent deferrable",)
)
#: of what is in quarantine
OFFSETS = 'select "offset" from surelane.quarantine'


def transaction(d: Debezium, first: int, count: int, v: str = "a") -> list[Message]:
    """So many new rows, with markers."""
    changes = [d.begin()]
    changes += [d.create(FLAT, {"id": number, "v": v}) for number in range(first, first + count)]
    return [*changes, d.end()]


def applied(lane: BareLane) -> int:
    """Up to where."""
    return lane.lane.position[TOPIC]


@pytest.fixture(params=MODES, ids=lambda mode: mode.value)
def aligned(request: pytest.FixtureRequest, bare_lane: MakeBareLane, target: Target) -> BareLane:
    """In each mode."""
    target.create(FLAT)
    return bare_lane(mode=request.param, transaction_limit=1000)


def test_an_epoch_ends_where_the_last_whole_transaction_does(aligned: BareLane, target: Target) -> None:
    d = Debezium()
    first, second = transaction(d, 0, 5), transaction(d, 10, 5)
    record = aligned.apply([*first, *second[:3]])
    assert (applied(aligned), record.read[TOPIC]) == (7, 10)
    assert (record.counts.consumed, record.counts.applied, record.counts.filtered) == (7, 5, 2)
    assert len(target.rows("public.flat")) == 5
    record = aligned.apply(second[3:])
    assert (applied(aligned), record.read[TOPIC], record.read_end) == (14, 14, None)
    assert (record.span.start[TOPIC], record.counts.consumed) == (7, 7)
    aligned.check()


def test_a_transaction_longer_than_an_epoch_waits_until_it_is_whole(aligned: BareLane, target: Target) -> None:
    """Epochs of nothing come before it; a process that ends meanwhile reads it again."""
    d = Debezium()
    whole = transaction(d, 0, 40)
    for at in range(0, 40, 10):
        record = aligned.apply(whole[at : at + 10])
        assert (record.counts.consumed, record.plan, record.read[TOPIC]) == (0, "none", at + 10)
        assert target.rows("public.flat") == {}
        if at == 10:
            aligned.reopen()
    record = aligned.apply(whole[40:])
    assert (record.counts.consumed, record.counts.applied) == (42, 40)
    aligned.check()
    assert target.ledger_sum(aligned.name).consumed == 42


def test_an_epoch_that_is_replayed_ends_where_it_did(aligned: BareLane, target: Target) -> None:
    d = Debezium()
    first, second = transaction(d, 0, 5), transaction(d, 10, 5)
    aligned.apply([*first, *second[:3]])
    aligned.reopen()
    aligned.replay()
    assert (applied(aligned), aligned.lane.read[TOPIC]) == (7, 10)
    last = target.ledger(aligned.name)
    assert last is not None
    assert last.counts.consumed == 7
    aligned.apply(second[3:])
    aligned.check()
    assert len(target.rows("public.flat")) == 10


def test_a_new_checkpoint_begins_with_what_was_held(aligned: BareLane, target: Target) -> None:
    """Its first epoch is none that the target has, though it ends where was read before."""
    d = Debezium()
    first, second = transaction(d, 0, 5), transaction(d, 10, 5)
    aligned.apply([*first, *second[:3]])
    aligned.reopen()
    aligned.begin_anew()
    last = target.ledger(aligned.name)
    assert last is not None
    assert (last.counts.consumed, last.span.start[TOPIC], last.read[TOPIC]) == (0, 7, 10)
    aligned.apply(second[3:])
    aligned.check()
    assert target.ledger_sum(aligned.name).duplicate == 0


def test_without_alignment_what_was_held_is_applied_with_the_next_epoch(
    bare_lane: MakeBareLane, target: Target
) -> None:
    """The configuration was changed between two starts."""
    target.create(FLAT)
    d = Debezium()
    lane = bare_lane(transaction_limit=1000)
    whole = transaction(d, 0, 10)
    lane.apply(whole[:5])
    lane.transaction_limit = None
    lane.reopen()
    record = lane.apply(whole[5:7])
    assert (applied(lane), record.counts.consumed) == (7, 7)
    lane.check()


def test_a_condemned_message_that_waits_goes_into_quarantine_with_its_transaction(
    bare_lane: MakeBareLane, target: Target
) -> None:
    """Neither before it nor not at all."""
    target.create(FLAT)
    d = Debezium()
    lane = bare_lane(transaction_limit=1000, on_skip=OnSkip.CONTINUE)
    whole = transaction(d, 0, 6)
    whole[2] = Message(key=whole[2].key, value=b"{")
    lane.apply(whole[:5])
    assert target.execute("select count(*) from surelane.quarantine") == [(0,)]
    record = lane.apply(whole[5:])
    assert (record.counts.consumed, record.counts.quarantined, record.counts.applied) == (8, 1, 5)
    assert target.execute(OFFSETS) == [(2,)]


def test_a_message_that_kills_behind_the_cut_is_found_and_kept(bare_lane: MakeBareLane, target: Target) -> None:
    """It is condemned while its transaction waits, and is in the quarantine when that is applied."""
    target.create(FLAT)
    d = Debezium()
    lane = bare_lane(transaction_limit=1000, on_skip=OnSkip.CONTINUE)
    whole, deaths = transaction(d, 0, 30), 0
    lane.killers = {7}
    for part in (whole[:20], whole[20:]):
        while True:
            try:
                lane.apply(part)
                break
            except BaseException as death:  # noqa: BLE001
                assert type(death).__name__ == "Death"  # noqa: PT017
                deaths += 1
                assert deaths < 20
                lane.reopen()
    assert target.execute(OFFSETS) == [(7,)]
    assert len(target.rows("public.flat")) == 29
    assert target.ledger_sum(lane.name).consumed == 32


def test_a_transaction_beyond_the_limit_stops_the_lane(bare_lane: MakeBareLane, target: Target) -> None:
    target.create(FLAT)
    d = Debezium()
    lane = bare_lane(transaction_limit=20)
    first, long = transaction(d, 0, 3), transaction(d, 100, 40)
    lane.apply([*first, *long[:15]])
    with pytest.raises(TransactionTooLong, match=r"25 messages, from made-up\[0\]@5 on") as stopped:
        lane.apply(long[15:25])
    assert stopped.value.exit_status is ExitStatus.TRANSACTION
    assert "epoch.max_transaction_messages" in str(stopped.value)
    assert len(target.rows("public.flat")) == 3
    lane.transaction_limit = 100
    lane.reopen()
    lane.apply(long[15:])
    assert len(target.rows("public.flat")) == 43


def test_a_connector_without_transaction_metadata_is_named(bare_lane: MakeBareLane, target: Target) -> None:
    target.create(FLAT)
    lane = bare_lane(transaction_limit=20)
    with pytest.raises(ConfigInvalid, match=r"made-up\[0\]@0 does not say which transaction"):
        lane.apply([Debezium().create(FLAT, {"id": 1, "v": "a"})])
    assert target.rows("public.flat") == {}


@pytest.mark.parametrize("mode", [CommitMode.TWO_PHASE, CommitMode.LEDGER])
def test_a_child_before_its_parent_comes_with_it(mode: CommitMode, bare_lane: MakeBareLane, target: Target) -> None:
    """A deferred foreign key holds at a transaction's end only: nothing of it may be condemned before."""
    target.create(PARENT, CHILD)
    d = Debezium()
    lane = bare_lane(mode=mode, transaction_limit=1000, on_skip=OnSkip.CONTINUE)
    begin, child = d.begin(), d.create(CHILD, {"id": 1, "parent": 2})
    parent, end = d.create(PARENT, {"id": 2}), d.end()
    lane.apply([begin, child])
    lane.apply([parent, end])
    assert target.execute(OFFSETS) == []
    lane.check()
    assert target.rows("public.child") == {(1,): {"id": 1, "parent": 2}}


def test_how_many_messages_wait_is_a_metric(bare_lane: MakeBareLane, target: Target) -> None:
    target.create(FLAT)
    lane, d = bare_lane(transaction_limit=1000), Debezium()
    whole = transaction(d, 0, 10)
    for part, waiting in ((whole[:4], 4), (whole[4:], 0)):
        lane.apply(part)
        assert lane.metrics.get_sample_value("surelane_held_messages", {"lane": lane.name}) == waiting
