"""A marked secret in every place that takes one, and a search for it in everything that others may see."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests import messages as m
from tests.commands import Ended
from tests.fix_http import Http
from tests.fix_lane import ROOT, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_locked import PASSWORD, Locked, LockedTarget
from tests.fix_secured import KEY_PASSWORD, USER, Secured
from tests.fix_secured import PASSWORD as KAFKA_PASSWORD
from tests.fix_topic import Topic
from tests.messages import Debezium, Table
from tests.oracle import questions
from tests.waiting import eventually
from tools.devstack import Kafka
from tools.devstack.roles import LOGIN, OWNER

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
#: every secret of these tests has it inside
MARK = "m4rked"


@pytest.fixture
def kafka(secured: Secured) -> Kafka:
    """In place of the session's."""
    return secured.kafka


@pytest.fixture
def target(locked_target: LockedTarget) -> LockedTarget:
    """In place of the session's."""
    return locked_target


@pytest.fixture
def secrets(locked: Locked, secured: Secured) -> dict[str, str]:
    """Variables of the environment. Those of AWS are the JVM's too, which signs in with them (S3, MSK)."""
    assert all(MARK in one for one in (PASSWORD, KAFKA_PASSWORD, KEY_PASSWORD))
    return {"SHOP_PASSWORD": PASSWORD, "KAFKA_PASSWORD": KAFKA_PASSWORD}


def configured(
    lane: MakeLane, target: LockedTarget, locked: Locked, secured: Secured, topic: Topic, http: Http, **more: Any
) -> LaneUnderTest:
    url = locked.url(target.database, password_from="env:SHOP_PASSWORD")
    scram = {"protocol": "scram", "username": USER, "password_from": "env:KAFKA_PASSWORD"}
    return lane(
        "two-phase",
        source={**secured.source("SCRAM", **scram), **more},
        topics=(topic,),
        target={"url": url, "owner_role": OWNER},
        guard={"dead_letter": {"topic": f"{topic.name}.dead"}},
        metrics=http.settings,
        spark={"conf": {"spark.hadoop.fs.s3a.secret.key": f"{MARK} key", "spark.authenticate.secret": f"{MARK}-spark"}},
    )


def processes(leader: int) -> Iterator[psutil.Process]:
    """The process and everything it started."""
    try:
        first = psutil.Process(leader)
        yield from [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return


def seen_of(leader: int, whole: dict[str, str]) -> None:
    """Command lines of all of them, and the environment of those that need no secret: a JVM and what it starts."""
    for process in processes(leader):
        try:
            whole[f"command line of {process.pid}"] = "\0".join(process.cmdline())
            if process.name() == "java":
                whole[f"environment of java {process.pid}"] = Path(f"/proc/{process.pid}/environ").read_text()
        except (psutil.NoSuchProcess, OSError):
            continue


def nothing_marked(whole: dict[str, str]) -> None:
    assert len(whole) > 1
    found = {place: _around(text) for place, text in whole.items() if MARK in text}
    assert found == {}


def _around(text: str) -> str:
    at = text.index(MARK)
    return text[max(0, at - 100) : at + 30]


def test_a_lane(
    secrets: dict[str, str],
    lane: MakeLane,
    lane_process: MakeProcess,
    target: LockedTarget,
    locked: Locked,
    secured: Secured,
    topic: Topic,
    http: Http,
) -> None:
    """It runs, loses its connections, and stops: logs, metrics, health, checkpoint, and what `ps` shows."""
    target.create(FLAT)
    d = Debezium()
    topic.send([d.create(FLAT, {"id": number, "v": "x"}) for number in range(50)])
    secured.kafka.create_topic(f"{topic.name}.dead")
    for name, value in secrets.items():  # this process loads the configuration first
        os.environ[name] = value
    try:
        made = configured(lane, target, locked, secured, topic, http)
    finally:
        for name in secrets:
            del os.environ[name]
    process = lane_process(made, env=secrets).start()
    process.until(lambda: made.caught_up(topic), why="the lane to catch up")
    whole: dict[str, str] = {}
    seen_of(process.pid, whole)
    assert any("environment of java" in place for place in whole)
    for path in ("/metrics", "/healthz", "/readyz"):
        whole[path] = http.get(path)[1]
    # from here on the server refuses every login
    locked.set_password(LOGIN, f"{MARK}-second")
    target.cut_connections()
    topic.send([d.create(FLAT, {"id": 100, "v": "x"})])
    process.until(lambda: process.events("trying again"), why="the first failure")
    whole["/readyz then"] = http.get("/readyz")[1]
    process.until(lambda: target.execute("select from surelane.lane_state") is not None)
    locked.set_password(LOGIN, PASSWORD)
    process.until(lambda: made.caught_up(topic), why="the lane to catch up again")
    process.stop()
    questions(target, topic)
    whole["log"] = process.log_file.read_text(errors="replace")
    assert "password authentication failed" in whole["log"]
    for row in target.execute("select * from surelane.lane_state"):
        whole["lane_state"] = str(row)
    whole |= {str(path): path.read_text(errors="replace") for path in made.checkpoint.rglob("*") if path.is_file()}
    nothing_marked(whole)


def test_the_verbs(
    secrets: dict[str, str],
    lane: MakeLane,
    target: LockedTarget,
    locked: Locked,
    secured: Secured,
    topic: Topic,
    http: Http,
    monkeypatch: pytest.MonkeyPatch,
    surelane: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    """As they succeed, and as they fail: with a wrong password, a wrong address, a fault beside a secret."""
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    target.create(FLAT)
    made = configured(lane, target, locked, secured, topic, http)
    plain = locked.url(target.database, None).replace("://", f"://{LOGIN}:{MARK}-wrong@")
    variants: dict[str, dict[str, Any]] = {
        "right": {},
        "a wrong password in the URL": {"target": {**made.raw["target"], "url": plain}},
        "a wrong address": {"target": {**made.raw["target"], "url": f"postgresql://me:{MARK}@127.0.0.1:1/shop"}},
        "a broken URL": {"target": {"url": f"postgresql://me:{MARK}@[:1/shop"}},
        "a password for a place": {"target": {**made.raw["target"], "password_from": MARK}},
        "raw options": {
            "source": {
                "bootstrap_servers": secured.kafka.at("SCRAM"),
                "topics": [topic.name],
                "options": {
                    "kafka.security.protocol": "SASL_SSL",
                    "kafka.sasl.mechanism": "SCRAM-SHA-512",
                    "kafka.sasl.jaas.config": f'x.ScramLoginModule required username="me" password="{MARK} it";',
                    "kafka.ssl.truststore.type": "PEM",
                    "kafka.ssl.truststore.location": str(secured.authority.certificate),
                },
            }
        },
    }
    whole: dict[str, str] = {}
    statuses: dict[str, list[int]] = {}
    for variant, change in variants.items():
        file = tmp_path / f"{variant}.yaml"
        file.write_text(yaml.safe_dump({**made.raw, **change, "snapshots": {"directory": str(tmp_path / "kept")}}))
        for verb in (["doctor"], ["status", "--json"], ["migrate"], ["indoubt", "list"], ["quarantine", "list"]):
            ended = surelane(*verb, "--config", str(file))
            whole[f"{variant}: {verb}"] = ended.out + ended.err
            statuses.setdefault(variant, []).append(ended.status)
    assert statuses["right"] == [0, 0, 0, 0, 0], whole
    assert all(statuses["a wrong password in the URL"][:3]), statuses
    nothing_marked(whole)


def test_a_snapshot_and_the_programs_that_make_it(
    secrets: dict[str, str],
    lane: MakeLane,
    target: LockedTarget,
    locked: Locked,
    secured: Secured,
    topic: Topic,
    http: Http,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pg_dump as `ps` shows it while it waits for a lock, what the command says, and what it leaves behind."""
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    target.create(FLAT)
    made = configured(lane, target, locked, secured, topic, http)
    raw = {**made.raw, "snapshots": {"directory": str(tmp_path / "kept")}}
    file = tmp_path / "snapshot.yaml"
    file.write_text(yaml.safe_dump(raw))
    command = [sys.executable, "-m", "app.cli", "snapshot", "create", "--name", "one", "--config", str(file)]
    whole: dict[str, str] = {}
    held = target.engine.connect()
    held.exec_driver_sql("lock table flat in access exclusive mode")
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:
        eventually(lambda: _dumping(running.pid, whole), 120, "pg_dump to wait")
        held.rollback()
        held.close()
        whole["output"] = running.communicate(timeout=120)[0]
    assert running.returncode == 0, whole["output"]
    whole |= {str(path): path.read_text(errors="replace") for path in (tmp_path / "kept").rglob("*.json")}
    nothing_marked(whole)


def _dumping(leader: int, whole: dict[str, str]) -> bool:
    seen_of(leader, whole)
    return any("pg_dump" in text and "--version" not in text for text in whole.values())
