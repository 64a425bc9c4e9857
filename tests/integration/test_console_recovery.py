"""Recoveries on the console's pages, without a browser: what they show while a server is away."""

import time
from typing import Any

from app.recover.journal import Step, StepState, journal
from app.snapshot.driver import RestorePlace
from app.snapshot.snapshot_directory import Directory
from tests.api_schema import faults
from tests.fix_bare_lane import TOPIC
from tests.fix_console import Consoles
from tests.fix_doubt import EPOCH
from tests.fix_recover import forget
from tests.fix_snapshot import Snapshotting
from tests.fix_topic import Topic
from tools.devstack import Kafka

#: for a page, and then its first event, whose plan waits for Kafka
PAGE_SECONDS = 5.0


def at(offset: int) -> dict[str, dict[str, int]]:
    return {TOPIC.topic: {str(TOPIC.partition): offset}}


def test_a_recovery_is_watched_without_kafka(snapshotting: Snapshotting, consoles: Consoles) -> None:
    """The journal is on the page with the numbers of the replay, at once, and then why there is no plan; nothing waits
    for Kafka."""
    name = snapshotting.json("create")["name"]
    snapshot = Directory(snapshotting.directory).get(name)
    place = RestorePlace(to="postgresql://maker@db.example/copy")
    client = consoles()
    address = f"/lanes/orders/recovery/{name}"
    with journal(snapshot) as book:
        book.begin_anew(place)
        book.order("console:alice", "host", "ticket 17", place, foreign=True)
        for step in (Step.CHECK, Step.RESTORE, Step.IN_DOUBT, Step.LEDGER):
            book.begin(step)
            book.end(step, StepState.DONE, f"{step} is through")
        book.begin(Step.REPLAY, goal=at(10 * EPOCH))
        book.progress(Step.REPLAY, first=at(EPOCH))
        book.progress(Step.REPLAY, position=at(4 * EPOCH))
        begin = time.monotonic()
        page = client.get(address)
        live = client.streamed(address, "There is no plan now")
        assert (page.status, time.monotonic() - begin < PAGE_SECONDS) == (200, True)
    assert "The plan is being read" in page.text
    assert "The plan is being read" not in live
    course = ("at work", f"{3 * EPOCH} messages done, {6 * EPOCH} left", "ticket 17")
    for text in (*course, "(to postgresql://maker@db.example/copy, --roll-back-foreign)"):
        assert text in page.text, text
        assert text in live, text
    found = client.get(f"/api{address}").json
    assert (found["plan"], "Kafka" in found["trouble"]) == (None, True)
    shown = snapshotting.surelane("recover", "run", "--snapshot", name, "--status")
    assert f"{3 * EPOCH} messages done, {6 * EPOCH} left" in shown.out
    printed = snapshotting.surelane("recover", "run", "--snapshot", name, "--status", "--json").json
    assert found["recovery"] == printed | {"output": None}
    assert faults(client.get("/api/openapi.json").json, "plan", found) == []


def test_snapshots_savepoints_and_plans_are_what_the_command_line_prints(
    snapshotting: Snapshotting, made_up: Topic, kafka: Kafka, consoles: Consoles
) -> None:
    name = snapshotting.json("create")["name"]
    assert snapshotting.surelane("savepoint", "create", "before").status == 0
    client = consoles()
    api, found = client.get("/api/openapi.json").json, client.get("/api/lanes/orders/recovery").json
    for part in ("snapshot", "savepoint"):
        printed = snapshotting.surelane(part, "list", "--replayable", "--json").json
        assert still({key: found[f"{part}s"][key] for key in printed}) == still(printed)
        assert [one["ok"] for one in printed["replayable"].values()] == [True]
        assert "without limit of time" in snapshotting.surelane(part, "list", "--replayable").out
        assert "replayable" not in snapshotting.surelane(part, "list", "--json").json
    page = client.get("/lanes/orders/recovery").text
    assert name in page
    shown = client.get(f"/api/lanes/orders/recovery/{name}").json
    assert still(shown["plan"]) == still(snapshotting.surelane("recover", "plan", "--snapshot", name, "--json").json)
    assert shown["trouble"] is None
    printed = snapshotting.surelane("recover", "run", "--snapshot", name, "--status", "--json").json
    assert shown["recovery"] == printed | {"output": None}
    assert faults(api, "recovery", found) == faults(api, "plan", shown) == []
    forget(kafka, made_up.name, before=EPOCH + 1)
    for part in ("snapshot", "savepoint"):
        assert "no: Kafka has deleted messages" in snapshotting.surelane(part, "list", "--replayable").out
    client.streamed(f"/lanes/orders/recovery/{name}", "does not lead there")


def still(document: Any) -> Any:
    """Without what moves from one call to the next."""
    moving = {"until", "headroom_seconds", "seconds"}
    if isinstance(document, dict):
        return {name: still(value) for name, value in document.items() if name not in moving}
    return [still(one) for one in document] if isinstance(document, list) else document
