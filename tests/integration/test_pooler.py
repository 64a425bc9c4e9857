"""A pooler between lane and Postgres is refused, by `doctor` and at the start: sessions are not the lane's there."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from app.cli.doctor_checks.finding import Level
from app.cli.doctor_checks.guard_check import guard
from app.cli.doctor_checks.target_check import target as target_checks
from app.db.direct import check_direct
from app.db.engine import make_engine
from app.errors import TargetMismatch
from app.server_user import server_user
from tests import messages as m
from tests.debian_programs import libraries, program
from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.waiting import eventually
from tools.devstack.ports import LOOPBACK, remembered_port
from tools.devstack.roles import LOGIN

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
MODES = ("transaction", "session")
_CONF = """
[databases]
* = host={host} port={server} user={user}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
auth_type = any
pool_mode = {mode}
ignore_startup_parameters = options
unix_socket_dir =
"""
#: URL of the target through PgBouncer in this mode
Pooled = Callable[[str], str]


@pytest.fixture
def pooled(target: Target, tmp_path: Path) -> Iterator[Pooled]:
    binary, made, url = program("pgbouncer"), list[subprocess.Popen[bytes]](), make_url(target.url)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries(binary.parent))}

    def start(mode: str) -> str:
        port = remembered_port(tmp_path / f"{mode}.port")
        conf = tmp_path / f"{mode}.ini"
        conf.write_text(_CONF.format(host=LOOPBACK, server=url.port, user=LOGIN, port=port, mode=mode))
        user = server_user()
        words = [binary, "--quiet", *(["--user", user.pw_name] if user else []), conf]
        made.append(subprocess.Popen(words, env=environment))
        there = url.set(host=LOOPBACK, port=port)
        eventually(lambda: _answers(there.render_as_string(hide_password=False)), 20, f"PgBouncer, {made[-1].poll()}")
        return there.render_as_string(hide_password=False)

    yield start
    for process in made:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        with make_engine(url).connect():
            return True
    except Exception:  # noqa: BLE001  # not there yet
        return False


@pytest.mark.parametrize("mode", MODES)
def test_doctor_and_start_refuse_it(mode: str, pooled: Pooled, lane: MakeLane, target: Target, topic: Topic) -> None:
    """With the reason; nothing of the target is changed. In session mode it is the settings that get lost."""
    target.create(FLAT)
    topic.send([Debezium().create(FLAT, {"id": 1, "v": "a"})])
    url = pooled(mode)
    made = lane("two-phase").changed(target={"url": url})
    found = [one for one in target_checks(made.settings) if one.level is Level.FAULT]
    assert ["pooler" in one.message for one in found] == [True]
    assert "target.url at Postgres itself" in str(found[0].hint)
    with pytest.raises(TargetMismatch, match="pooler") as refused:
        made.run_until_caught_up()
    reason = "another session" if mode == "transaction" else "drops the settings"
    assert reason in str(refused.value)
    assert target.rows("public.flat") == {}
    assert target.execute("select from surelane.generation") == []


def test_the_guard_s_database(pooled: Pooled, lane: MakeLane, target: Target, topic: Topic) -> None:
    made = lane("ledger", guard={"url": pooled("transaction")})
    (found,) = guard(made.settings)
    assert (found.level, "pooler" in found.message) == (Level.FAULT, True)
    with pytest.raises(TargetMismatch, match="pooler"):
        made.run_until_caught_up()


def test_postgres_itself(target: Target) -> None:
    for engine in (target.as_lane, target.as_lane.execution_options(isolation_level="AUTOCOMMIT")):
        with engine.connect() as connection:
            check_direct(engine, connection)
