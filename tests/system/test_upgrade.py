"""A lane goes from the version before the newest migration to this one: both really run, side by side."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from app.errors import ExitStatus
from app.ledger.revision import head
from app.savepoint.folder import SavepointFolder
from app.snapshot.snapshot_directory import MAX_NAME_CHARACTERS
from tests.commands import Ended
from tests.fix_doubt import changes
from tests.fix_lane import ROOT, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Reader, questions
from tests.runbook import play, runner
from tests.workload import COUNTER
from tools.devstack.sections import merged


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


#: the first revision of the ledger whose version makes savepoints
FIRST = 17
REVISIONS = [f"{number:04}" for number in range(FIRST, int(head()) + 1)]
#: (made by, resumed by); the normal run has the farthest ones
PAIRS = [(made, by) for made in REVISIONS for by in REVISIONS]
FARTHEST = [(REVISIONS[0], REVISIONS[-1]), (REVISIONS[-1], REVISIONS[0])]
TABLE = ROOT / "docs/OPERATIONS.md"


def has_parent(commit: str) -> bool:
    """False for the first commit of a shallow clone, which seems to have added every file."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{commit}^"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def tree_of(revision: str, folder: Path) -> Path:
    """The sources of the last version with this revision of the ledger."""
    if revision == head():
        return ROOT
    (added,) = (ROOT / "migrations/versions").glob(f"m{int(revision) + 1:04}_*.py")
    commit = git("log", "--diff-filter=A", "--format=%H", "--", str(added.relative_to(ROOT))).splitlines()
    if not commit or not has_parent(commit[-1]):
        pytest.skip("the newest migration is not committed yet, or this clone has no history")
    tree = folder / f"tree-{revision}"
    if not tree.exists():
        tree.mkdir()
        command = ["git", "-C", str(ROOT), "archive", f"{commit[-1]}^"]
        archive = subprocess.run(command, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    return tree


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trees")


@pytest.fixture(scope="module")
def old_tree(trees: Path) -> Path:
    """The sources of the version before the newest migration."""
    return tree_of(REVISIONS[-2], trees)


def program_of(tree: Path, folder: Path) -> Path:
    """`surelane` of a tree of sources."""
    program = folder / f"surelane-{tree.name}"
    program.write_text(f'#!/bin/sh\ncd {tree} && PYTHONPATH={tree} exec {sys.executable} -m app.cli "$@"\n')
    program.chmod(0o755)
    return program


def called(program: Path, *arguments: str, config: Path) -> "subprocess.CompletedProcess[str]":
    words = [str(program), *arguments, "--config", str(config)]
    return subprocess.run(words, check=False, timeout=300, capture_output=True, text=True)


@pytest.fixture
def new_program(tmp_path: Path) -> Path:
    return program_of(ROOT, tmp_path)


def test_from_the_version_before_the_newest_migration(
    old_tree: Path,
    new_program: Path,
    lane: MakeLane,
    lane_process: MakeProcess,
    target: Target,
    topic: Topic,
    tmp_path: Path,
) -> None:
    """Under load: refused with the lane running on, then done; afterwards the old version refuses the ledger."""
    target.create(COUNTER)
    target.unmigrate()
    made = lane("two-phase", epoch={"max_messages": 50}, savepoints={"directory": str(tmp_path / "savepoints")})
    old, config = program_of(old_tree, tmp_path), made.config_file
    assert called(old, "migrate", config=config).returncode == 0
    ((revision,),) = target.execute("select version_num from surelane.surelane_version")
    process = lane_process(made, env={"PYTHONPATH": str(old_tree)}).start()
    topic.send(changes(0, 300))
    process.until(target.epochs, why="the old version's first epoch")
    with Reader(target, topic) as reader:
        other = tmp_path / "other.yaml"
        other.write_text(yaml.safe_dump(merged(made.raw, {"target": {"tables": {"shop.*": "public.*"}}})))
        refused = called(new_program, "upgrade", "--from", str(old), "--old-config", str(config), config=other)
        assert refused.returncode == ExitStatus.REFUSED, refused.stderr
        assert "routes:public.*" in refused.stderr
        assert SavepointFolder(tmp_path / "savepoints").names() == []
        topic.send(changes(300, 300))
        process.until(lambda: made.caught_up(topic), why="the lane goes on")
        topic.send(changes(600, 300))

        def call(*words: str) -> Ended:
            more = ["--until-caught-up"] if words[0] == "run" else []
            if words[0] == "run":
                assert process.wait() == 0
                topic.send(changes(900, 300))
                back = called(old, *words, *more, config=config)
                assert "migrations only go forward" in back.stderr
            ended = called(new_program, *words, *more, config=config)
            return Ended(ended.returncode, ended.stdout, ended.stderr)

        done, _, _ = play("upgrade.md", "Take the lane over", runner(call), old=str(old), name="up", lane=made.name)
        assert f"from revision {revision} to {head()}: the old version refuses it" in done.out
    questions(target, topic, reader=reader)


@pytest.mark.full
def test_from_this_version_to_itself_and_back(
    new_program: Path, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """Nothing is migrated, so the old version may go on; with the longest name that a savepoint may have."""
    target.create(COUNTER)
    name = "u" * MAX_NAME_CHARACTERS
    made = lane("two-phase", savepoints={"directory": str(tmp_path / "savepoints")})
    config = made.config_file
    process = lane_process(made).start()
    topic.send(changes(0, 300))
    process.until(target.epochs, why="the first epoch")
    done = called(new_program, "upgrade", "--from", str(new_program), "--name", name, config=config)
    assert done.returncode == 0, done.stderr
    assert "the old version may go on, too" in done.stdout
    assert process.wait() == 0
    topic.send(changes(300, 300))
    back = called(new_program, "run", "--until-caught-up", "--from-savepoint", name, config=config)
    assert back.returncode == 0, back.stderr
    questions(target, topic)


def test_an_old_version_that_is_not_there(new_program: Path, lane: MakeLane, target: Target) -> None:
    target.create(COUNTER)
    made = lane("two-phase")
    refused = called(new_program, "upgrade", "--from", "/no/surelane", config=made.config_file)
    assert refused.returncode == ExitStatus.ENVIRONMENT
    assert "--from names the program" in refused.stderr


@pytest.mark.costly(1)
@pytest.mark.parametrize(
    ("made", "by"),
    [*FARTHEST, *(pytest.param(*pair, marks=pytest.mark.full) for pair in PAIRS if pair not in FARTHEST)],
)
def test_which_version_resumes_which_savepoint(
    made: str, by: str, trees: Path, lane: MakeLane, target: Target, topic: Topic, tmp_path: Path
) -> None:
    """As the table of the page says; by revisions of the ledger."""
    target.create(COUNTER)
    target.unmigrate()
    made_by, resumed_by = (program_of(tree_of(one, trees), tmp_path) for one in (made, by))
    one = lane("two-phase", savepoints={"directory": str(tmp_path / "savepoints")})
    config = one.config_file
    topic.send(changes(0, 300))
    for words in (["migrate"], ["run", "--until-caught-up"], ["savepoint", "create", "one", "--stop"]):
        ended = called(made_by, *words, config=config)
        assert ended.returncode == 0, ended.stderr
    topic.send(changes(300, 300))
    go_on = ["run", "--until-caught-up", "--from-savepoint", "one"]
    ended = called(resumed_by, *go_on, config=config)
    found = {0: "yes", ExitStatus.TARGET: "no"}[ended.returncode]
    if found == "no" and called(resumed_by, "migrate", config=config).returncode == 0:
        ended = called(resumed_by, *go_on, config=config)
        assert ended.returncode == 0, ended.stderr
        found = "after `migrate`"
    if found != "no":
        questions(target, topic)
    assert found == cell(made, by)


def cell(made: str, by: str) -> str:
    """What the page says."""
    rows = [[one.strip() for one in line.split("|")[1:-1]] for line in TABLE.read_text().splitlines() if "|" in line]
    (top,) = (row for row in rows if row[0] == "ledger revision of the savepoint's version")
    (found,) = (row for row in rows if row[0] == made)
    return found[top.index(by)]
