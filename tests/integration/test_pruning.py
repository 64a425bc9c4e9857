"""The ledger forgets: rows older than the newest KEEP_EPOCHS of the lane, and generations that have none."""

import psycopg2
import pytest

from app.ledger import store
from app.model.gid import Gid
from tests import messages as m
from tests.fix_bare_lane import BareLane, MakeBareLane
from tests.fix_target import SCHEMA, Target
from tests.messages import Debezium, Table

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
d = Debezium()


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEEP_EPOCHS", 4)
    monkeypatch.setattr(store, "KEEP_GENERATIONS", 2, raising=False)


def epoch(made: BareLane, number: int) -> None:
    """One epoch of one row."""
    made.apply([d.create(FLAT, {"id": number, "v": "a"})])


def ledger_of(target: Target, lane: str) -> list[tuple[int, int]]:
    """Generation and epoch of each row."""
    rows = target.execute(f"select generation, epoch from {SCHEMA}.ledger where lane = :lane order by 1, 2", lane=lane)
    return [tuple(row) for row in rows]


def generations(target: Target, lane: str) -> list[int]:
    """Those that are known."""
    rows = target.execute(f"select generation from {SCHEMA}.generation where lane = :lane order by 1", lane=lane)
    return [row.generation for row in rows]


def test_a_lane_that_restarts_often_is_pruned(bare_lane: MakeBareLane, target: Target) -> None:
    """Across its generations, none of which comes to PRUNE_EVERY_EPOCHS; other lanes keep theirs."""
    target.create(FLAT)
    other, made = bare_lane(), bare_lane()
    epoch(other, 100)
    for number in range(8):
        epoch(made, number)
        made.reopen()
    epoch(made, 8)
    rows, known = ledger_of(target, made.name), generations(target, made.name)
    newest = known[-1]
    assert [generation for generation, _ in rows] == list(range(newest - 4, newest + 1))  # 4, and the epoch after
    assert known == list(range(newest - 4, newest + 1))
    assert len(ledger_of(target, other.name)) == 2
    assert set(target.rows("public.flat")) == {(100,), *((number,) for number in range(9))}


def test_what_is_prepared_keeps_its_generation(bare_lane: MakeBareLane, target: Target) -> None:
    """`indoubt` finds the checkpoint of a transaction by its generation."""
    target.create(FLAT)
    made = bare_lane()
    epoch(made, 0)
    first = generations(target, made.name)[0]
    gid = str(Gid(made.name, first, 17))
    made.reopen()
    connection = psycopg2.connect(target.server.url(target.database))
    with connection.cursor() as cursor:
        cursor.execute("create table left_behind (id int)")
        cursor.execute("prepare transaction %s", (gid,))
    connection.close()
    for number in range(1, 8):
        epoch(made, number)
        made.reopen()
    epoch(made, 8)
    assert first not in {generation for generation, _ in ledger_of(target, made.name)}
    assert generations(target, made.name)[0] == first
    assert len(generations(target, made.name)) == 6


def test_the_newest_row_stays(bare_lane: MakeBareLane, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where the lane goes on."""
    monkeypatch.setattr(store, "KEEP_EPOCHS", 0)
    target.create(FLAT)
    made = bare_lane()
    for number in range(3):
        epoch(made, number)
        made.reopen()
    epoch(made, 3)
    newest = generations(target, made.name)[-1]
    assert [generation for generation, _ in ledger_of(target, made.name)] == [newest - 1, newest]
    made.check()
