"""Runbooks in a real browser after a real death: lanes and recoveries that SIGKILL has ended, and that go on."""

import signal
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page

from app.db.locks import lock_holder
from tests.fix_browser import Windows, clean, main_text, not_loaded_again
from tests.fix_console import TOKEN, WHO, Client, Consoles
from tests.fix_console_scene import LONG, narrow
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_recover import MakeLost
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import questions
from tests.waiting import eventually
from tests.workload import TABLES, Shop
from tools.devstack.postgres import SUPERUSER

REASON = "ticket 17"
MESSAGES = 50
#: of a recovery, and of a lane that starts
LONG_MS = 120_000


def let_go(target: Target, lane: LaneUnderTest) -> None:
    """Wait until the session of a process that was killed has released the lane's lock."""
    with target.engine.connect() as connection:
        eventually(lambda: lock_holder(connection, lane.name) is None, why="its session to be gone")


def test_in_doubt_after_a_kill_between_decision_and_commit(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, consoles: Consoles, windows: Windows
) -> None:
    """From *Now* by its link to the evidence, answered there; then the lane is started again, and goes on."""
    target.create(*TABLES)
    made, shop = lane("two-phase"), Shop(seed=5)
    log = consoles.folder / "lane.log"
    topic.send(shop.messages(MESSAGES))
    victim = lane_process(made, failpoint="before-commit=kill").start()
    assert victim.wait() == -signal.SIGKILL, victim.tail()
    let_go(target, made)
    (gid,) = target.prepared()
    client = consoles(made.config_file, allow_actions=True, logs=[log])
    with windows(client) as window:
        window.log_in()
        page = window.open(f"/lanes/{made.name}/now")
        for text in ("failed", f"surelane indoubt explain {gid} --config {made.config_file}"):
            main_text(page, text)
        page.get_by_role("link", name="The evidence on it").click()
        page.wait_for_url("**/in-doubt/transaction?**")
        window.until_live()
        for text in ("commit", "exists", f"generation {gid.split(':')[2]}"):
            main_text(page, text)
        page.fill("#gid", gid)
        page.fill("#reason", REASON)
        page.get_by_role("button", name="COMMIT PREPARED").click()
        main_text(page, "it was committed")
        assert target.prepared() == []
        page = window.open(f"/lanes/{made.name}/now")
        main_text(page, f"surelane run --config {made.config_file}")
        window.until_live()
        topic.send(shop.messages(MESSAGES))
        with not_loaded_again(page):
            again = lane_process(made, arguments=("--log", str(log))).start()
            main_text(page, "running", LONG_MS)
            eventually(lambda: dict(target.position()) == topic.ends, 120, "the lane to catch up")
            main_text(page, "caught up", LONG_MS)
        assert again.stop() == 0, again.tail()
        clean(window)
    steps = client_epochs(client, made)
    assert steps[0]["steps"], "the lane's own file has them"
    questions(target, topic, exactly_once=made.exactly_once)
    (given,) = target.execute("select os_user, reason, answer, state from surelane.indoubt_answer")
    assert tuple(given) == (f"console:{WHO}", REASON, "commit", "done")


def client_epochs(client: Client, made: LaneUnderTest) -> list[dict[str, Any]]:
    return client.get(f"/api/lanes/{made.name}/epochs", Authorization=f"Bearer {TOKEN}").json["epochs"]


def test_quarantine_of_a_killed_lane(
    lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic, consoles: Consoles, windows: Windows
) -> None:
    """What is released while the lane is dead waits; its next start takes it up, which the open page shows."""
    target.execute("create table narrow (id int primary key, note varchar(10))")
    made = lane("two-phase", guard={"on_skip": "park"})
    topic.send([narrow(1, "fits"), narrow(7), narrow(7, "newer"), narrow(8)])
    victim = lane_process(made).start()
    kept = "select count(*) from surelane.quarantine"
    eventually(lambda: target.execute(kept) == [(3,)], 120, "the lane to skip them")
    victim.kill()
    let_go(target, made)
    client = consoles(made.config_file, allow_actions=True)
    address = f"/lanes/{made.name}/quarantine"
    with windows(client) as window:
        window.log_in()
        page = window.open(f"{address}?{urlencode({'table': 'public.narrow'})}")
        main_text(page, "3 entries")
        page.fill("#why", REASON)
        page.get_by_role("button", name="Release all 3").click()
        page.wait_for_url("**/outcome?**")
        window.until_live()
        target.execute("alter table narrow alter note type text")
        with not_loaded_again(page):
            again = lane_process(made).start()
            main_text(page, "3 released", LONG_MS)
        clean(window)
        eventually(lambda: dict(target.position()) == topic.ends, 120, "the lane to catch up")
        window.open(f"/lanes/{made.name}/now")
        main_text(page, "running")
        assert again.stop() == 0, again.tail()
    assert target.execute("select id, note from narrow order by id") == [(1, "fits"), (7, "newer"), (8, LONG)]
    events = "select distinct who from surelane.quarantine_event where reason = :reason and what = 'release requested'"
    ((who,),) = target.execute(events, reason=REASON)
    assert who.startswith(f"console:{WHO}@")


@pytest.mark.costly(1)
@pytest.mark.parametrize("place", ["recover-in-doubt", "recover-ledger", "before-commit"])
def test_a_killed_recovery_goes_on_by_the_form(
    place: str, lost: MakeLost, consoles: Consoles, windows: Windows
) -> None:
    """The page says how far it had come; without a name the form lets it go on where it is."""
    made = lost("dump")
    made.killed(place, *made.to)
    before = made.course()
    assert before["restore"] == "done"
    assert before["verify"] == "waiting"
    server = made.target.server.url("postgres", SUPERUSER)
    client = consoles(made.lane.config_file, allow_actions=True, recover_to=[server])
    with windows(client) as window:
        window.log_in()
        page = window.open(f"/lanes/{made.lane.name}/recovery/{made.name}")
        main_text(page, "not finished, and not at work")
        main_text(page, "Without a name it goes on at")

        def order(page: Page, typed: str) -> None:
            page.fill("#snapshot", typed)
            page.fill("#reason", REASON)
            page.get_by_role("button", name="Recover").click()

        order(page, "another")
        main_text(page, "not the snapshot's")
        assert made.course() == before
        order(page, made.name)
        main_text(page, ": finished", LONG_MS)
        rows = page.locator("#journal tbody tr")
        assert [rows.nth(n).locator(".badge").inner_text() for n in range(rows.count())] == ["done"] * 6
        clean(window)
    orders = made("--status", "--json").json["orders"]
    assert [(one["who"] == f"console:{WHO}", one["reason"]) for one in orders] == [(False, None), (True, REASON)]
    assert len(made.copy.execute("select 1 from surelane.recovery_order")) == len(orders)
    made.questions()
