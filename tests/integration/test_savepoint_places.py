"""Savepoints in S3, which moto serves over HTTP; the client is PyArrow's own. And places that cannot be used."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from moto.core import set_initial_no_auth_action_count

from app.errors import ConfigInvalid, ExitStatus, Refused
from app.failpoint import VARIABLE
from app.model.offsets import Offsets
from app.savepoint.folder import CONTENT, SUMS, SavepointFolder
from tests.fix_doubt import EPOCH, counted
from tests.fix_lane import ROOT, MakeLane, MakeProcess
from tests.fix_s3 import Storage
from tests.fix_snapshot import Snapshotting
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.savepoints import called, configure, savepoint
from tests.workload import COUNTER

COMMAND = [sys.executable, "-m", "app.cli"]


@pytest.fixture
def folder(storage: Storage) -> SavepointFolder:
    return SavepointFolder(storage.uri())


def test_what_is_written_is_read(folder: SavepointFolder, storage: Storage) -> None:
    """Two objects, the one that makes it exist last."""
    assert (folder.names(), folder.listing()) == ([], ([], {}))
    made = savepoint(snapshot=("a-snapshot", "its sums"))
    written = folder.write(made)
    assert written == storage.uri("lanes/one")
    assert folder.get("one") == made
    assert folder.problem("one") is None
    assert set(storage.objects()) == {f"lanes/one/{CONTENT}", f"lanes/one/{SUMS}"}
    ended = [one for one in storage.requests if one.startswith("POST") and "uploadId" in one]
    assert [CONTENT in ended[0], SUMS in ended[1]] == [True, True]
    with pytest.raises(Refused, match="there is a savepoint one already"):
        folder.write(made)
    with pytest.raises(Refused, match="there is a savepoint one already"):
        folder.check_free("one")


def test_the_bucket_itself(storage: Storage) -> None:
    folder = SavepointFolder(storage.uri(""))
    folder.write(savepoint())
    assert [one.name for one in folder.listing()[0]] == ["one"]
    assert set(storage.objects()) == {f"one/{CONTENT}", f"one/{SUMS}"}


def test_disposed_of(folder: SavepointFolder, storage: Storage) -> None:
    folder.write(savepoint())
    folder.write(savepoint("two"))
    folder.dispose("one")
    assert folder.names() == ["two"]
    assert {key for key in storage.objects() if "one" in key} == set()
    with pytest.raises(Refused, match="there is no savepoint one"):
        folder.dispose("one")
    assert folder.problem("one") == f"there is no savepoint one in {storage.uri()}"


@pytest.mark.parametrize(
    ("missing", "problem"),
    [(SUMS, f"{SUMS}: No such file or directory"), (CONTENT, f"{CONTENT}: No such file or directory")],
)
def test_half_a_one(folder: SavepointFolder, storage: Storage, missing: str, problem: str) -> None:
    """It is shown, cannot be used, and can be disposed of."""
    folder.write(savepoint())
    storage.remove(f"lanes/one/{missing}")
    assert folder.listing() == ([], {"one": problem})
    assert folder.problem("one") == problem
    with pytest.raises(Refused, match="cannot be used"):
        folder.get("one")
    folder.dispose("one")
    assert folder.names() == []


@pytest.mark.parametrize("file", [CONTENT, SUMS])
@pytest.mark.parametrize("cut", [0, 10, 63], ids="from {}".format)
def test_what_was_changed_is_noticed(folder: SavepointFolder, storage: Storage, file: str, cut: int) -> None:
    folder.write(savepoint())
    content = storage.objects()[f"lanes/one/{file}"]
    for other in (content[:cut], content[:cut] + b"\xff" + content[cut + 1 :]):
        storage.put(f"lanes/one/{file}", other)
        assert folder.problem("one") is not None
    storage.put(f"lanes/one/{file}", content)
    assert folder.problem("one") is None


def test_moved_to_a_folder_and_back(folder: SavepointFolder, storage: Storage, tmp_path: Path) -> None:
    folder.write(savepoint())
    here = SavepointFolder(tmp_path)
    (tmp_path / "one").mkdir()
    for key, content in storage.objects().items():
        (tmp_path / key.removeprefix("lanes/")).write_bytes(content)
    assert here.get("one") == savepoint()
    assert subprocess.run(["sha256sum", "--check", SUMS], cwd=tmp_path / "one", check=False).returncode == 0
    here.write(savepoint("two"))
    for file in (CONTENT, SUMS):
        storage.put(f"moved/two/{file}", (tmp_path / "two" / file).read_bytes())
    assert SavepointFolder(storage.uri("moved")).get("two") == savepoint("two")


def test_another_process_was_faster(folder: SavepointFolder, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one of one name is refused before its checksums are written."""

    with monkeypatch.context() as patch:

        def meanwhile(_: str) -> None:
            patch.undo()
            SavepointFolder(storage.uri()).write(savepoint())

        patch.setattr("app.savepoint.remote_place.failpoint.reach", meanwhile)
        with pytest.raises(Refused, match="there is a savepoint one already"):
            folder.write(savepoint())
    assert folder.get("one") == savepoint()


def every_call(folder: SavepointFolder) -> list[Callable[[], Any]]:
    return [
        folder.names,
        folder.listing,
        lambda: folder.get("one"),
        lambda: folder.problem("one"),
        lambda: folder.dispose("one"),
        lambda: folder.check_free("one"),
        lambda: folder.free_name("orders"),
        lambda: folder.write(savepoint()),
    ]


def check_unusable(folder: SavepointFolder, reason: str, hint: str) -> None:
    for call in every_call(folder):
        with pytest.raises(ConfigInvalid, match=reason) as caught:
            call()
        assert caught.value.exit_status is ExitStatus.CONFIG
        assert caught.value.message.startswith(f"savepoints.directory: {folder.root} cannot be used: ")
        assert "\n" not in caught.value.message
        assert hint in (caught.value.hint or "")


def test_a_bucket_that_is_not_there(storage: Storage) -> None:
    check_unusable(SavepointFolder(storage.uri(bucket="gone")), "bucket does not exist", "the bucket has to exist")


def test_denied_access(folder: SavepointFolder) -> None:
    folder.write(savepoint())
    set_initial_no_auth_action_count(0)(check_unusable)(folder, "Access Key Id you provided", "AWS_ACCESS_KEY_ID")


def test_an_endpoint_that_does_not_answer(storage: Storage) -> None:
    uri = storage.uri().replace(f":{storage.port}", ":1")
    with pytest.raises(ConfigInvalid, match="Could not connect to server") as caught:
        SavepointFolder(uri).names()
    assert "its server to answer" in (caught.value.hint or "")


def test_hdfs_without_its_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "JAVA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    check_unusable(SavepointFolder("hdfs://namenode:8020/savepoints"), "libjvm|libhdfs", "hadoop classpath --glob")


def at(storage: Storage) -> dict[str, Any]:
    return {"directory": storage.uri()}


def test_every_verb(snapshotting: Snapshotting, storage: Storage) -> None:
    """As an operator calls them; a dump of the same position stays on this machine."""
    configure(snapshotting, savepoints=at(storage))
    created = called(snapshotting, "create", "one", "--with-snapshot")
    assert created["folder"] == storage.uri("lanes/one")
    content = storage.objects()[f"lanes/one/{CONTENT}"].decode()
    assert [word for word in (str(snapshotting.folder), "127.0.0.1", "s3://", "made-up-") if word in content] == []
    listed = called(snapshotting, "list")
    assert ([one["name"] for one in listed["savepoints"]], listed["directory"]) == (["one"], storage.uri())
    assert called(snapshotting, "verify", "one")["usable"]
    assert called(snapshotting, "check", "one")["fits"]
    assert (snapshotting.directory / "one").is_dir()
    assert "generation" in snapshotting.surelane("savepoint", "show", "one").out
    assert snapshotting.surelane("savepoint", "create", "one").status == ExitStatus.REFUSED
    snapshotting.lane.apply(counted(len(snapshotting.lane.sent)))
    ended = snapshotting.surelane("run", "--from-savepoint", "one")
    assert (ended.status, f"{EPOCH:,} messages past it" in ended.err) == (ExitStatus.REFUSED, True)
    assert snapshotting.surelane("run", "--from-savepoint", "two").status == ExitStatus.REFUSED
    ended = snapshotting.surelane("shadow", "create", "--from-savepoint", "one", "--into", "copy")
    assert (ended.status, "another lane name" in ended.err) == (ExitStatus.REFUSED, True)
    assert snapshotting.surelane("savepoint", "dispose", "one", "--yes").status == 0
    assert called(snapshotting, "list")["savepoints"] == []
    configure(snapshotting, savepoints={"directory": storage.uri(bucket="gone")})
    for words in ("create two --stop", "list", "show one", "verify one", "dispose one --yes"):
        ended = snapshotting.surelane("savepoint", *words.split())
        assert (ended.status, "bucket does not exist" in ended.err) == (ExitStatus.CONFIG, True), words
    ended = snapshotting.surelane("run", "--from-savepoint", "one")
    assert (ended.status, "bucket does not exist" in ended.err) == (ExitStatus.CONFIG, True)
    assert snapshotting.target.execute("select * from surelane.stop_order") == []


@pytest.mark.parametrize("place", ["savepoint-before-sums", "savepoint-disposed"])
def test_killed(snapshotting: Snapshotting, storage: Storage, place: str) -> None:
    """What is half written, or half removed, is no savepoint; the next one may have the same name."""
    configure(snapshotting, savepoints=at(storage))
    verb = ["dispose", "one", "--yes"] if place == "savepoint-disposed" else ["create", "one"]
    if verb[0] == "dispose":
        called(snapshotting, "create", "one")
    done = subprocess.run(
        [*COMMAND, "savepoint", *verb],
        env={**os.environ, VARIABLE: f"{place}=kill", "PYTHONPATH": str(ROOT)},
        cwd=snapshotting.folder,
        start_new_session=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    problem = f"{SUMS}: No such file or directory"
    assert called(snapshotting, "list")["broken"] == {"one": problem}
    assert called(snapshotting, "verify", "one", status=ExitStatus.DIFFERENT)["problem"] == problem
    called(snapshotting, "create", "one")
    called(snapshotting, "verify", "one")
    assert snapshotting.surelane("savepoint", "dispose", "one", "--yes").status == 0
    assert called(snapshotting, "list") == {"directory": storage.uri(), "savepoints": [], "broken": {}}


def test_a_lane_makes_them_by_itself_and_goes_on_from_one(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, storage: Storage, tmp_path: Path
) -> None:
    """The process that reads the savepoint forks the one that makes others there."""
    target.create(COUNTER)
    folder = SavepointFolder(storage.uri())
    made = lane("two-phase", savepoints={**at(storage), "every": "1 second", "keep": 2})
    topic.send(counted(0))
    process = lane_process(made).start()
    process.until(lambda: made.caught_up(topic), why="the first messages")
    config = ["--config", str(made.config_file)]
    stop = [*COMMAND, "savepoint", "create", "mine", "--stop", *config]
    assert subprocess.run(stop, check=False, timeout=120).returncode == 0
    assert process.wait() == 0
    before = set(folder.names())
    assert 2 <= len(before) <= 3
    again = lane_process(made, arguments=("--from-savepoint", "mine")).start()
    topic.send(counted(EPOCH))
    again.until(lambda: made.caught_up(topic), why="it goes on")
    again.until(lambda: not (before - {"mine"}) & set(folder.names()), why="the older ones to be disposed of")
    assert again.stop() == 0
    found, broken = folder.listing()
    assert (broken, "mine" in {one.name for one in found}) == ({}, True)
    ends = {Offsets.from_nested(end) for (end,) in target.execute("select end_position from surelane.ledger")}
    assert {one.position for one in found} <= ends
    questions(target, topic)
