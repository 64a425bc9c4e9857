"""The demo itself, short: it ends well only if everything held, and its judges do notice what is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from app.config.loader import load
from app.config.values import postgres_url
from app.db.engine import make_engine
from tools.demo.checks import identical, whole_epochs
from tools.demo.compare import compare
from tools.demo.lane import LANE, DemoLane
from tools.demo.queries import query_result
from tools.demo.snapshots import SnapshotReader
from tools.demo.tables import TABLES
from tools.demo.topic import Topic
from tools.devstack import Stack
from tools.devstack.roles import CAPTURE, LOGIN, OWNER, READER
from tools.devstack.stack import DATABASE

pytestmark = pytest.mark.alone

TOP = Path(__file__).resolve().parents[2]
SECONDS = 6
#: seconds; several times what it takes: the machine may be busy
TIMEOUT = 900


@dataclass(frozen=True)
class Played:
    """A demo that was played with --keep."""

    stack: Stack
    done: subprocess.CompletedProcess[str]
    report: Path

    @property
    def result(self) -> dict[str, Any]:
        return json.loads(self.done.stdout)

    @property
    def engines(self) -> tuple[Engine, Engine]:
        urls = self.stack.source.url(DATABASE), self.stack.target.url(DATABASE)
        source, target = (make_engine(postgres_url(url)) for url in urls)
        return source, target


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    yield from _demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture
def with_queries(tmp_path: Path) -> Iterator[Played]:
    yield from _demo(tmp_path, "--queries")


def _demo(folder: Path, *more: str) -> Iterator[Played]:
    name, report = f"test-demo-{os.getpid()}", folder / "report.html"
    options = ["--json", "--keep", f"--seconds={SECONDS}", f"--stack={name}", f"--report={report}", *more]
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    command = [sys.executable, "-m", "tools.cli", "demo", *options]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        yield Played(Stack(name), done, report)
    finally:
        Stack(name).down(wipe=True)


@pytest.mark.timeout(TIMEOUT)
def test_source_and_target_are_identical_after_the_crash(played: Played) -> None:
    assert played.done.returncode == 0, played.done.stderr
    result = played.result
    assert result["passed"]
    assert [check["promise"] for check in result["checks"] if not check["ok"]] == []
    assert [one["table"] for one in result["comparisons"]] == [table.name for table in TABLES]
    assert all(one["equal"] and one["source"] == one["target"] for one in result["comparisons"])
    assert result["figures"]["pgbench"] > 0
    assert result["figures"]["counts"]["applied"] > 100_000, "pgbench's accounts came with the snapshot"


@pytest.mark.timeout(TIMEOUT)
def test_it_was_killed_at_work_and_says_what_was_replayed(played: Played) -> None:
    crash, recovery = played.result["crash"], played.result["recovery"]
    assert crash["lag"] > 0
    assert recovery["generation"] == crash["generation"] + 1
    assert (recovery["replayed_epochs"] > 0) == (not crash["decided"])
    assert [one["gid"] for one in recovery["settled"]] == crash["in_doubt"]
    assert 0 < recovery["start_seconds"] < recovery["first_epoch_seconds"] <= recovery["caught_up_seconds"]


@pytest.mark.timeout(TIMEOUT)
def test_each_worked_as_the_role_that_is_for_it(played: Played) -> None:
    """As ops/postgres has them."""
    stack = played.stack
    assert stack.source.execute("select usename from pg_stat_replication") == [(CAPTURE,)]
    may = "select has_table_privilege(%s, 'orders', 'insert'), has_table_privilege(%s, 'surelane.ledger', 'select')"
    found = {role: stack.target.execute(may, role, role, database=DATABASE) for role in (OWNER, LOGIN, READER)}
    assert found == {OWNER: [(True, True)], LOGIN: [(False, False)], READER: [(False, True)]}


class _Page(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href") and value]


@pytest.mark.timeout(TIMEOUT)
def test_the_page_is_whole_and_needs_nothing_from_outside(played: Played) -> None:
    content, page = played.report.read_text(encoding="utf-8"), _Page()
    page.feed(content)
    assert page.outside == []
    assert "url(" not in content
    assert page.tags.count("figure") == 4
    assert all(f"<td>{table.name}</td>" in content for table in TABLES)
    assert f"generation {played.result['recovery']['generation']}" in content


@pytest.mark.timeout(TIMEOUT)
def test_a_row_changed_by_hand_is_noticed(played: Played) -> None:
    source, target = played.engines
    snapshots = SnapshotReader(target, "surelane", LANE)
    assert all(one.equal for one in compare(source, target))
    snapshots.step()
    assert whole_epochs(snapshots).ok
    with target.begin() as connection:
        connection.execute(text("update pgbench_accounts set abalance = abalance + 1 where aid = 4711"))
    different = [one for one in compare(source, target) if not one.equal]
    assert [(one.table, one.differing) for one in different] == [("pgbench_accounts", ("4711",))]
    assert not identical(different).ok
    assert "4711" in identical(different).found
    snapshots.step()
    snapshots.close()
    assert snapshots.partial == {"pgbench_accounts": 1}, "a row that belongs to no epoch"
    assert not whole_epochs(snapshots).ok


@pytest.mark.timeout(TIMEOUT)
def test_a_missing_row_is_noticed(played: Played) -> None:
    source, target = played.engines
    with target.begin() as connection:
        connection.execute(text("delete from pgbench_history where id = (select max(id) from pgbench_history)"))
    (different,) = [one for one in compare(source, target) if one.table == "pgbench_history"]
    assert different.source.rows == different.target.rows + 1
    assert not identical((different,)).ok


@pytest.mark.timeout(TIMEOUT)
def test_a_query_a_rollup_and_a_history(with_queries: Played) -> None:
    """Killed with the lane, they equal the batch; the page has a chart of the windows and the versions of an order.
    Each judge notices a change."""
    assert with_queries.done.returncode == 0, with_queries.done.stderr
    found = with_queries.result["queries"]
    assert (found["differing"], found["groups_differing"]) == (0, 0)
    assert found["rows"] > len(found["windows"]) > 0
    assert found["groups"] > 0
    history = found["history"]
    assert history["differing"] == 0
    assert history["versions"] > history["orders"] > 0
    assert len(history["example"]) > 1
    content, page = with_queries.report.read_text(encoding="utf-8"), _Page()
    page.feed(content)
    assert page.tags.count("figure") == 5
    assert page.tags.count("rect") >= len(found["windows"])
    assert all(f"{version['opened']:,}</td>" in content for version in history["example"])
    stack = with_queries.stack
    stack.target.execute("update reports.orders_by_window set orders = orders + 1", database=DATABASE)
    stack.target.execute("update reports.orders_of_customer set surelane_rows = 0", database=DATABASE)
    stack.target.execute("update reports.orders_history set status = 'lost'", database=DATABASE)
    settings = load(DemoLane(stack.data_dir / "lane").config)
    topic = Topic(settings.source.bootstrap_servers, settings.source.topics[0])
    again = query_result(stack, settings, topic.end())
    topic.close()
    assert (again.differing, again.groups_differing) == (2 * found["rows"], 2 * found["groups"])
    assert again.history.differing == 2 * history["versions"]
