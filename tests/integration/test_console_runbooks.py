"""Runbooks in a real browser, through the console's pages: every section that ends in an action or a reading there."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from app.cli.rendering import moment
from app.console.verb import PLACES_VARIABLE
from app.db.locks import try_lock
from tests.api_schema import faults
from tests.fix_bare_lane import Death
from tests.fix_browser import LIVE_MS, Window, Windows, clean, main_text, not_loaded_again
from tests.fix_console import ROOT, TOKEN, WHO, Consoles
from tests.fix_console_scene import LONG, blocked, narrow
from tests.fix_doubt import Doubt
from tests.fix_lane import Hold, MakeLane
from tests.fix_recover import MakeLost
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.queries import QUERIES
from tests.queries import Shop as QueryShop
from tests.waiting import eventually
from tests.workload import TABLES, Shop
from tools.devstack.postgres import SUPERUSER

REASON = "ticket 17"
#: of a recovery, and of a lane that starts
LONG_MS = 300_000
#: of each store, by `surelane state windows`
WINDOWS_SHOWN = 20
BLOCKED = "alter table public.counter add more int"


def opened(window: Window, gid: str) -> Page:
    """From the list to the page of a transaction."""
    page = window.open("/lanes/orders/in-doubt")
    page.get_by_role("link", name=gid, exact=True).first.click()
    page.wait_for_url("**/in-doubt/transaction?**")
    window.until_live()
    return page


def answer(page: Page, gid: str, which: str, reason: str = REASON, *, force: bool = False) -> None:
    page.fill("#gid", gid)
    page.fill("#reason", reason)
    if force:
        page.check("input[name=force]")
    page.get_by_role("button", name=f"{which} PREPARED").click()


def test_in_doubt_verdict_rollback(doubt: Doubt, consoles: Consoles, windows: Windows) -> None:
    gid = doubt.prepare(decided=False)
    client = consoles(allow_actions=True)
    with windows(client) as window, blocked(doubt.target, BLOCKED):
        window.log_in()
        page = opened(window, gid)
        for text in ("rollback", "commits/1", "does not exist", "AccessExclusiveLock on public.counter"):
            main_text(page, text)
        answer(page, gid, "COMMIT")
        main_text(page, "Refused.")
        assert doubt.target.prepared() == [gid]
        answer(page, gid, "ROLLBACK")
        main_text(page, "it was rolled back")
        clean(window)
    assert doubt.target.prepared() == []


def test_in_doubt_verdict_unsure(doubt: Doubt, consoles: Consoles, windows: Windows) -> None:
    """The checkpoint is elsewhere: the page says so, and what to type with a copy of it; then it shows the outcome."""
    gid, copy = doubt.prepare(decided=True), doubt.copy()
    doubt.configure(checkpoint="hdfs://bucket/orders")
    client = consoles(allow_actions=True)
    with windows(client) as window:
        window.log_in()
        page = opened(window, gid)
        for text in ("unsure", "cannot be seen from here", "--checkpoint"):
            main_text(page, text)
        answer(page, gid, "COMMIT")
        main_text(page, "Refused.")
        window.until_live()
        with not_loaded_again(page):
            assert doubt("commit", gid, "--checkpoint", str(copy)).status == 0
            main_text(page, "it was committed")
        clean(window)


def test_in_doubt_verdict_foreign(doubt: Doubt, consoles: Consoles, windows: Windows) -> None:
    gid = doubt.foreign()
    client = consoles(allow_actions=True)
    with windows(client) as window:
        window.log_in()
        page = opened(window, gid)
        main_text(page, "another program prepared it")
        answer(page, gid, "ROLLBACK")
        main_text(page, "Refused.")
        assert doubt.target.prepared() == [gid]
        answer(page, gid, "ROLLBACK", "its program is gone, agreed with its owner", force=True)
        main_text(page, "rollback, forced")
        clean(window)
    assert doubt.target.prepared() == []


def test_in_doubt_verdict_in_progress(doubt: Doubt, consoles: Consoles, windows: Windows) -> None:
    """A process holds the lane's lock: no answer is taken, also by force; when it is gone the page asks for one."""
    gid = doubt.prepare(decided=True)
    client = consoles(allow_actions=True)
    with windows(client) as window:
        window.log_in()
        with doubt.target.engine.connect() as connection:
            assert try_lock(connection, "orders")
            page = opened(window, gid)
            main_text(page, "in progress")
            answer(page, gid, "COMMIT", force=True)
            main_text(page, "holds its lock")
            window.until_live()
            connection.invalidate()
        with not_loaded_again(page):
            expect(page.locator("dl.facts dd").first).to_have_text("commit", timeout=LIVE_MS)
        assert doubt.target.prepared() == [gid]
        clean(window)


def test_in_doubt_an_answer_that_was_begun(
    doubt: Doubt, dies: Callable[..., None], consoles: Consoles, windows: Windows
) -> None:
    """The command died behind its COMMIT PREPARED: the list says so, and its page takes the answer again."""
    gid = doubt.prepare(decided=True)
    dies(sent=True)
    with pytest.raises(Death):
        doubt("commit", gid)
    client = consoles(allow_actions=True)
    with windows(client) as window:
        window.log_in()
        page = window.open("/lanes/orders/in-doubt")
        main_text(page, "nothing is prepared in this database")
        main_text(page, "was begun and its end is not on record: give it again")
        page.locator(".box.warn a").click()
        page.wait_for_url("**/in-doubt/transaction?**")
        answer(page, gid, "COMMIT")
        page.wait_for_load_state("load")
        expect(page.locator("td", has_text="done").first).to_be_visible(timeout=LIVE_MS)
        assert page.locator("#gid").count() == 0
        clean(window)
    assert {one["state"] for one in doubt.answers()} == {"done"}


def test_in_doubt_answered_wrong(doubt: Doubt, consoles: Consoles, windows: Windows) -> None:
    """A rollback by force of what was decided stays on record, and the page says what became of it."""
    gid = doubt.prepare(decided=True)
    client = consoles(allow_actions=True)
    with windows(client, dark=True) as window:
        window.log_in()
        page = opened(window, gid)
        answer(page, gid, "ROLLBACK", force=True)
        main_text(page, "rollback, forced")
        main_text(page, "it was rolled back")
        clean(window)
    (given,) = doubt.answers()
    assert (given["state"], given["forced"], given["verdict"]) == ("done", True, "commit")


def test_in_doubt_start_the_lane(
    lane: MakeLane,
    hold: Hold,
    target: Target,
    topic: Topic,
    consoles: Consoles,
    windows: Windows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lane ends its own transaction, which the open page sees."""
    target.create(*TABLES)
    made, shop = lane("two-phase"), Shop(seed=5)
    held = hold("before-commit")
    topic.send(shop.messages(20))
    made.start()
    held.reached()
    (gid,) = target.prepared()
    client = consoles(made.config_file, allow_actions=True)
    with windows(client) as window:
        window.log_in()
        page = window.open(f"/lanes/{made.name}/in-doubt/transaction?{urlencode({'gid': gid})}")
        window.until_live()
        main_text(page, "in progress")
        with not_loaded_again(page):
            monkeypatch.delenv("SURELANE_FAILPOINT")
            held.release()
            main_text(page, "it was committed", LONG_MS)
        made.until_caught_up(topic)
        made.stop()
        page = window.open(f"/lanes/{made.name}/in-doubt")
        main_text(page, "nothing is prepared in this database")
        clean(window)


def test_quarantine_of_a_running_lane(
    lane: MakeLane, target: Target, topic: Topic, consoles: Consoles, windows: Windows
) -> None:
    """ops/runbooks/quarantined-message.md from its list to the empty one: the lane takes everything up meanwhile."""
    target.execute("create table narrow (id int primary key, note varchar(10))")
    made = lane("two-phase", guard={"on_skip": "park"})
    client = consoles(made.config_file, allow_actions=True)
    address = f"/lanes/{made.name}/quarantine"
    topic.send([narrow(1, "fits")])
    made.start()
    try:
        with windows(client) as window:
            window.log_in()
            page = window.open(address)
            window.until_live()
            with not_loaded_again(page):
                topic.send([narrow(7), narrow(7, "newer"), narrow(8), narrow(9)])
                main_text(page, "4 entries", LONG_MS)
            page.fill("#reason", "too long")
            page.get_by_role("button", name="Filter").click()
            page.wait_for_url("**reason=too+long**")
            main_text(page, "3 entries")
            first, second, last = sorted(
                one["id"] for one in client_json(client, f"/api{address}?reason=too+long")["entries"]
            )
            page.get_by_role("link", name=str(first), exact=True).click()
            for text in ("value too long", LONG, "Parked behind it", "kept, quarantined"):
                main_text(page, text)
            window.open(f"{address}/{last}")
            page.fill("#reason", "test data")
            page.get_by_role("button", name="Discard").click()
            main_text(page, "quarantined to discarded")
            window.open(f"{address}/{second}")
            page.fill("#reason", REASON)
            page.get_by_role("button", name="Release").click()
            window.until_live()
            with not_loaded_again(page):
                main_text(page, "refused because", LONG_MS)  # the cause is not mended
                target.execute("alter table narrow alter note type text")
            page.fill("#reason", REASON)
            page.get_by_role("button", name="Release").click()
            main_text(page, "quarantined to released", LONG_MS)
            window.open(f"{address}?table=public.*")
            page.fill("#why", REASON)
            page.get_by_role("button", name="Release all 2").click()
            page.wait_for_url("**/outcome?**")
            main_text(page, "2 released", LONG_MS)
            window.open(f"{address}?state=quarantined")
            main_text(page, "0 entries")
            window.open(f"/lanes/{made.name}/now")
            main_text(page, "running")
            clean(window)
        made.until_caught_up(topic)
    finally:
        made.stop()
    assert target.execute("select id, note from narrow order by id") == [(1, "fits"), (7, "newer"), (8, LONG)]


def client_json(client: Any, path: str) -> Any:
    return client.get(path, Authorization=f"Bearer {TOKEN}").json


def test_restore_and_replay_through_the_pages(
    lost: MakeLost, consoles: Consoles, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the lane running the gate is blocked, and the start refused. With the lane stopped the recovery is started
    by the page, outlives the console that started it, and ends; then the page shows the lane on its new target."""
    made = lost("dump")
    server = made.target.server.url("postgres", SUPERUSER)
    monkeypatch.setenv(PLACES_VARIABLE, server)
    client, process = consoles.process("--config", str(made.lane.config_file), "--allow-actions", token=TOKEN)
    address = f"/lanes/{made.lane.name}/recovery/{made.name}"

    def order(page: Page, *, typed: str = made.name, name: str = made.copy.database) -> None:
        page.fill("#name", name)
        page.fill("#snapshot", typed)
        page.fill("#reason", REASON)
        page.get_by_role("button", name="Recover").click()

    with windows(client) as window:
        window.log_in()
        made.lane.start()
        try:
            eventually(lambda: made.lane.health.ready().ok, why="the lane to run")
            page = window.open(address)
            main_text(page, f"{made.lane.name} runs: stop its process")
            order(page)
            main_text(page, "stop the lane first", LONG_MS)
            window.until_live()
            with not_loaded_again(page):
                made.lane.stop()
                main_text(page, "lane: stopped", LONG_MS)
        finally:
            made.lane.stop()
        for typed, name, why in (("other", made.copy.database, "not the snapshot's"), (made.name, "../x", "letters")):
            order(page, typed=typed, name=name)
            main_text(page, why)
        assert (made.course()["check"], made.target.prepared()) == ("waiting", [])
        order(page)
        main_text(page, "at work", LONG_MS)
        main_text(page, f"{WHO}@")
        assert server.partition("@")[0] not in page.content()
        clean(window)
    process.kill()  # the recovery is no part of it
    process.wait(20)
    client = consoles(made.lane.config_file, allow_actions=True, recover_to=[server])
    with windows(client, dark=True) as window:
        window.log_in()
        page = window.open(address)
        window.until_live()
        main_text(page, ": finished", LONG_MS)
        for text in ("Type next", "next, in the configuration", REASON):
            main_text(page, text)
        rows = page.locator("#journal tbody tr")
        assert [rows.nth(n).locator(".badge").inner_text() for n in range(rows.count())] == ["done"] * 6
        assert window.violations() == []
        (asked,) = made("--status", "--json").json["orders"]
        assert (asked["who"], asked["reason"]) == (f"console:{WHO}", REASON)
        made.lane.changed(target={"url": made.copy.url})
        shown = f"/lanes/{made.lane.name}/configuration"
        eventually(lambda: made.copy.database in window.open(shown).inner_text("main"), why="the new target")
        window.open(f"/lanes/{made.lane.name}/now")
        main_text(page, "caught up", LONG_MS)
        clean(window)
    made.questions()


def stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Time and size of each file."""
    found = [(path, path.stat()) for path in folder.rglob("*") if path.is_file()]
    return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in found}


def test_windows_of_a_running_query(
    lane: MakeLane, target: Target, topic: Topic, consoles: Consoles, windows: Windows
) -> None:
    """Read while the query runs: from the checkpoint, in which nothing is changed, and the query goes on."""
    shop = QueryShop(target, topic, seed=2)
    shop.prepare()
    whole = lane("two-phase", queries={"by_minute": {**QUERIES["by_minute"], "max_messages": 60}})
    made = whole.of_query("by_minute")
    client = consoles(whole.config_file)
    shop.send(120)
    made.start()
    try:
        made.until_caught_up(topic)
        files = stamps(made.checkpoint)
        with windows(client) as window:
            page = window.open(f"/lanes/{whole.name}/queries")
            main_text(page, "by window")
            main_text(page, "on disk")
            page.get_by_role("link", name="Windows of by_minute").click()
            main_text(page, "The state is being read")
            rows = page.locator("#windows tbody tr")
            expect(rows.first).to_be_visible(timeout=LONG_MS)
            shown = [
                (rows.nth(n).locator("td").nth(0).inner_text(), int(rows.nth(n).locator("td").nth(2).inner_text()))
                for n in range(rows.count())
            ]
            assert window.violations() == []
            clean(window)
        keys = Counter(row[0] for row in shop.batch("by_minute"))
        newest = sorted(keys, reverse=True)[:WINDOWS_SHOWN]
        assert shown == [(moment(minute.isoformat()), keys[minute]) for minute in newest]
        assert files.items() <= stamps(made.checkpoint).items()  # Spark adds snapshots of the state in the background
        shop.send(30)
        made.until_caught_up(topic)
    finally:
        made.stop()
    assert shop.result("by_minute") == shop.batch("by_minute")
    api, found = client.get("/api/openapi.json").json, client.get(f"/api/lanes/{whole.name}/queries/by_minute").json
    command = [sys.executable, "-m", "app.cli", "state", "windows", "by_minute", "--config", str(whole.config_file)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    printed = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True)
    assert found == json.loads(printed.stdout.splitlines()[-1]) | {"read": True}
    assert faults(api, "windows", found) == []
    sizes = client.get(f"/api/lanes/{whole.name}/queries").json
    assert faults(api, "queries", sizes) == []
    assert sizes["queries"][0]["stores"][0]["windows"]
