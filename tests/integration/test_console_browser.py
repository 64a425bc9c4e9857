"""The console in a real browser: runbooks through its pages, a kill seen live, hostile data, accessibility."""

import base64
import json
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from app.console.screens import SCREENS
from tests.fix_browser import DESK, LIVE_MS, Window, Windows, clean, main_text, not_loaded_again
from tests.fix_console import TOKEN, WHO, Consoles
from tests.fix_console_scene import LONG, Scene, blocked, narrow
from tests.fix_lane import Hold, MakeLane, MakeProcess
from tests.fix_recover import MakeLost, process
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.waiting import eventually
from tests.workload import TABLES, Shop

TOP = Path(__file__).resolve().parents[2]
FIRST_PAINT_MS = 200
REASON = "ticket 17"
#: pictures of the documents; SURELANE_PICTURES names a folder to write them anew
PICTURES = ("now", "epochs", "transaction", "entry")


def test_in_doubt_of_a_dead_lane(scene: Scene, consoles: Consoles, windows: Windows) -> None:
    """ops/runbooks/in-doubt.md, from "Look" to "Verdict commit"."""
    client = consoles(allow_actions=True)
    with windows(client) as window, blocked(scene.target, "alter table public.counter add more int"):
        window.log_in()
        page = window.open("/lanes/orders/now")
        page.get_by_role("link", name="In doubt", exact=True).click()
        expect(page.locator("tbody").first).to_contain_text("commit")
        page.get_by_role("link", name=scene.gid).first.click()
        window.until_live()
        for text in ("was decided: commits/2 exists", "orders, does not run", "AccessExclusiveLock on public.counter"):
            main_text(page, text)
        page.fill("#gid", scene.gid + "7")
        page.fill("#reason", REASON)
        page.get_by_role("button", name="COMMIT PREPARED").click()
        main_text(page, "Refused.")
        assert scene.target.prepared() == [scene.gid]
        assert page.input_value("#reason") == REASON
        page.fill("#gid", scene.gid)
        page.get_by_role("button", name="ROLLBACK PREPARED").click()
        main_text(page, "is not to be rolled back")
        page.fill("#gid", scene.gid)
        page.get_by_role("button", name="COMMIT PREPARED").click()
        main_text(page, "it was committed")
        main_text(page, REASON)
        clean(window)
    (answer,) = scene.doubt.answers()
    assert (answer["state"], answer["os_user"], answer["reason"]) == ("done", f"console:{WHO}", REASON)


def test_quarantine_of_a_dead_lane(scene: Scene, consoles: Consoles, windows: Windows) -> None:
    """ops/runbooks/quarantined-message.md: one is given up, the others are applied when the lane starts."""
    client = consoles(allow_actions=True)
    first, _, last = scene.ids()
    with windows(client, phone=True) as window:
        window.log_in()
        page = window.open("/lanes/orders/quarantine")
        page.fill("#reason", "too long")
        page.select_option("#state", "quarantined")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**reason=too+long**")
        page.get_by_role("link", name=str(first), exact=True).click()
        for text in ("value too long", LONG, "Parked behind it", "kept, quarantined"):
            main_text(page, text)
        window.open(f"/lanes/orders/quarantine/{last}")
        page.fill("#reason", "test data")
        page.get_by_role("button", name="Discard").click()
        main_text(page, "quarantined to discarded")
        main_text(page, f"console:{WHO}@")
        scene.widened()
        window.open("/lanes/orders/quarantine?table=public.*")
        page.fill("#why", REASON)
        page.get_by_role("button", name="Release all 3").click()
        page.wait_for_url("**/outcome?**")
        main_text(page, "3 wait for the lane")
        window.until_live()
        with not_loaded_again(page):
            scene.started()
            main_text(page, "3 released")
        clean(window)
    assert scene.target.execute("select id, note from narrow order by id") == [(7, "newer"), (8, LONG)]


def test_a_running_lane(
    lane: MakeLane,
    hold: Hold,
    target: Target,
    topic: Topic,
    consoles: Consoles,
    windows: Windows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has prepared is answered by itself, and what was released is applied: both are seen without a reload."""
    target.execute("create table narrow (id int primary key, note varchar(10))")
    made = lane("two-phase", guard={"on_skip": "park"})
    client = consoles(made.config_file, allow_actions=True)
    held = hold("before-commit")
    topic.send([narrow(1, "fits")])
    made.start()
    held.reached()
    (gid,) = target.prepared()
    with windows(client, dark=True) as window:
        window.log_in()
        page = window.open(f"/lanes/{made.name}/in-doubt/transaction?{urlencode({'gid': gid})}")
        window.until_live()
        main_text(page, "in progress")
        page.fill("#gid", gid)
        page.fill("#reason", REASON)
        page.get_by_role("button", name="COMMIT PREPARED").click()
        main_text(page, "holds its lock")
        assert target.prepared() == [gid]
        window.until_live()
        with not_loaded_again(page):
            monkeypatch.delenv("SURELANE_FAILPOINT")
            held.release()
            main_text(page, "it was committed")
        page = window.open(f"/lanes/{made.name}/quarantine")
        window.until_live()
        with not_loaded_again(page):
            topic.send([narrow(2)])
            main_text(page, "1 entries")
        target.execute("alter table narrow alter note type text")
        page.get_by_role("row").nth(1).get_by_role("link").click()
        page.fill("#reason", REASON)
        page.get_by_role("button", name="Release").click()
        main_text(page, "quarantined to released")
        page = window.open(f"/lanes/{made.name}/now")
        main_text(page, "running")
        main_text(page, "caught up")
        clean(window)
    made.until_caught_up(topic)
    made.stop()
    assert target.execute("select id, note from narrow order by id") == [(1, "fits"), (2, LONG)]


def test_a_kill_under_load_is_seen(
    lane_process: MakeProcess,
    lane: MakeLane,
    target: Target,
    topic: Topic,
    consoles: Consoles,
    windows: Windows,
    tmp_path: Path,
) -> None:
    """SIGKILL of everything of the lane: the open page says so, and what to type; then that it runs again."""
    target.create(*TABLES)
    made, shop, done = lane("two-phase"), Shop(seed=3), threading.Event()
    first = lane_process(made)
    client = consoles(made.config_file, logs=[first.log_file])

    def load() -> None:
        while not done.wait(0.2):
            shop.debezium.ts_ms = int(time.time() * 1000)
            topic.send(shop.messages(20))

    sending = threading.Thread(target=load)
    first.start()
    try:
        with windows(client) as window:
            sending.start()
            first.until_running()
            page = window.open(f"/lanes/{made.name}/now")
            window.until_live()
            main_text(page, "running")
            with not_loaded_again(page):
                epoch = page.locator("dl.facts a").first.inner_text()
                expect(page.locator("dl.facts a").first).not_to_have_text(epoch, timeout=LIVE_MS)
                first.kill()
                main_text(page, "failed")
                main_text(page, "ended without a word (killed?)")
                main_text(page, "surelane run")
                again = lane_process(made)
                again.log_file = first.log_file
                again.start().until(lambda: len(again.events("start")) == 2, why="the second start")
                expect(page.locator(".figure .badge").first).to_have_text("running", timeout=LIVE_MS)
            generations = window.open(f"/lanes/{made.name}/epochs")
            main_text(generations, "generation 2 began")
            expect(page.locator("svg.bar").first).to_be_visible()
            assert window.violations() == []
            clean(window)
        for dark, look in ((False, "light"), (True, "dark")):
            with windows(client, dark=dark) as window:
                for name in ("now", "epochs"):
                    window.open(f"/lanes/{made.name}/{name}")
                    window.until_live()
                    if name == "now":
                        assert drawn(window.page) >= {
                            "lag",
                            "freshness of the last epoch",
                            "messages of the last epoch",
                        }
                    picture(window, f"console-{name}-{look}", tmp_path)
    finally:
        done.set()
        sending.join()


def drawn(page: Page) -> set[str]:
    """Names of the sparklines that have a line in the colour of the page's look."""
    found = """() => [...document.querySelectorAll(".spark")].filter((figure) => {
        const canvas = figure.querySelector("canvas");
        if (canvas === null) return false;
        const wanted = getComputedStyle(document.documentElement).getPropertyValue("--link").trim().slice(1);
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        for (let at = 0; at < pixels.length; at += 4) {
            const isNear = (n) => Math.abs(pixels[at + n] - parseInt(wanted.slice(2 * n, 2 * n + 2), 16)) <= 10;
            if (pixels[at + 3] > 100 && [0, 1, 2].every(isNear)) return true;
        }
        return false;
    }).map((figure) => figure.dataset.name)"""
    return set(page.evaluate(found))


def test_restore_and_replay(lost: MakeLost, consoles: Consoles, windows: Windows) -> None:
    """ops/runbooks/restore-and-replay.md: the plan's gates, and the journal of a recovery that runs meanwhile."""
    made = lost("dump")
    client = consoles(made.lane.config_file)
    address = f"/lanes/{made.lane.name}/recovery"
    with windows(client) as window:
        page = window.open(address)
        main_text(page, made.name)
        main_text(page, "without limit of time")
        page.get_by_role("link", name=made.name).click()
        for text in ("leads there", "Kafka has everything from there on", "No recovery from it was begun"):
            main_text(page, text)
        assert page.locator("ol.gates .bad").count() == 0
        window.until_live()
        with not_loaded_again(page):
            running = process(*made.words(*made.to), failpoint="")
            main_text(page, "at work")
            _, output = running.communicate(timeout=300)
            assert running.returncode == 0, output.decode()
            main_text(page, ": finished")
        assert window.violations() == []
        rows = page.locator("#journal tbody tr")
        assert [rows.nth(n).locator(".badge").inner_text() for n in range(rows.count())] == ["done"] * 6
        made.lane.start()
        try:
            eventually(
                lambda: client.get(f"/api/lanes/{made.lane.name}/now").json["state"] == "running", why="the lane"
            )
            window.open(f"{address}/{made.name}")
            main_text(page, f"stop the lane: {made.lane.name} runs")
        finally:
            made.lane.stop()
        clean(window)
    made.questions()


HOSTILE = (
    "<script>window.hacked = 1; alert(1)</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "{{ 7 * 7 }} ${7*7} <!-- -->",
    "'; drop table surelane.quarantine; --",
    "\u202egnp.exe \u2066abc\u2069 \u05d0\u05d1\u05d2",
    "javascript:alert(1)//\u2028\u0000\u001b[31m",
    "<div hx-get='/logout' hx-trigger='load' sse-connect='/live/'>",
)
MEGABYTE = "<b>m</b>" * (1 << 17)
INSERT = """
    insert into surelane.quarantine (lane, topic, partition, "offset", key, value, headers, source_schema, source_table,
        key_text, stage, verdict, error_class, error, sqlstate, attempts, generation, epoch, state)
    values ('orders', :text, 0, :number, :bytes, :value, cast(:headers as json), 'public', :text, :bytes, 'apply',
        'poison', :text, :error, '22001', 3, 1, 1, 'quarantined') returning id
"""


def test_hostile_data_is_shown_and_never_run(scene: Scene, consoles: Consoles, windows: Windows) -> None:
    """In keys, values, headers, errors, table names, topics, gids, sessions' statements and filters."""
    ids = []
    values = [text.encode() for text in HOSTILE] + [MEGABYTE.encode(), bytes(range(256)) * 40]
    for number, value in enumerate(values):
        text = HOSTILE[number % len(HOSTILE)].replace("\0", "")
        headers = json.dumps([[text, base64.b64encode(value[:500]).decode()]])
        (row,) = scene.target.execute(
            INSERT, text=text, number=number, bytes=value[:2000], value=value, headers=headers, error=text * 100
        )
        ids.append(row[0])
    gid = scene.doubt.foreign("<script>window.hacked=1</script>'\"&\u202e")
    client = consoles(allow_actions=True)
    with windows(client) as window:
        window.log_in(who="<b>mallory</b>")
        page = window.page

        def harmless() -> None:
            assert page.evaluate("window.hacked") is None
            assert page.locator("main script, main img, main [hx-get], main b, main iframe").count() == 0
            clean(window)

        window.open("/lanes/orders/quarantine")
        window.until_live()
        main_text(page, HOSTILE[0])
        harmless()
        for number, entry in enumerate(ids):
            window.open(f"/lanes/orders/quarantine/{entry}")
            window.until_live()
            harmless()
            shown = page.locator("pre[aria-label=value]").inner_text()
            if number == 0:
                assert shown == HOSTILE[0]
            if number == 4:
                assert "\\u202egnp.exe" in shown
                assert "\u202e" not in page.content()
            if number == len(HOSTILE):
                assert "1,048,576 characters in all" in shown
            if number == len(HOSTILE) + 1:
                assert shown.startswith("00000000  00 01 02 03")
        with blocked(scene.target, "lock table public.stock /* <script>alert(1)</script> */ in access exclusive mode"):
            window.open(f"/lanes/orders/in-doubt/transaction?{urlencode({'gid': gid})}")
            window.until_live()
            main_text(page, "<script>window.hacked=1</script>")
            harmless()
            scene.target.server.execute("rollback prepared %s", gid, database=scene.target.database)
        for text in HOSTILE:
            for field in ("reason", "table", "topic", "sqlstate"):
                window.open(f"/lanes/orders/quarantine?{urlencode({field: text})}")
                harmless()
        window.open(f"/lanes/{HOSTILE[0].replace('/', '')}/now")
        assert page.evaluate("window.hacked") is None
        window.open("/lanes/orders/epochs/1.1?of=<script>alert(1)</script>")
        harmless()
    assert scene.target.execute("select count(*) from surelane.quarantine")[0][0] >= len(ids)


def addresses(scene: Scene) -> dict[str, str]:
    """Every screen that the scene has something for."""
    values = {"{key}": "1.1", "{id:int}": str(scene.ids()[0])}
    found: dict[str, str] = {}
    for screen in SCREENS:
        if screen.name in ("plan", "comparison", "windows"):
            continue
        path = screen.path
        for name, value in values.items():
            path = path.replace(name, value)
        query = {"transaction": urlencode({"gid": scene.gid}), "outcome": f"ids={values['{id:int}']}"}.get(screen.name)
        found[screen.name] = f"/lanes/orders{path}" + (f"?{query}" if query else "")
    return found


def looks(config: pytest.Config) -> list[tuple[bool, bool]]:
    """Dark or light, phone or wide; an ordinary run takes two of the four."""
    whole = bool(config.getoption("--full-matrix", default=False))
    return [(False, False), (True, True), *([(True, False), (False, True)] if whole else [])]


def test_accessibility(scene: Scene, consoles: Consoles, windows: Windows, request: pytest.FixtureRequest) -> None:
    """Axe finds nothing on any screen, light and dark, wide and on a phone; no page is wider than the phone."""
    client = consoles(allow_actions=True)
    found: list[tuple[str, Any]] = []
    for dark, phone in looks(request.config):
        with windows(client, dark=dark, phone=phone) as window:
            window.open("/login")
            found.append(("login", window.violations()))
            window.log_in()
            for name, path in {"lanes": "/", **addresses(scene)}.items():
                window.open(path)
                found.append((name, window.violations()))
                if phone:
                    wide = window.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                    assert wide <= 0, f"{name} is {wide} px wider than a phone"
            clean(window)
    assert [one for one in found if one[1]] == []


def picture(window: Window, name: str, folder: Path) -> None:
    """Of the window as it is; the test's own folder is shown as /srv."""
    shown = """folder => {
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replaceAll(folder, "/srv");
    }"""
    window.page.evaluate(shown, str(folder))
    made = Path(os.environ.get("SURELANE_PICTURES", folder)) / f"{name}.png"
    window.page.screenshot(path=made)
    assert struct.unpack(">II", made.read_bytes()[16:24]) == (DESK["width"], DESK["height"])


def test_pictures_of_a_lane_that_is_down(scene: Scene, consoles: Consoles, windows: Windows) -> None:
    """For the documents; SURELANE_PICTURES names the folder that keeps them."""
    client = consoles(allow_actions=True)
    for dark, look in ((False, "light"), (True, "dark")):
        with windows(client, dark=dark) as window:
            window.log_in()
            for name in ("transaction", "entry"):
                window.open(addresses(scene)[name])
                window.until_live()
                picture(window, f"console-{name}-{look}", scene.doubt.folder)


def test_the_pictures_of_the_documents_are_there() -> None:
    for name in PICTURES:
        for look in ("light", "dark"):
            assert (TOP / f"docs/console-{name}-{look}.png").read_bytes().startswith(b"\x89PNG")


def test_by_keyboard_alone(scene: Scene, consoles: Consoles, windows: Windows) -> None:
    """From the login to a discarded entry, without the mouse; the first stop of each page leads to its content."""
    client, first = consoles(allow_actions=True), scene.ids()[0]
    with windows(client) as window:
        page = window.open("/login?next=/lanes/orders/quarantine")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        page.locator("#who").focus()
        page.keyboard.type(WHO)
        page.keyboard.press("Tab")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_url(client.origin + "/lanes/orders/quarantine")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "state"
        page.locator(f"#entry-{first}").focus()
        window.until_live()
        scene.target.execute("update surelane.quarantine set attempts = attempts + 1 where id = :id", id=first)
        assert page.evaluate("document.activeElement.id") == f"entry-{first}"
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/quarantine/{first}")
        page.locator("#reason").focus()
        page.keyboard.type(REASON)
        for _ in range(3):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Discard"
        page.keyboard.press("Enter")
        main_text(page, "quarantined to discarded")
        clean(window)


@pytest.mark.alone
def test_the_first_paint_is_quick(scene: Scene, consoles: Consoles, windows: Windows) -> None:
    """Of a lane's first page, the best of three loads: the browser's caches are filled by the first one."""
    client = consoles()
    with windows(client) as window:
        painted = []
        for _ in range(3):
            window.open("/lanes/orders/now")
            window.page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
            entries = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            painted.append(window.page.evaluate(entries))
        assert min(painted) < FIRST_PAINT_MS, painted
