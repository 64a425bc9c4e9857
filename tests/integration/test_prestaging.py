"""Rows that are in the target before their turn: taken in every mode, and nobody's business but this writer's."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.apply import prestaging
from app.apply.arrange import Epoch
from app.apply.prestaging import Prestaged, Prestaging
from app.apply.shapes import Shape
from tests import messages as m
from tests.fix_lane import MODES, Hold, MakeLane, MakeProcess
from tests.fix_target import Target, quoted
from tests.fix_topic import Topic
from tests.messages import Debezium, Message, Table
from tests.oracle import Reader, questions
from tests.poison import Expected, check, row, send
from tests.waiting import eventually
from tests.workload import changes_of_few

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
EPOCH_MESSAGES = 200
#: characters of a row, so that an epoch of them is worth it
LARGE = 12_000


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Prestaged]:
    """What was taken of it by lanes in this process, which find any row worth it."""
    taken: list[Prestaged] = []
    take = Prestaging.take

    def noticed(self: Prestaging, epoch: Epoch, index: int, shape: Shape) -> Prestaged | None:
        found = take(self, epoch, index, shape)
        taken.extend([found] if found else [])
        return found

    monkeypatch.setattr(Prestaging, "take", noticed)
    monkeypatch.setattr(prestaging, "WORTH_BYTES", 1)
    return taken


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_every_mode_takes_what_was_staged_ahead(
    mode: str, lane: MakeLane, target: Target, topic: Topic, used: list[Prestaged]
) -> None:
    """In its place among what comes before and after it, and with a restart between."""
    target.create(FLAT)
    chance, made = random.Random(3), lane(mode, epoch={"max_messages": EPOCH_MESSAGES}, stage={"tasks": 0})
    with Reader(target, topic) as reader:
        for _ in range(2):
            topic.send(changes_of_few(FLAT, chance, 11 * EPOCH_MESSAGES))
            made.run_until_caught_up()
    questions(target, topic, reader=reader, exactly_once=made.exactly_once)
    assert len({one.table.name for one in used}) > 2, "tables in turns"
    assert len(used) > 10
    assert _staged(target) == 0, "what was taken is deleted with its epoch"


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_what_cannot_be_staged_ahead_is_found_in_its_own_epoch(
    mode: str, lane: MakeLane, target: Target, topic: Topic, used: list[Prestaged]
) -> None:
    target.execute("create table flat (id int primary key, v text not null)")
    made = lane(mode, epoch={"max_messages": 50}, stage={"tasks": 0})
    bad = row(1000, "a\0b")
    offsets = send(topic, [*(row(n) for n in range(230)), bad, *(row(n, "after") for n in range(150, 400))], [bad])
    with Reader(target, topic) as reader:
        made.run_until_caught_up()
        check(made, target, topic, dict.fromkeys(offsets, (bad, Expected(3, "22021", "apply"))), reader)
    assert used


def test_an_epoch_that_is_shorter_than_what_was_staged(
    lane: MakeLane, hold: Hold, target: Target, topic: Topic, used: list[Prestaged]
) -> None:
    """What came after the lane was told to catch up is read ahead, and is none of the last epoch's business."""
    target.create(FLAT)
    d, made = Debezium(), lane("two-phase", epoch={"max_messages": 100}, stage={"tasks": 0})
    topic.send([d.create(FLAT, {"id": number, "v": "a"}) for number in range(330)])
    held = hold("after-begin", at=2)
    with ThreadPoolExecutor(1) as thread:
        run = thread.submit(made.run_until_caught_up)
        held.reached()
        topic.send([d.update(FLAT, {"id": number, "v": "b"}) for number in range(330)])
        held.release()
        run.result()
    assert sum(one.consumed for one in target.epochs()) == 330
    made.run_until_caught_up()
    questions(target, topic)
    assert used


def test_killed_with_rows_staged_ahead(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """They are dropped with their table by the next start, and applied once."""
    target.create(FLAT)
    made = lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, stage={"tasks": 0})
    topic.send(_large(8 * EPOCH_MESSAGES))
    held = tmp_path / "after-merge"
    with Reader(target, topic) as reader:
        process = lane_process(made, failpoint=f"after-merge=wait:{tmp_path}@3").start()
        process.until(held.exists, why="the third epoch")
        eventually(lambda: _staged(target) >= EPOCH_MESSAGES, why="rows of the fourth epoch")
        process.kill()
        held.unlink()
        made.run_until_caught_up()
    questions(target, topic, reader=reader)
    assert _staged(target) == 0


def _large(count: int) -> list[Message]:
    d = Debezium()
    return [d.create(FLAT, {"id": number, "v": chr(97 + number % 26) * LARGE}) for number in range(count)]


def _staged(target: Target) -> int:
    """Rows in staging tables that anybody can see."""
    names = target.execute("""
        select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relpersistence = 'u' and c.relname like 'stage%'
    """)
    return sum(target.execute(f"select count(*) from {quoted(name)}")[0][0] for (name,) in names)
