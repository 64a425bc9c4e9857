"""ops/runbooks/savepoints.md, command by command, on a lane that runs; the target goes back to the savepoint."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from app.errors import ExitStatus
from tests.commands import Ended, apart
from tests.fix_doubt import EPOCH, counted
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_recover import new_database
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import difference, fold, questions, up_to
from tests.runbook import play, runner
from tests.workload import COUNTER
from tools.devstack.postgres import SUPERUSER
from tools.devstack.postgres_binaries import bin_dir
from tools.devstack.roles import OWNER
from tools.devstack.sections import merged

PAGE = "savepoints.md"


@pytest.fixture
def made(lane: MakeLane, target: Target, tmp_path: Path) -> LaneUnderTest:
    """Savepoints and snapshots are kept in folders of the test."""
    target.create(COUNTER)
    snapshots = {
        "driver": "dump",
        "directory": str(tmp_path / "snapshots"),
        "url": target.server.url(target.database, SUPERUSER),
        "bin_dir": str(bin_dir()),
    }
    return lane("two-phase", savepoints={"directory": str(tmp_path / "savepoints")}, snapshots=snapshots)


@pytest.fixture
def undo() -> Iterator[list[Callable[[], None]]]:
    """Databases that were restored."""
    found: list[Callable[[], None]] = []
    yield found
    for one in found:
        one()


def caller(made: LaneUnderTest, surelane: Callable[..., Ended]) -> Callable[..., Ended]:
    """What `play` takes. `run` and `replay` are processes, and a `run` ends when it has caught up."""

    def call(*words: str) -> Ended:
        config = [] if "--config" in words else ["--config", str(made.config_file)]
        if words[0] not in ("run", "replay"):
            return surelane(*words, *config)
        more = ["--until-caught-up"] if words[0] == "run" else []
        return apart(*words, *more, *config)

    return runner(call)


def test_every_command(
    made: LaneUnderTest,
    lane_process: MakeProcess,
    surelane: Callable[..., Ended],
    target: Target,
    topic: Topic,
    undo: list[Callable[[], None]],
    tmp_path: Path,
) -> None:
    call = caller(made, surelane)
    topic.send(counted(0))
    process = lane_process(made).start()
    process.until(lambda: made.caught_up(topic), why="the first messages")
    position = target.position()
    goal = f"{topic.name}[0]@{topic.end}"
    taken = play(PAGE, "Take one", call, name="one", position=goal)
    assert [one.status for one in taken] == [0, 0, 0]
    topic.send(counted(EPOCH))
    process.until(lambda: made.caught_up(topic), why="messages after it")
    stopped = play(PAGE, "Stop with one", call, last="last")
    assert process.wait() == 0
    assert [one.status for one in stopped] == [0, ExitStatus.REFUSED, 0]
    assert "surelane run --from-savepoint last" in stopped[1].err

    new = tmp_path / "new.yaml"
    new.write_text(yaml.safe_dump(merged(made.raw, {"target": {"tables": {"shop.*": "public.*"}}})))
    checked = play(PAGE, "Go on from it", call, name="one", new=str(new), route="public.*")
    assert [one.status for one in checked] == [ExitStatus.DIFFERENT, 0, ExitStatus.REFUSED]
    assert f"{EPOCH:,} messages past it" in checked[2].err
    assert f"surelane replay --from earliest --to {goal}" in checked[2].err
    questions(target, topic)

    target.execute(f'grant create on database "{target.database}" to {OWNER}')
    (looked,) = play(PAGE, "Look at its tables", call, goal=goal, schema="before")
    assert looked.status == 0, looked.err
    wanted = fold(up_to(topic.sent, position))[COUNTER.full_name]
    assert difference("before.counter", target.rows(f"before.{COUNTER.name}"), wanted) is None

    shutil.copytree(tmp_path / "savepoints", tmp_path / "moved")
    there = made.changed(savepoints={"directory": str(tmp_path / "moved")})
    assert [one.status for one in play(PAGE, "Move it", caller(there, surelane), name="one")] == [0, 0]
    (tmp_path / "moved/last/SHA256SUMS").unlink()
    refused = play(PAGE, "When verify refuses", caller(there, surelane), broken="last")
    assert [one.status for one in refused] == [ExitStatus.DIFFERENT, 0]

    copy = new_database(target, "back", undo)
    back = there.at(copy)

    def go_back(program: str, *words: str) -> Ended:
        return caller(there if words[0] == "snapshot" else back, surelane)(program, *words)

    place = copy.server.url(copy.database, SUPERUSER)
    restored = play(PAGE, "Go back to it", go_back, name="one", place=place, lane=made.name, position=goal)
    assert [one.status for one in restored] == [0, 0, 0]
    questions(copy, topic)
