"""A second lane fills a copy of the tables, and takes their place while both run; and back again."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.config.settings import CommitMode
from app.errors import ExitStatus
from tests.commands import Ended, called, ended, expected
from tests.fix_clusters import superuser_url
from tests.fix_doubt import changes
from tests.fix_lane import LaneProcess, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import Cursor, difference, equals_oracle
from tests.runbook import play, runner
from tests.waiting import eventually
from tests.workload import COUNTER
from tools.devstack.roles import OWNER

TABLE = "public.counter"
COPY = "counter_v2"
#: the types that the copy has
WIDER = f"create table {COPY}.counter (id bigint primary key, hits numeric, note text default 'new')"
#: between two times 30 messages: no more than a lane applies in epochs of 50 on a busy machine
SEND_SECONDS = 0.3
#: kills of the normal run, and of the full one
KILLS = (2, pytest.param(40, marks=pytest.mark.full))
MODES = [
    CommitMode.TWO_PHASE,
    *(pytest.param(mode, marks=pytest.mark.full) for mode in (CommitMode.LEDGER, CommitMode.AT_LEAST_ONCE)),
]


class Site:
    """An original lane, and the lane of its copy."""

    def __init__(self, lane: MakeLane, target: Target, topic: Topic, folder: Path, mode: CommitMode) -> None:
        more = {"savepoints": {"directory": str(folder / "savepoints")}, "epoch": {"max_messages": 50}}
        self.target, self.topic = target, topic
        self.old = lane(mode, **more)
        self.new = lane(mode, lane=f"{self.old.name}-v2", checkpoint=str(folder / "checkpoint-v2"), **more)

    def begin(self, made: LaneUnderTest, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "app.cli", *words, "--config", str(made.config_file)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    def shadow(self, *words: str) -> Any:
        """What the verb prints as JSON."""
        return called(self.new, "shadow", *words)

    def refused(self, *words: str) -> str:
        return expected(self.new, "shadow", *words, status=ExitStatus.REFUSED).err

    def copied(self, *more: str) -> Any:
        expected(self.old, "savepoint", "create", "before")
        return self.shadow("create", "--from-savepoint", "before", "--into", COPY, *more)

    def caught_up(self, made: LaneUnderTest) -> bool:
        return dict(self.target.position(made.name)) == self.topic.ends

    @property
    def types(self) -> dict[str, str]:
        """Column -> type of the table that has the configured name."""
        found = self.target.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute "
            "where attrelid = cast(:name as regclass) and attnum > 0 and not attisdropped",
            name=TABLE,
        )
        return {row.attname: row.format_type for row in found}


@pytest.fixture
def site(request: pytest.FixtureRequest, lane: MakeLane, target: Target, topic: Topic, tmp_path: Path) -> Site:
    target.create(COUNTER)
    allow(target)
    return Site(lane, target, topic, tmp_path, getattr(request, "param", CommitMode.TWO_PHASE))


def premade(target: Target) -> None:
    """The copy's table, with other types."""
    target.execute(f"create schema {COPY} authorization {OWNER}")
    with target.as_lane.begin() as connection:
        connection.exec_driver_sql(WIDER)


def allow(target: Target) -> None:
    """What a switch needs."""
    target.give(TABLE)
    target.execute(f'grant create on database "{target.database}" to {OWNER}')
    target.execute(f"grant create on schema public to {OWNER}")


@contextmanager
def sending(topic: Topic) -> Iterator[None]:
    """Send changes all the time."""
    stop = threading.Event()

    def send() -> None:
        for number in count(1_000):
            topic.send(changes(30 * number))
            if stop.wait(SEND_SECONDS):
                return

    thread = threading.Thread(target=send, name="sender")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Reader:
    """Sees, in one snapshot after the other, the table of the configured name: always the fold at its lane's position.

    Use as a context manager."""

    def __init__(self, site: Site) -> None:
        self._site, self._stop = site, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="reader")
        self._cursors = {site.old.name: Cursor(), site.new.name: Cursor()}
        self.failure: BaseException | None = None
        self.lanes: set[str] = set()

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _watch(self) -> None:
        while not self._stop.wait(0.01):
            try:
                self._look()
            except BaseException as error:  # noqa: BLE001  # raised by the test's thread
                self.failure = error
                return

    def _look(self) -> None:
        site = self._site
        with site.target.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            # Postgres finds a name in today's catalog, not in the snapshot's: the table stays the same from here on
            connection.execute(text(f"lock table {TABLE} in access share mode"))
            state = connection.execute(text("select state from surelane.shadow_copy")).scalar_one_or_none()
            lane = site.new.name if state not in (None, "following") else site.old.name
            end = connection.execute(
                text(
                    "select end_position from surelane.ledger where lane = :lane "
                    "order by generation desc, epoch desc limit 1"
                ),
                {"lane": lane},
            ).scalar_one()
            rows = connection.execute(text(f"select id, hits from {TABLE}")).all()
        offset = end[site.topic.name]["0"]
        eventually(lambda: len(site.topic.sent) >= offset, 10, "the sender to note what it has sent")
        position = dict.fromkeys(site.topic.ends, offset)
        expected = self._cursors[lane].move(site.topic.sent, position)  # pyright: ignore[reportArgumentType]
        found = {(row.id,): {"id": row.id, "hits": int(row.hits)} for row in rows}
        assert (words := difference(TABLE, found, expected.get(TABLE, {}))) is None, f"{lane} at {offset}: {words}"
        self.lanes.add(lane)


@pytest.mark.parametrize("site", MODES, ids=lambda mode: mode.value, indirect=True)
def test_switched_under_load_and_back(site: Site, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """A column becomes wider. No reader sees a table that is not the fold at its lane's position; nothing is lost."""
    topic.send(changes(0, 300))
    old, new = lane_process(site.old).start(), lane_process(site.new)
    old.until(lambda: site.caught_up(site.old), why="the first messages")
    premade(target)
    made = site.copied()
    assert (made["rows"], made["state"], made["tables"]) == ({TABLE: 300}, "following", [TABLE])
    new.start()
    with sending(topic):
        new.until(lambda: len(target.epochs(site.new.name)) > 3, why="the copy's lane")
        with Reader(site) as reader:
            done = site.shadow("switch", "--max-pause", "60")
            assert old.wait() == 0
            known = len(target.epochs(site.new.name))
            new.until(lambda: len(target.epochs(site.new.name)) > known + 2, why="epochs after the switch")
            assert reader.lanes == {site.old.name, site.new.name}
            assert (0 < done["paused_seconds"] < 60, site.types["id"]) == (True, "bigint")
            assert (
                "has taken its place" in expected(site.old, "run", "--until-caught-up", status=ExitStatus.REFUSED).err
            )
            assert "has been switched to" in site.refused("switch")
            site.shadow("undo", "--max-pause", "60")
            assert site.types["id"] == "integer"
            old.start()
            known = len(target.epochs(site.old.name))
            old.until(lambda: len(target.epochs(site.old.name)) > known + 2, why="epochs after the way back")
            site.shadow("switch", "--max-pause", "60")
            assert old.wait() == 0
    new.until(lambda: site.caught_up(site.new), why="the last messages")
    assert new.stop() == 0
    assert target.prepared() == []
    with target.engine.connect() as connection:
        found = connection.execute(text(f"select id, hits, note from {TABLE} order by id")).all()
    wanted = {
        one.message.change.row["id"]: one.message.change.row["hits"]
        for one in topic.sent
        if one.message.change and one.message.change.row
    }
    assert {row.id: int(row.hits) for row in found} == wanted
    assert {row.note for row in found} == {"new"}
    assert site.shadow("dispose", "--yes")["dropped"] == [f'"{COPY}_old"."counter"']
    assert "has taken its place" in expected(site.old, "run", "--until-caught-up", status=ExitStatus.REFUSED).err
    assert target.execute("select from pg_namespace where nspname = :name", name=f"{COPY}_old") == []


def test_filled_from_the_topics(site: Site, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """The copy's tables are made like the target's, and its lane begins at the first message."""
    topic.send(changes(0, 300))
    site.old.run_until_caught_up()
    made = site.copied("--from-topics")
    assert (made["rows"], made["position"]) == ({}, {topic.name: {"0": 0}})
    assert site.shadow("status")["behind"] == 300
    site.new.run_until_caught_up()
    assert target.rows(f"{COPY}.counter") == target.rows(TABLE)
    found = expected(site.old, "verify", "--against-schema", COPY).out
    assert "300" in found
    site.shadow("switch")
    topic.send(changes(300, 30))
    site.new.run_until_caught_up()
    equals_oracle(target, topic)


def test_given_up(site: Site, target: Target, topic: Topic) -> None:
    """The copy goes, the original goes on, and the name may be used again."""
    topic.send(changes(0, 30))
    site.old.run_until_caught_up()
    site.copied()
    site.new.run_until_caught_up()
    assert site.shadow("dispose", "--yes")["dropped"] == [f'"{COPY}"."counter"']
    topic.send(changes(30, 30))
    site.old.run_until_caught_up()
    equals_oracle(target, topic)
    assert site.shadow("create", "--from-savepoint", "before", "--into", COPY)["rows"] == {TABLE: 60}
    site.new.run_until_caught_up()
    assert target.rows(f"{COPY}.counter") == target.rows(TABLE)


def test_what_is_refused(site: Site, target: Target, topic: Topic, lane: MakeLane, lane_process: MakeProcess) -> None:
    """With nothing changed: the original goes on, whatever was called."""
    topic.send(changes(0, 30))
    site.old.run_until_caught_up()
    expected(site.old, "savepoint", "create", "before")
    arguments = ("create", "--from-savepoint", "before", "--into")
    assert "has no shadow copy" in site.refused("switch")
    assert "one that the lane itself uses" in site.refused(*arguments, "public")
    assert "another lane name" in expected(site.old, "shadow", *arguments, COPY, status=ExitStatus.REFUSED).err
    target.execute(f"alter table {TABLE} owner to current_user")
    assert f"alter table counter owner to {OWNER}" in site.refused(*arguments, COPY)
    target.give(TABLE)
    premade(target)
    target.execute(f"insert into {COPY}.counter values (1, 1)")
    assert "has rows" in site.refused(*arguments, COPY)
    target.execute(f"truncate {COPY}.counter")
    changed = site.new.changed(target={"columns": {TABLE: {"rename": {"hits": "visits"}}}})
    assert "--from-topics" in site.refused(*arguments, COPY)
    changed.changed(target={"columns": {}})
    site.shadow(*arguments, COPY)
    for place in (COPY, "another"):
        assert "has a shadow copy already" in site.refused(*arguments, place)
    target.execute("create view public.seen as select * from public.counter")
    assert "view seen" in site.refused("switch")
    target.execute("drop view public.seen")
    topic.send(changes(30, 30))
    process = lane_process(site.old).start()
    process.until(lambda: site.caught_up(site.old), why="the messages after the copy")
    assert "still 30 offsets behind" in site.refused("switch", "--max-pause", "15")
    topic.send(changes(60, 30))
    process.until(lambda: site.caught_up(site.old), why="the lane, which goes on")
    assert process.stop() == 0
    equals_oracle(target, topic)


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.timeout(1800)
def test_killed_while_it_switches(
    kills: int, site: Site, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Switch and undo, killed at random moments, beside lanes that are killed, too: the next call goes on."""
    topic.send(changes(0, 300))
    old, new = lane_process(site.old).start(), lane_process(site.new)
    old.until(lambda: site.caught_up(site.old), why="the first messages")
    premade(target)
    site.copied()
    new.start()
    new.until(lambda: site.caught_up(site.new), why="the copy")
    chance = random.Random(7)
    with sending(topic), Reader(site):
        for number in range(kills):
            verb = "undo" if site.shadow("status")["copy"]["state"] == "switched" else "switch"
            process = site.begin(site.new, "shadow", verb)
            try:
                process.communicate(timeout=chance.uniform(0.3, 3.0))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            if number % 3 == 2:
                new.kill()
                new.start()
                new.until(lambda: target.prepared() == [], why="its start to settle what it left")
            _start_where_it_may(site, old)
            state = site.shadow("status")["copy"]["state"]
            again = "undo" if state == "switched" else "switch"
            site.shadow(again, "--max-pause", "60")
            _start_where_it_may(site, old)
    if site.shadow("status")["copy"]["state"] == "following":
        site.shadow("switch", "--max-pause", "60")
    new.until(lambda: site.caught_up(site.new), why="the last messages")
    assert new.stop() == 0
    assert target.prepared() == []
    wanted = {one.message.change.row["id"] for one in topic.sent if one.message.change and one.message.change.row}
    assert {row.id for row in target.execute(f"select id from {TABLE}")} == wanted


def _start_where_it_may(site: Site, old: LaneProcess) -> None:
    """Start the original lane where it has its tables; wait for its end where it has not."""
    if site.shadow("status")["copy"]["state"] == "switched":
        if old.alive:
            old.wait()
    elif not old.alive:
        known = len(site.target.epochs(site.old.name))
        old.start()
        eventually(lambda: len(site.target.epochs(site.old.name)) > known, 240, "the original lane")


def test_the_runbook(site: Site, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    topic.send(changes(0, 30))
    old, new = lane_process(site.old).start(), lane_process(site.new)
    old.until(lambda: site.caught_up(site.old), why="the first messages")

    def surelane(*words: str) -> Ended:
        if words[:2] == ("shadow", "status") and not new.alive:
            new.start()
            new.until(lambda: site.caught_up(site.new), why="the copy")
        more = () if "--config" in words else ("--config", str(site.old.config_file))
        return ended(*words, *more)

    values = {
        "new": str(site.new.config_file),
        "target": superuser_url(target),
        "owner": OWNER,
        "schema": COPY,
        "savepoint": "before",
        "create_table": f"create table {COPY}.counter (id bigint primary key, hits numeric)",
        "lane": site.new.name,
        "original": site.old.name,
        "tables": TABLE,
    }

    run = runner(surelane)
    assert [one.status for one in play("shadow-upgrade.md", "Make the copy", run, **values)] == [0] * 5
    play("shadow-upgrade.md", "Switch", run, **values)
    assert old.wait() == 0
    play("shadow-upgrade.md", "The way back", run, **values)
    old.start()
    topic.send(changes(30, 30))
    old.until(lambda: site.caught_up(site.old), why="the original lane")
    new.until(lambda: site.caught_up(site.new), why="the copy's lane")
    equals_oracle(target, topic)
    play("shadow-upgrade.md", "Switch", run, **values)
    play("shadow-upgrade.md", "The end", run, **values)
    assert new.stop() == 0
