"""A target that is an older base backup from one moment to the next, under a running lane that has a checkpoint."""

import json
from pathlib import Path

import pytest

from app.errors import Diverged, EnvironmentMissing, ExitStatus
from app.failpoint import VARIABLE
from tests.fix_lane import Hold, LaneUnderTest, MakeLane
from tests.fix_proxy import proxy_to
from tests.fix_runbook import MakeOperator, Operator, printed, wanted
from tests.fix_snapshot import stop_cluster
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.workload import TABLES, Shop
from tools.devstack import Postgres, Stack
from tools.devstack.ports import remembered_port
from tools.devstack.postgres import SUPERUSER
from tools.devstack.postgres_binaries import bin_dir
from tools.devstack.postgres_programs import run_program

PAGE = "restore-and-replay.md"
STOPPED = "Stopped with status 6"
MESSAGES = 60


def test_restored_under_a_running_lane(
    lane: MakeLane,
    operator: MakeOperator,
    target: Target,
    topic: Topic,
    servers: Stack,
    hold: Hold,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was prepared and decided then is committed, what came later is missing: the lane stops, and replays it."""
    target.create(*TABLES)
    shop = Shop(seed=11)
    snapshots = {
        "driver": "basebackup",
        "directory": str(tmp_path / "snapshots"),
        "url": target.server.url(target.database, SUPERUSER),
        "bin_dir": str(bin_dir()),
    }
    folder, port = servers.data_dir / f"older-{target.database}", remembered_port(tmp_path / "port")
    copy = Target(Postgres(folder, port=port), target.database, target.lane)
    with proxy_to(target.url) as proxy:
        url = proxy.url(target.url).render_as_string(hide_password=False)
        epoch = {"max_messages": MESSAGES // 2}
        made = operator(lane("two-phase", target={"url": url}, epoch=epoch, snapshots=snapshots))
        held = hold("before-commit", at=2)
        topic.send(shop.messages(MESSAGES))
        made.lane.start()
        held.reached()
        (gid,) = target.prepared()
        created = made.surelane("snapshot", "create", "--json").out.splitlines()
        name = json.loads(next(line for line in created if line.startswith('{"format"')))["name"]
        monkeypatch.delenv(VARIABLE)
        held.release()
        topic.send(shop.messages(MESSAGES))
        made.lane.until_caught_up(topic)

        to = ("--to", str(folder), "--port", str(port))
        try:
            low = made.surelane("snapshot", "restore", name, *to, "--max-prepared-transactions", "0")
            assert (low.status, "too low" in low.err) == (ExitStatus.REFUSED, True)
            assert made.surelane("snapshot", "restore", name, *to).status == 0
            assert copy.prepared() == [gid]
            _does_not_start_with_fewer_slots(folder)
            assert made.surelane("snapshot", "restore", name, *to).status == 0, "it starts the one that is there"

            proxy.move_to(("127.0.0.1", port))
            topic.send(shop.messages(MESSAGES))
            error = made.lane.join()
            assert isinstance(error, Diverged)
            assert copy.prepared() == [], "its checkpoint entry was there: committed"
            position = str(copy.position())
            assert f"# from {position};" in str(error)
            assert printed(error.hint) == [words for words in wanted(PAGE, STOPPED) if "<gid>" not in words]
            back = _at(made, copy)
            assert back.statuses(PAGE, STOPPED, gid=gid, position=position)[2:] == [0, 0, 0]
            questions(copy, topic)
        finally:
            stop_cluster(folder)


def _at(made: Operator, copy: Target) -> Operator:
    lane = LaneUnderTest(made.lane.raw, made.lane.config_file, copy, made.lane._spark)  # pyright: ignore[reportPrivateUsage]
    return Operator(lane, copy, made.topic, made.surelane)


def _does_not_start_with_fewer_slots(folder: Path) -> None:
    """A start by hand fails with Postgres' error, and changes nothing."""
    stop_cluster(folder)
    log = folder.with_name(f"{folder.name}-by-hand.log")
    words = ["start", f"--pgdata={folder}", "--wait", "--silent", "--options=-c max_prepared_transactions=0"]
    with pytest.raises(EnvironmentMissing, match="max_prepared_transactions"):
        run_program("pg_ctl", words, log)
