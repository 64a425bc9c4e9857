"""The console over HTTP, on a real target: what it shows, what it refuses, and what it leaves."""

import datetime
import html
import itertools
import json
import math
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest
import yaml
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from app.console.kept_engines import ANSWER_SECONDS, APPLICATION, FRESH_SECONDS, KEPT, KeptEngines
from app.console.logins import LoginRules
from app.console.now_reading import now_without_lag
from app.console.parameters import Parameters
from app.console.screens import SCREENS
from app.console.served_lanes import ServedLanes
from app.errors import ExitStatus, Refused
from app.model.offsets import Span, TopicPartition
from app.poison.attempts import Attempts, AttemptStage, Suspect
from tests.api_schema import faults
from tests.fix_bare_lane import MakeBareLane
from tests.fix_console import ROOT, TOKEN, WHO, Answer, Client, Consoles
from tests.fix_console_scene import Scene
from tests.fix_doubt import EPOCH, counted
from tests.fix_proxy import proxy_to
from tests.fix_snapshot import Snapshotting
from tests.fix_target import Target
from tests.waiting import eventually
from tests.workload import COUNTER
from tools.devstack import Kafka
from tools.devstack.ports import LOOPBACK
from tools.devstack.roles import READER

REASON = "ticket 17"
LIST_SECONDS = 0.2
READINGS = 7
MANY_ENTRIES = """
    insert into surelane.quarantine (lane, topic, partition, "offset", key, value, headers, source_schema, source_table,
        key_text, stage, verdict, error_class, error, sqlstate, attempts, generation, epoch, state)
    select :lane, 'many', 0, n, convert_to('{"id": ' || n || '}', 'utf8'), convert_to(
        '{"id": ' || n || ', "note": "' || repeat('v', 2000) || '"}', 'utf8'), '[]', 'public', 'many',
        convert_to(n::text, 'utf8'), 'apply', 'poison', 'DataError', 'value too long', '22001', 3, 1, :epoch,
        'quarantined' from generate_series(1, :count) n
"""
MANY_EPOCHS = """
    insert into surelane.ledger (lane, generation, epoch, start_position, end_position, consumed, applied, compacted,
        filtered, duplicate, quarantined, plan)
    select 'orders', 1, n, jsonb_build_object('made-up', jsonb_build_object('0', n)),
        jsonb_build_object('made-up', jsonb_build_object('0', n + 1)), 1, 1, 0, 0, 0, 0, 'deletes-first'
    from generate_series(10, 100009) n
"""
#: as a process that finds an epoch in the target that its checkpoint has not
REPLAYED = """
    insert into surelane.ledger (lane, generation, epoch, start_position, end_position, consumed, applied, compacted,
        filtered, duplicate, quarantined, plan)
    select lane, 3, epoch, start_position, end_position, consumed, 0, 0, 0, consumed, 0, plan
    from surelane.ledger where generation = 1 and epoch = 2
"""
#: shares of a core
IDLE_SHARE, VIEWED_SHARE = 0.01, 0.03
#: CPU seconds of PASSES of an empty loop on a core that others do not slow down
PASSES, PASSES_SECONDS = 100_000, 0.0015
VIEWERS = 5
#: measurements, of which the least counts
ROUNDS = 4
PAGES_OF_VIEWERS = ("now", "epochs", "in-doubt", "quarantine", "guard")
#: lines of a log of more than 8 MB
LOGGED_EPOCHS = 18_000
#: differ from one call to the next
_MOVING = {"age_seconds", "seconds", "lag_seconds", "headroom_seconds", "in_doubt_age_seconds"}


def still(document: Any) -> Any:
    """Without what moves."""
    if isinstance(document, dict):
        return {name: still(value) for name, value in document.items() if name not in _MOVING}
    return [still(one) for one in document] if isinstance(document, list) else document


def api(scene: Scene) -> dict[str, tuple[str, ...]]:
    """Address below /api/lanes/orders -> the verb that prints the same."""
    first = scene.ids()[0]
    return {
        "now": ("status",),
        "in-doubt": ("indoubt", "list"),
        "quarantine?limit=50": ("quarantine", "list"),
        "quarantine?state=parked&table=public.nar*&sqlstate=": (
            *("quarantine", "list", "--state", "parked"),
            *("--table", "public.nar*"),
        ),
        f"quarantine/{first}": ("quarantine", "show", str(first)),
        "guard": ("guard", "show"),
        "doctor": ("doctor",),
        "verify": ("verify", "--runs"),
        "queries": ("state", "sizes"),
        "configuration": ("config",),
    }


def test_the_api_gives_what_the_command_line_prints(scene: Scene, consoles: Consoles) -> None:
    client = consoles()
    for path, words in api(scene).items():
        found, printed = client.get(f"/api/lanes/orders/{path}").json, scene.json(*words)
        assert still({name: found[name] for name in printed}) == still(printed), path
    gid = {"gid": scene.gid}
    found = client.get(f"/api/lanes/orders/in-doubt/transaction?{urlencode(gid)}").json["prepared"]
    assert still(found) == still(scene.json("indoubt", "explain", scene.gid))
    assert found["verdict"] == "commit"


def test_the_command_to_type_next_is_the_lanes_own(scene: Scene, consoles: Consoles) -> None:
    """Of the default configuration, of another one, and of its query; as `surelane status` has it."""
    shown = consoles().get("/lanes/orders/now").text
    assert f"surelane indoubt explain {scene.gid}</pre>" in shown
    assert f'href="/lanes/orders/in-doubt/transaction?{urlencode({"gid": scene.gid})}"' in shown
    folder = scene.doubt.folder / "other lanes"
    folder.mkdir()
    query = {"changes": ["public.counter"], "sql": "select 1 as id from changes_of_counter", "table": "public.seen"}
    raw = yaml.safe_load((scene.doubt.folder / "surelane.yaml").read_text()) | {"queries": {"seen": query}}
    file = folder / "orders.yaml"
    file.write_text(yaml.safe_dump(raw))
    client, named = consoles(file), f"--config '{file}'"
    found = client.get("/api/lanes/orders/now").json["next"]
    assert [one["command"] for one in found] == [
        f"surelane indoubt explain {scene.gid} {named}",
        f"surelane run {named}",
    ]
    assert found == scene.json("status", "--config", str(file))["next"]
    (of_query,) = client.get("/api/lanes/orders.seen/now").json["next"]
    assert of_query["command"] == f"surelane run {named} --query seen"
    assert scene.json("status", "--config", str(file), "--query", "seen")["next"] == [of_query]
    assert f"surelane run {named} --query seen" in scene.surelane(*of_query_status(file)).out
    typed = html.escape(f"surelane run {named} --query seen").replace("&#x27;", "&#39;")
    assert typed in client.get("/lanes/orders.seen/now").text
    client.streamed("/", typed)  # the first page has only names


def of_query_status(file: Path) -> tuple[str, ...]:
    return ("status", "--config", str(file), "--query", "seen")


def test_the_hint_of_an_error_is_a_block_of_its_own(scene: Scene, consoles: Consoles) -> None:
    error = str(Refused("table public.x is not there", hint="create it, then: surelane run"))
    scene.target.execute("update surelane.lane_state set state = 'failed', last_error = :error", error=error)
    if not scene.target.execute("select 1 from surelane.lane_state"):
        scene.target.execute(
            "insert into surelane.lane_state (lane, state, last_error) values ('orders', 'failed', :error)", error=error
        )
    page = consoles().get("/lanes/orders/now").text
    assert "<pre>table public.x is not there</pre>" in page
    assert 'aria-label="command to type">create it, then: surelane run</pre>' in page
    found = scene.json("status")
    assert (found["hint"], [one["gid"] for one in found["next"]]) == ("create it, then: surelane run", [scene.gid])


def test_every_answer_of_the_api_is_documented(scene: Scene, consoles: Consoles) -> None:
    client = consoles()
    document = client.get("/api/openapi.json").json
    values = {"lane": "orders", "key": "1.1", "id": str(scene.ids()[0]), "snapshot": "none"}
    for path, operations in document["paths"].items():
        if path.endswith(("/verify/{id}", "/recovery/{snapshot}", "/queries/{query}")):
            continue  # there is none here: see test_comparisons..., test_console_recovery, test_console_runbooks
        address = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], path)
        query = {"outcome": f"?ids={values['id']}", "transaction": f"?{urlencode({'gid': scene.gid})}"}
        answer = client.get(address + query.get(operations["get"]["operationId"], ""))
        assert answer.status == 200, (address, answer.text)
        assert faults(document, operations["get"]["operationId"], answer.json) == []


def test_pages_are_there_and_say_what_is_not(scene: Scene, consoles: Consoles) -> None:
    client = consoles()
    newest, older = (client.get(f"/lanes/orders/epochs/1.{number}") for number in (1, 0))
    assert (newest.status, older.status) == (200, 200)
    assert ["sse-connect" in one.text for one in (newest, older)] == [
        True,
        False,
    ]  # what has a successor stays as it is
    absent = ("epochs/9.9", "epochs/x", "quarantine/9999", "recovery/none", "verify/1", "queries/none", "none")
    for path in ("/lanes/none/now", "/none", *(f"/lanes/orders/{one}" for one in absent)):
        assert client.get(path).status == 404, path
        assert client.get(path.replace("/lanes", "/api/lanes")).status == 404, path
    wrong = ("quarantine?since=yesterday", "quarantine?state=none", "quarantine?before=x", "epochs?generation=1e3")
    for query in wrong:
        assert client.get(f"/lanes/orders/{query}").status == 400, query
        assert client.get(f"/api/lanes/orders/{query}").status == 400, query
    assert client.get("/lanes/orders/now", Host="attacker.example").status == 421


def test_a_target_that_is_away_is_said(scene: Scene, consoles: Consoles) -> None:
    file = scene.doubt.folder / "away.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "lane": "away",
                "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["t"]},
                "target": {"url": "postgresql://x@127.0.0.1:1/x"},
            }
        )
    )
    client = consoles(scene.doubt.folder / "surelane.yaml", file)
    page = client.get("/lanes/away/now")
    assert (page.status, client.get("/api/lanes/away/now").status) == (503, 503)
    assert client.get("/lanes/away/quarantine/1/value").status == 503
    assert "cannot be read now" in page.text
    lanes = {one["lane"]: one["state"] for one in client.get("/api/lanes").json["lanes"]}
    assert lanes == {"orders": "stopped", "away": "not known"}


def test_a_configuration_with_faults_is_shown(scene: Scene, consoles: Consoles) -> None:
    file = scene.doubt.folder / "broken.yaml"
    file.write_text("lane: x\nsource: {topics: []}\n")
    page = consoles(scene.doubt.folder / "surelane.yaml", file).get("/").text
    assert "source.bootstrap_servers" in page


def orders(scene: Scene) -> dict[str, dict[str, str]]:
    """Every action: where, and the fields of its form."""
    first, gid = scene.ids()[0], urlencode({"gid": scene.gid})
    answer = {"gid": scene.gid, "reason": REASON, "answer": "commit"}
    every = {"reason": REASON, "count": "4"}
    return {
        f"/lanes/orders/in-doubt/transaction?{gid}": answer,
        f"/lanes/orders/in-doubt/transaction?{gid}&": answer | {"answer": "rollback", "force": "1"},
        f"/lanes/orders/quarantine/{first}": {"reason": REASON, "do": "release"},
        f"/lanes/orders/quarantine/{first}?": {"reason": REASON, "do": "discard"},
        "/lanes/orders/quarantine": every | {"do": "release"},
        "/lanes/orders/quarantine?table=public.*": every | {"do": "discard"},
        "/lanes/orders/recovery/none": {"reason": REASON, "snapshot": "none", "name": "copy"},
    }


def test_no_action_without_a_login_or_from_elsewhere(scene: Scene, consoles: Consoles) -> None:
    """With a wrong token, a forged origin, another session's mark, or where actions are off."""
    before = scene.left()
    client, reading = consoles(allow_actions=True), consoles(login=LoginRules(token=TOKEN))
    stranger, unknown = Client(client.port), Client(client.port, "surelane_console=guessed", "guessed")
    proxied = consoles(login=LoginRules(user_header="X-Person", proxies=("192.0.2.1",)), allow_actions=True)
    assert stranger.log_in(token="a wrong token of some length").status == 403
    assert stranger.log_in(who="").status == 403
    assert client.log_in().status == reading.log_in().status == 303
    other = Client(client.port)
    other.log_in("bob")
    crossed = Client(client.port, client.cookie, other.csrf)
    elsewhere = {"Origin": "http://attacker.example"}
    refusals: list[tuple[str, Answer]] = []
    for path, fields in orders(scene).items():
        bearer = {"Authorization": f"Bearer {TOKEN}", "Origin": ""}
        wrong = {"Authorization": "Bearer wrong"}
        csrf = {"csrf": client.csrf or ""}
        refusals += [
            ("no login", stranger.post(path, fields)),
            ("a guessed cookie", unknown.act(path, **fields)),
            ("a wrong token", stranger.post(path, fields, **wrong)),
            ("a token, which is for reading", stranger.post(path, fields, **bearer)),
            ("no mark", client.post(path, fields)),
            ("another session's mark", crossed.act(path, **fields)),
            ("a forged origin", client.post(path, fields | csrf, **elsewhere)),
            ("no origin", client.post(path, fields | csrf, Origin="")),
            ("another site", client.post(path, fields | csrf, **{"Sec-Fetch-Site": "cross-site"})),
            ("another host", client.post(path, fields | csrf, Host="attacker.example")),
            ("actions are off", reading.act(path, **fields)),
            ("a header that does not come from the proxy", proxied.post(path, fields, **{"X-Person": "alice"})),
        ]
    assert [(why, answer.status) for why, answer in refusals if answer.status not in (401, 403, 421)] == []
    assert not (scene.doubt.folder / "var").exists()
    assert client.get(next(iter(orders(scene)))).status == 200  # a GET only looks
    assert scene.left() == before


def test_a_form_that_is_wrong_changes_nothing(scene: Scene, consoles: Consoles) -> None:
    before, client = scene.left(), consoles(allow_actions=True)
    client.log_in()
    first = scene.ids()[0]
    transaction = f"/lanes/orders/in-doubt/transaction?{urlencode({'gid': scene.gid})}"
    fields = {"gid": scene.gid, "reason": REASON, "answer": "commit"}
    wrong: list[tuple[str, dict[str, str], str]] = [
        (transaction, fields | {"gid": scene.gid + "1"}, "is not the transaction"),
        (transaction, fields | {"reason": "  "}, "say why"),
        (transaction, fields | {"answer": "rollback"}, "is not to be rolled back"),
        (transaction, fields | {"answer": "drop table"}, "commit or rollback"),
        (f"/lanes/orders/quarantine/{first}", {"do": "release", "reason": ""}, "say why"),
        (f"/lanes/orders/quarantine/{first}", {"do": "delete", "reason": REASON}, "released or discarded"),
        (f"/lanes/orders/quarantine/{first}", {"do": "discard", "reason": "x" * 1_001}, "longer than"),
        ("/lanes/orders/quarantine", {"do": "discard", "reason": REASON, "count": "3"}, "now there are 4"),
        ("/lanes/orders/quarantine?state=released", {"do": "discard", "reason": REASON, "count": "0"}, "no entry"),
    ]
    for path, form, why in wrong:
        answer = client.act(path, **form)
        assert (answer.status, why in answer.text) == (409, True), (path, form, answer.text)
    large = client.act(f"/lanes/orders/quarantine/{first}", do="discard", reason="x" * 100_000)
    kind = client.act(f"/lanes/orders/quarantine/{first}", do="discard", reason=REASON)
    assert large.status == 400
    assert kind.status == 303
    assert len(scene.left()[1]) == len(before[1]) + 1


def test_an_action_is_on_record_with_who_and_why(scene: Scene, consoles: Consoles) -> None:
    client = consoles(allow_actions=True)
    client.log_in("bob")
    done = client.act(
        f"/lanes/orders/in-doubt/transaction?{urlencode({'gid': scene.gid})}",
        gid=scene.gid,
        reason=REASON,
        answer="commit",
    )
    assert done.status == 303, done.text
    assert scene.target.prepared() == []
    (answer,) = scene.doubt.answers()
    assert (answer["os_user"], answer["reason"], answer["answer"]) == ("console:bob", REASON, "commit")
    page = client.get(done.headers["location"]).text
    assert "it was committed" in page
    assert "console:bob" in page
    api, bearer = client.get("/api/openapi.json").json, {"Authorization": f"Bearer {TOKEN}"}
    listed = client.get("/api/lanes/orders/in-doubt", **bearer).json
    printed = scene.json("indoubt", "answers")
    assert (listed["answers"], listed["answers_total"]) == (printed["answers"], printed["total"])
    past = client.get(f"/api{done.headers['location']}", **bearer).json
    assert past["answers"] == scene.json("indoubt", "answers", scene.gid)["answers"]
    assert faults(api, "in-doubt", listed) == faults(api, "transaction", past) == []
    ids = [*scene.ids(), *scene.ids("parked")]
    scene.widened()
    released = client.act("/lanes/orders/quarantine?reason=too+long", do="release", reason=REASON, count="3")
    assert released.status == 303, released.text
    outcome = released.headers["location"].replace("/lanes", "/api/lanes")
    assert client.get(outcome).json["waiting"] == 3
    scene.started()
    found = client.get(outcome).json
    assert (found["states"], found["waiting"], found["refused"]) == ({"released": 3}, 0, 0)
    assert client.act(f"/lanes/orders/quarantine/{ids[-1]}", do="discard", reason="test data").status == 303
    who = f"console:bob@{socket.gethostname()}"
    assert [row for row in signed(scene) if row[1] == REASON] == [(who, REASON)] * 6  # requested, and released
    assert signed(scene)[-1] == (who, "test data")


def test_a_release_by_force_says_so(scene: Scene, consoles: Consoles) -> None:
    client = consoles(allow_actions=True)
    client.log_in()
    page = f"/lanes/orders/quarantine/{scene.ids()[0]}"
    assert "forced" not in client.get(page).text
    assert client.act(page, do="release", reason=REASON, force="1").status == 303
    assert "release requested, quarantined, forced</td>" in client.get(page).text


def test_the_outcome_of_many_is_kept(scene: Scene, consoles: Consoles) -> None:
    """Of more entries than an address has room for: by who did it and when, page by page."""
    scene.target.execute(MANY_ENTRIES, lane="orders", epoch=1, count=5_000)
    scene.target.execute("update surelane.quarantine set state = 'discarded' where topic = 'many' and id % 2 = 0")
    client = consoles(allow_actions=True)
    client.log_in()
    count = client.get("/api/lanes/orders/quarantine?topic=many").json["open"]
    assert count == 2_500
    scene.target.execute(
        "insert into surelane.quarantine_event (id, what, to_state, who, reason) "
        "select min(id), 'changed', 'discarded', 'another operator', 'x' from surelane.quarantine"
    )
    done = client.act("/lanes/orders/quarantine?topic=many", do="discard", reason=REASON, count=str(count))
    address = done.headers["location"]
    assert (done.status, len(address) < 4_000) == (303, True), address
    found = client.get(address.replace("/lanes", "/api/lanes")).json
    assert (found["states"], found["total"]) == ({"discarded": count}, count)
    seen = {one["id"] for one in found["entries"]}
    for _ in range(2):
        found = client.get(f"{address}&limit=500&before={found['older']}".replace("/lanes", "/api/lanes")).json
        seen |= {one["id"] for one in found["entries"]}
    assert len(seen) == 50 + 2 * 500
    assert "Older entries" in client.get(address).text
    assert client.get("/lanes/orders/quarantine/outcome?who=x&events=7").status == 400


def signed(scene: Scene) -> list[tuple[Any, ...]]:
    """Who and why, of what people did with entries."""
    events = "select who, reason from surelane.quarantine_event where who is not null order by event"
    return [tuple(row) for row in scene.target.execute(events)]


def test_a_proxy_names_the_person(scene: Scene, consoles: Consoles) -> None:
    client = consoles(login=LoginRules(user_header="X-Person", proxies=(LOOPBACK,)), allow_actions=True)
    assert client.get("/lanes/orders/now").status == 303
    opened = client.get("/lanes/orders/now", **{"X-Person": "carol"})
    client.cookie = opened.headers["set-cookie"].partition(";")[0]
    found = re.search(r'name="csrf" value="([^"]+)"', opened.text)
    assert found
    form = {"csrf": found[1], "do": "discard", "reason": REASON}
    path = f"/lanes/orders/quarantine/{scene.ids()[0]}"
    assert client.post(path, form, **{"X-Person": "mallory"}).status == 403
    assert client.post(path, form, **{"X-Person": "carol"}).status == 303
    assert signed(scene) == [(f"console:carol@{socket.gethostname()}", REASON)]


def test_a_login_is_asked_for_everywhere(scene: Scene, consoles: Consoles) -> None:
    client = consoles(login=LoginRules(token=TOKEN))
    assert client.get("/lanes/orders/now?x=1").headers["location"] == "/login?next=%2Flanes%2Forders%2Fnow%3Fx%3D1"
    assert client.get("/api/lanes").status == client.get("/live/lanes/orders/now").status == 401
    assert client.get("/api/lanes", Authorization=f"Bearer {TOKEN}").status == 200
    assert client.get("/static/console.css").status == client.get("/healthz").status == 200
    for onward in ("//attacker.example", "https://attacker.example", "/\\attacker.example"):
        answer = client.post(f"/login?{urlencode({'next': onward})}", {"who": WHO, "token": TOKEN})
        assert answer.headers["location"] == "/"
    answer = client.log_in()
    assert {"HttpOnly", "SameSite=Lax"} <= {part.strip() for part in answer.headers["set-cookie"].split(";")}
    assert client.act("/logout").status == 303
    assert client.get("/lanes/orders/now").status == 303


def test_hidden_columns_are_hidden(scene: Scene, consoles: Consoles) -> None:
    """As the command line hides them; bytes of the message are not given."""
    hide(scene, "*.note")
    client, first = consoles(), scene.ids()[0]
    for path in ("quarantine", f"quarantine/{first}", "guard", f"in-doubt/transaction?{urlencode({'gid': scene.gid})}"):
        for prefix in ("/lanes", "/api/lanes"):
            answer = client.get(f"{prefix}/orders/{path}")
            assert (answer.status, "xxxxxxxxxxx" in answer.text) == (200, False), path
    assert client.get(f"/lanes/orders/quarantine/{first}/value").status == 403


def hide(scene: Scene, column: str) -> None:
    file = scene.doubt.folder / "surelane.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"guard": {"redact": [column]}}))


def test_a_message_as_a_file(scene: Scene, consoles: Consoles) -> None:
    client, first = consoles(), scene.ids()[0]
    answer = client.get(f"/lanes/orders/quarantine/{first}/value")
    (value,) = scene.target.execute("select value from surelane.quarantine where id = :id", id=first)[0]
    assert answer.body == bytes(value)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_steps_of_epochs_come_from_the_log(scene: Scene, consoles: Consoles) -> None:
    log = scene.doubt.folder / "lane.log"
    line = {"event": "epoch", "lane": "orders", "generation": 1, "epoch": 0, "ms": {"stage": 3.5, "merge": 8.25}}
    log.write_text(json.dumps(line) + "\n")
    client = consoles(logs=[log])
    assert client.get("/api/lanes/orders/epochs/1.0").json["steps"] == line["ms"]
    listed = client.get("/api/lanes/orders/epochs").json["epochs"]
    assert {one["key"]: one["steps"] for one in listed} == {"1.1": None, "1.0": line["ms"]}
    api = client.get("/api/openapi.json").json
    assert faults(api, "epoch", client.get("/api/lanes/orders/epochs/1.0").json) == []
    assert "merge 8.2 ms" in client.get("/lanes/orders/epochs").text
    times = client.get("/api/lanes/orders/epochs/1.0").json["checkpoint"]
    assert times["planned_at"] <= times["decided_at"]


def test_generations_are_listed_with_their_ends(scene: Scene, consoles: Consoles) -> None:
    """Those without an epoch, too, each on one page; what was replayed, settled, and not applied at once is marked."""
    gid = scene.gid
    scene.started()
    scene.lane.reopen()
    scene.target.execute(REPLAYED)
    scene.lane.reopen()
    began = dict(map(tuple, scene.target.execute("select generation, started_at from surelane.generation")))
    log = scene.doubt.folder / "lane.log"

    def line(generation: int, event: str, ms: int, **more: object) -> str:
        at = began[generation] + datetime.timedelta(milliseconds=ms)
        return json.dumps({"timestamp": at.isoformat(), "event": event, "lane": "orders", **more}) + "\n"

    log.write_text(
        line(2, "settling", 0, gid=gid, decision="COMMIT", because="it was decided")
        + line(2, "start", 0, orders="resume")
        + line(2, "worker died", 1, cause="killed")
        + line(3, "start", 0, orders="resume")
    )
    client = consoles(logs=[log])

    def page(query: str) -> tuple[list[str], dict[int, bool], str]:
        found = client.get(f"/api/lanes/orders/epochs?{query}").json
        begun = {one["generation"]: one["begins_here"] for one in found["generations"]}
        return [one["key"] for one in found["epochs"]], begun, found["older"]

    assert page("") == (["3.2", "1.2", "1.1", "1.0"], {4: True, 3: True, 2: True, 1: True}, None)
    assert page("limit=1") == (["3.2"], {4: True, 3: True}, "3.2")
    assert page("limit=2&before=3.2") == (["1.2", "1.1"], {2: True, 1: False}, "1.1")
    assert page("limit=2&before=1.1") == (["1.0"], {1: True}, None)
    assert page("generation=2") == ([], {2: True}, None)
    found = client.get("/api/lanes/orders/epochs").json
    assert faults(client.get("/api/openapi.json").json, "epochs", found) == []
    ends = {one["generation"]: one["ended"] for one in found["generations"]}
    assert {number: ended and ended["how"] for number, ended in ends.items()} == {
        4: "stopped",
        3: "killed",
        2: "killed",
        1: None,
    }
    assert ends[2]["said"] == "cause killed"
    marks = {one["key"]: [mark["mark"] for mark in one["marks"]] for one in found["epochs"]}
    assert marks == {"3.2": ["replay"], "1.2": ["settled"], "1.1": ["fallback"], "1.0": []}
    text = client.get("/lanes/orders/epochs").text
    assert "generation 4 began" in text
    assert "no epoch" in text


def test_comparisons_are_kept_with_their_keys(snapshotting: Snapshotting, consoles: Consoles) -> None:
    """The copy has another value, and lacks a row."""
    target = snapshotting.target
    target.execute("create schema other")
    target.execute("create table other.counter as select * from public.counter where id < 2")
    target.execute("alter table other.counter add primary key (id)")
    target.execute("update other.counter set hits = 99 where id = 1")
    for statement in ("usage on schema other", "select on all tables in schema other"):
        target.execute(f"grant {statement} to surelane_owner")
    ended = snapshotting.surelane("verify", "--against-schema", "other", "--tables", "public.counter", "--json")
    assert ended.status == ExitStatus.DIFFERENT, ended.err
    printed = json.loads(ended.out.splitlines()[-1])
    client = consoles()
    (run,) = client.get("/api/lanes/orders/verify").json["runs"]
    found = client.get(f"/api/lanes/orders/verify/{run['id']}").json
    assert found["document"] == printed
    assert faults(client.get("/api/openapi.json").json, "comparison", found) == []
    runs = snapshotting.surelane("verify", "--runs", "--json")
    assert runs.json == client.get("/api/lanes/orders/verify").json
    assert "DIFFERENT" in snapshotting.surelane("verify", "--runs").out
    assert found["differing"] == 2
    page = client.get(f"/lanes/orders/verify/{run['id']}").text
    assert "hits" in page
    assert "99" in page


@pytest.mark.alone
def test_lists_are_quick(scene: Scene, consoles: Consoles) -> None:
    """10,000 messages, 100,000 epochs, with a log, and columns that are hidden: half of the readings are quicker."""
    scene.target.execute(MANY_ENTRIES, lane="orders", epoch=1, count=10_000)
    scene.target.execute(MANY_EPOCHS)
    scene.target.execute("analyze surelane.ledger; analyze surelane.quarantine")
    hide(scene, "*.note")
    log = scene.doubt.folder / "lane.log"
    log.write_text("".join(map(logged_epoch, range(LOGGED_EPOCHS))))
    client = consoles(logs=[log])
    assert "vvv" not in client.get("/lanes/orders/quarantine/5000").text
    older = client.get("/api/lanes/orders/epochs").json
    assert older["total"] == 100_002
    paths = (
        *("epochs", f"epochs?before={older['older']}", "epochs?before=1.500", "epochs?quarantined=1&limit=10"),
        *("quarantine", "quarantine?state=quarantined&table=public.m*", "quarantine?reason=too&before=5000"),
    )
    for path in paths:
        assert client.get(f"/lanes/orders/{path}").status == 200
        assert reading_seconds(client, f"/lanes/orders/{path}") < LIST_SECONDS, path


def reading_seconds(client: Client, path: str) -> float:
    """The median of some readings."""
    return least_of_rounds(lambda: statistics.median(timed(client, path) for _ in range(READINGS)), below=LIST_SECONDS)


def least_of_rounds(measured: Callable[[], float], *, below: float) -> float:
    """One round, or some where the machine is busy with other work, of which the least counts."""
    found = math.inf
    for _ in range(ROUNDS):
        found = min(found, measured())
        if found < below:
            break
    return found


def timed(client: Client, path: str) -> float:
    begin = time.perf_counter()
    client.get(path)
    return time.perf_counter() - begin


class Viewer:
    """Reads a stream until it is closed."""

    def __init__(self, client: Client, path: str) -> None:
        self.connection = HTTPConnection(LOOPBACK, client.port, timeout=60)
        self.connection.request("GET", path)
        self.answer = self.connection.getresponse()
        self.events = 0
        self._socket = self.connection.sock
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while line := self.answer.readline():
                self.events += line.startswith(b"event: content")
        except (OSError, HTTPException, ValueError, AttributeError):
            return

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


@pytest.fixture
def readings() -> Iterator[Callable[[], int]]:
    """`readings()`: how often the console in this process has taken a connection to a database."""
    taken: list[int] = []

    def note(connection: Connection) -> None:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        if driver.info.dsn_parameters["application_name"] == APPLICATION:
            taken.append(1)

    event.listen(Engine, "engine_connect", note)
    yield lambda: len(taken)
    event.remove(Engine, "engine_connect", note)


def test_nothing_is_read_while_no_page_is_open(scene: Scene, consoles: Consoles, readings: Callable[[], int]) -> None:
    """Five viewers of a page share one reader, which ends with the last of them."""
    client = consoles()
    viewers = [Viewer(client, "/live/lanes/orders/in-doubt") for _ in range(VIEWERS)]
    eventually(lambda: all(one.events > 1 for one in viewers), why="every viewer to get the page twice")
    assert 2 <= readings() <= max(one.events for one in viewers) + 1, "one is on its way"
    for one in viewers:
        one.close()

    def has_ended() -> bool:
        before = readings()
        threading.Event().wait(4)  # longer than between two readings
        return readings() == before

    eventually(has_ended, why="the reader to end")


def test_connections_are_kept_while_pages_are_read(scene: Scene) -> None:
    """At most some, and no longer."""
    lanes = ServedLanes([scene.doubt.folder / "surelane.yaml"], None, [])
    lane = lanes.get("orders")
    assert lane is not None
    text = "select from pg_stat_activity where application_name = :name"

    def there() -> int:
        return len(scene.target.execute(text, name=APPLICATION))

    with ExitStack() as stack:
        for _ in range(KEPT + 1):
            stack.enter_context(lane.engine.connect())
        assert there() == KEPT + 1
    eventually(lambda: there() == KEPT, why="the one too many to be closed")
    now_without_lag(lane, Parameters({}, []))
    lanes.close_idle(60)
    assert there() == KEPT
    scene.target.cut_connections()
    eventually(lambda: not there(), why="their loss")
    threading.Event().wait(2 * FRESH_SECONDS)
    now_without_lag(lane, Parameters({}, []))
    assert 1 <= there() <= KEPT, "those that were lost are replaced, and the page has not noticed"
    lanes.close_idle(0)
    eventually(lambda: not there(), why="their end")


def test_a_kept_connection_whose_server_does_not_answer_any_more(target: Target) -> None:
    """The machine is alive, and takes what is sent: a page waits for it as long as for a new connection."""
    with proxy_to(target.url) as proxy:
        engines, url = KeptEngines(), proxy.url(target.url)
        with engines.of(url, None).connect() as connection:
            connection.exec_driver_sql("select")
        threading.Event().wait(2 * FRESH_SECONDS)
        proxy.stall()
        begun = time.monotonic()
        with pytest.raises(OperationalError):
            engines.of(url, None).connect()
        assert time.monotonic() - begun < 3 * ANSWER_SECONDS + 1
        engines.close_idle(0)


@pytest.mark.alone
def test_the_console_costs_next_to_nothing(scene: Scene, consoles: Consoles) -> None:
    """A process of its own, without a viewer, with five who look at a lane of a real topic, and with five who look at
    different pages while the lane's log of 8 MB grows."""
    scene.target.execute(MANY_EPOCHS)
    scene.target.execute("analyze surelane.ledger")
    log = scene.doubt.folder / "lane.log"
    log.write_text("".join(map(logged_epoch, range(LOGGED_EPOCHS))))
    assert log.stat().st_size > 8 << 20
    client, process = consoles.process("--log", str(log))
    looked = psutil.Process(process.pid)

    def share(seconds: float) -> float:
        """Of a core. One that others slow down at the same time takes more CPU seconds for the same work."""
        before, loops = sum(looked.cpu_times()[:2]), []
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            threading.Event().wait(min(0.25, left))
            loops.append(passes_seconds())
        slower = max(1.0, statistics.mean(loops) / PASSES_SECONDS)
        return (sum(looked.cpu_times()[:2]) - before) / seconds / slower

    def viewed(*pages: str) -> float:
        viewers = [Viewer(client, f"/live/lanes/orders/{page}") for page in pages]
        eventually(lambda: all(one.events for one in viewers), why="every viewer to get the page")
        threading.Event().wait(2)
        found = least_of_rounds(lambda: share(10), below=VIEWED_SHARE)
        for one in viewers:
            one.close()
        return found

    client.get("/lanes/orders/now")
    threading.Event().wait(2)
    shares = {"idle": share(10), "now": viewed(*["now"] * VIEWERS)}
    done = threading.Event()

    def grow() -> None:
        with log.open("a") as file:
            for number in itertools.count(LOGGED_EPOCHS):
                file.write(logged_epoch(number))
                file.flush()
                if done.wait(0.1):
                    return

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        shares["pages"] = viewed(*PAGES_OF_VIEWERS)
        listed = client.get("/api/lanes/orders/epochs").json["epochs"]
    finally:
        done.set()
        growing.join()
    assert all(one["steps"] for one in listed)
    print(shares)
    assert shares["idle"] <= IDLE_SHARE, shares
    assert max(shares.values()) <= VIEWED_SHARE, shares


def passes_seconds() -> float:
    before = time.thread_time()
    for _ in range(PASSES):
        pass
    return time.thread_time() - before


def logged_epoch(number: int) -> str:
    """A line of a lane's log, as a lane in the two-phase mode writes it: of the newest of MANY_EPOCHS, and behind."""
    line = {
        "timestamp": "2026-01-01T00:00:01.123456Z",
        "level": "info",
        "event": "epoch",
        "lane": "orders",
        "epoch": number + 100_010 - LOGGED_EPOCHS,
        "generation": 1,
        "end": {"orders": {"0": number * 1000}},
        "plan": "deletes-first",
        "consumed": 1000,
        "applied": 900,
        "compacted": 50,
        "filtered": 50,
        "began": "2026-01-01T00:00:00.123+00:00",
        "ms": dict.fromkeys(("settle", "guard", "stage", "prepare", "apply", "identify", "pre-commit", "commit"), 12.3),
        "stage_ms": dict.fromkeys(("fetch", "decode", "arrange", "server"), 3.4),
    }
    return json.dumps(line) + "\n"


def test_the_verb(scene: Scene, consoles: Consoles) -> None:
    """Ends with 0 by SIGTERM, also while a page is open; refuses what is not safe."""
    client, process = consoles.process("--allow-actions", token=TOKEN)
    assert client.log_in().status == 303
    viewer = HTTPConnection(LOOPBACK, client.port, timeout=30)
    viewer.request("GET", "/live/lanes/orders/now", headers={"Cookie": client.cookie or ""})
    assert viewer.getresponse().status == 200
    taken = started("--port", str(client.port))
    assert (taken.returncode, "cannot listen" in taken.stderr) == (ExitStatus.ENVIRONMENT, True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    viewer.close()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--allow-actions",), "needs a login"),
        (("--host", "0.0.0.0"), "needs a login"),
        (("--proxy", "10.0.0.1"), "--user-header"),
        (("--token-file", "short"), "fewer than"),
        (("--token-file", "long", "--user-header", "X-Person"), "one kind of login"),
    ],
    ids=["actions", "host", "proxy", "token", "both"],
)
def test_what_is_not_safe_is_refused(scene: Scene, words: tuple[str, ...], why: str) -> None:
    (scene.doubt.folder / "short").write_text("short")
    (scene.doubt.folder / "long").write_text(TOKEN)
    ended = scene.surelane("console", *words)
    assert (ended.status, why in " ".join(ended.err.replace("│", " ").split())) == (ExitStatus.USAGE, True), ended.err


#: a reader of the pause draws a number, which a transaction that only reads may not
WRITING_VIEW = """
    alter table surelane.pause rename to pause_before;
    create sequence surelane.drawn;
    create view surelane.pause as select * from surelane.pause_before where nextval('surelane.drawn') > 0;
    grant select on surelane.pause to surelane_owner;
    grant usage on sequence surelane.drawn to surelane_owner;
    insert into surelane.pause_before (lane, paused_by) values ('orders', 'me@here');
"""


def test_without_actions_no_session_can_write(scene: Scene, consoles: Consoles) -> None:
    """Every session of the process has transactions that only read; every screen is there."""
    client, _ = consoles.process()
    for screen in SCREENS:
        if "{" not in screen.path and screen.name not in ("transaction", "outcome"):
            assert client.get(f"/lanes/orders{screen.path}").status == 200, screen.name
    scene.target.execute(WRITING_VIEW)
    assert consoles(allow_actions=True).get("/api/lanes", Authorization=f"Bearer {TOKEN}").status == 200
    assert scene.target.execute("select is_called from surelane.drawn") == [(True,)]
    drawn = scene.target.execute("select last_value from surelane.drawn")
    refused = client.get("/api/lanes/orders/now")
    assert (refused.status in (409, 503), "read-only transaction" in refused.text) == (True, True), refused.text
    assert scene.target.execute("select last_value from surelane.drawn") == drawn


def test_a_suspect_is_shown_with_how_far_it_is_narrowed(scene: Scene, consoles: Consoles) -> None:
    attempts = Attempts(scene.target.as_lane, "surelane", "orders")
    part = Span.of(TopicPartition("made-up", 0), 500, 540)
    attempts.suspect(
        Suspect(stage=AttemptStage.APPLY, span=part, attempts=2, deaths=1, cause="killed", first_messages=10_000)
    )
    client = consoles()
    page = client.get("/lanes/orders/guard").text
    for text in ("made-up[0]@500..539", "40 of 10,000 (0.4%); cuts left: 2", "2 of 3", "killed"):
        assert text in page, text
    assert client.get("/api/lanes/orders/guard").json == scene.json("guard", "show")


def test_without_its_libraries_the_verb_names_the_lock_file(scene: Scene) -> None:
    blocked = scene.doubt.folder / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text("import sys\nsys.modules['starlette'] = None\n")
    ended = started(path=blocked)
    assert ended.returncode == ExitStatus.ENVIRONMENT
    assert "requirements-console.lock" in ended.stderr


def started(*words: str, path: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """The verb as a process that ends by itself."""
    folders = [str(path), str(ROOT)] if path is not None else [str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-m", "app.cli", "console", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


def test_lanes_of_partitions(target: Target, bare_lane: MakeBareLane, consoles: Consoles, kafka: Kafka) -> None:
    """With `order: partition` each has its epochs; the configuration's lane has all of them."""
    target.create(COUNTER)
    for partition in (0, 1):
        bare_lane(name=f"orders.{partition}").apply(counted(partition * EPOCH))
    file = consoles.folder / "surelane.yaml"
    source = {"bootstrap_servers": kafka.bootstrap, "topics": ["none-of-this-name"], "order": "partition"}
    file.write_text(yaml.safe_dump({"lane": "orders", "source": source, "target": target.section}))
    client = consoles(file)
    now = client.get("/api/lanes/orders/now").json
    assert [one["lane"] for one in now["lanes"]] == ["orders.0", "orders.1"]
    assert now["lag_trouble"]
    found = client.get("/api/lanes/orders/epochs?of=orders.1").json
    assert (found["lane"], found["lanes"], found["total"]) == ("orders.1", ["orders.0", "orders.1"], 1)
    target.execute(MANY_ENTRIES, lane="orders.1", epoch=0, count=1)
    entry = client.get("/api/lanes/orders/quarantine").json["entries"][0]
    assert (entry["lane"], entry["generation"], entry["epoch"]) == ("orders.1", 1, 0)
    link = re.search(r'href="(/lanes/orders/epochs/[^"]+)"', client.get(f"/lanes/orders/quarantine/{entry['id']}").text)
    assert link
    assert client.get(link[1].replace("/lanes", "/api/lanes").replace("&amp;", "&")).json["lane"] == "orders.1"
    for page in ("now", "epochs?of=orders.1", "epochs/1.0?of=orders.1", "quarantine", "guard", "in-doubt"):
        assert client.get(f"/lanes/orders/{page}").status == 200, page


def test_a_reader_is_enough_to_look(scene: Scene, consoles: Consoles) -> None:
    """A login that may not write, without the owner's role."""
    file = scene.doubt.folder / "surelane.yaml"
    raw = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(raw | {"target": {"url": scene.target.url_as(READER)}}))
    client, first = consoles(allow_actions=True), scene.ids()[0]
    gid = urlencode({"gid": scene.gid})
    pages = (
        "now",
        "epochs",
        "epochs/1.1",
        "in-doubt",
        f"in-doubt/transaction?{gid}",
        "quarantine",
        f"quarantine/{first}",
    )
    client.log_in()
    for page in (*pages, "in-doubt", "guard", "recovery", "verify", "queries", "configuration"):
        assert client.get(f"/api/lanes/orders/{page}", Authorization=f"Bearer {TOKEN}").status == 200, page
    before = scene.left()
    refused = client.act(f"/lanes/orders/quarantine/{first}", do="discard", reason=REASON)
    assert refused.status in (409, 503), refused.text
    assert scene.left() == before


def test_a_query_is_shown_as_a_lane_of_its_own(scene: Scene, consoles: Consoles) -> None:
    """Before it ever ran; a release is refused, as the verb refuses it."""
    file = scene.doubt.folder / "surelane.yaml"
    query = {
        "changes": ["public.counter"],
        "sql": "select after.id as id from changes_of_counter",
        "table": "public.seen",
    }
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"queries": {"seen": query}}))
    client = consoles(allow_actions=True)
    client.log_in()
    assert [one["lane"] for one in client.get("/api/lanes").json["lanes"]] == ["orders", "orders.seen"]
    (shown,) = client.get("/api/lanes/orders/queries").json["queries"]
    assert (shown["query"], shown["runs"], shown["rows"], shown["into"]) == ("seen", False, None, "public.seen")
    assert scene.json("state", "sizes")["queries"] == [shown]
    assert "public.seen" in scene.surelane("state", "sizes").out
    assert "changes_of_counter" in client.get("/lanes/orders.seen/queries").text
    scene.target.execute("update surelane.quarantine set lane = 'orders.seen'")
    refused = client.act(f"/lanes/orders.seen/quarantine/{scene.ids()[0]}", do="release", reason=REASON)
    assert (refused.status, "does not take a message up again" in refused.text) == (409, True)
