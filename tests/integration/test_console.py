"""The console over HTTP, on a real target: what it shows, what it refuses, and what it leaves."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest
import yaml

from app.console.logins import LoginRules
from app.errors import ExitStatus
from tests.fix_bare_lane import MakeBareLane
from tests.fix_console import ROOT, TOKEN, WHO, Answer, Client, Consoles
from tests.fix_console_scene import Scene
from tests.fix_doubt import EPOCH, counted
from tests.fix_snapshot import Snapshotting
from tests.fix_target import Target
from tests.waiting import eventually
from tests.workload import COUNTER
from tools.devstack import Kafka
from tools.devstack.ports import LOOPBACK
from tools.devstack.roles import READER

REASON = "ticket 17"
LIST_SECONDS = 0.2
MANY_ENTRIES = """
    insert into surelane.quarantine (lane, topic, partition, "offset", key, value, headers, source_schema, source_table,
        key_text, stage, verdict, error_class, error, sqlstate, attempts, generation, epoch, state)
    select 'orders', 'many', 0, n, convert_to('{"id": ' || n || '}', 'utf8'), convert_to(repeat('v', 2000), 'utf8'),
        '[]', 'public', 'many', convert_to(n::text, 'utf8'), 'apply', 'poison', 'DataError', 'value too long', '22001',
        3, 1, 1, 'quarantined' from generate_series(1, 10000) n
"""
MANY_EPOCHS = """
    insert into surelane.ledger (lane, generation, epoch, start_position, end_position, consumed, applied, compacted,
        filtered, duplicate, quarantined, plan)
    select 'orders', 1, n, jsonb_build_object('made-up', jsonb_build_object('0', n)),
        jsonb_build_object('made-up', jsonb_build_object('0', n + 1)), 1, 1, 0, 0, 0, 0, 'deletes-first'
    from generate_series(10, 100009) n
"""
#: shares of a core
IDLE_SHARE, VIEWED_SHARE = 0.01, 0.03
VIEWERS = 5
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


def test_every_answer_of_the_api_is_documented(scene: Scene, consoles: Consoles) -> None:
    client = consoles()
    document = client.get("/api/openapi.json").json
    values = {"lane": "orders", "key": "1.1", "id": str(scene.ids()[0]), "snapshot": "none"}
    optional = {"lanes", "lag_trouble"}
    for path, operations in document["paths"].items():
        if path.endswith(("/verify/{id}", "/recovery/{snapshot}", "/queries/{query}")):
            continue  # there is none here: test_comparisons, test_snapshots
        address = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], path)
        query = {"outcome": f"?ids={values['id']}", "transaction": f"?{urlencode({'gid': scene.gid})}"}
        answer = client.get(address + query.get(operations["get"]["operationId"], ""))
        assert answer.status == 200, (address, answer.text)
        schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]["properties"]
        assert set(answer.json) - optional == set(schema) - optional, path


def test_pages_are_there_and_say_what_is_not(scene: Scene, consoles: Consoles) -> None:
    client = consoles()
    assert client.get("/lanes/orders/epochs/1.1").status == 200
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
    file = scene.doubt.folder / "surelane.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"guard": {"redact": ["*.note"]}}))
    client, first = consoles(), scene.ids()[0]
    for path in ("quarantine", f"quarantine/{first}", "guard", f"in-doubt/transaction?{urlencode({'gid': scene.gid})}"):
        for prefix in ("/lanes", "/api/lanes"):
            answer = client.get(f"{prefix}/orders/{path}")
            assert (answer.status, "xxxxxxxxxxx" in answer.text) == (200, False), path
    assert client.get(f"/lanes/orders/quarantine/{first}/value").status == 403


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
    assert "merge 8.2 ms" in client.get("/lanes/orders/epochs").text
    times = client.get("/api/lanes/orders/epochs/1.0").json["checkpoint"]
    assert times["planned_at"] <= times["decided_at"]


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
    assert found["differing"] == 2
    page = client.get(f"/lanes/orders/verify/{run['id']}").text
    assert "hits" in page
    assert "99" in page


@pytest.mark.alone
def test_lists_are_quick(scene: Scene, consoles: Consoles) -> None:
    """10,000 messages, 100,000 epochs."""
    scene.target.execute(MANY_ENTRIES)
    scene.target.execute(MANY_EPOCHS)
    scene.target.execute("analyze surelane.ledger; analyze surelane.quarantine")
    client = consoles()
    older = client.get("/api/lanes/orders/epochs").json
    assert older["total"] == 100_002
    paths = (
        *("epochs", f"epochs?before={older['older']}", "epochs?before=1.500", "epochs?quarantined=1&limit=10"),
        *("quarantine", "quarantine?state=quarantined&table=public.m*", "quarantine?reason=too&before=5000"),
    )
    for path in paths:
        assert client.get(f"/lanes/orders/{path}").status == 200
        seconds = [timed(client, f"/lanes/orders/{path}") for _ in range(5)]
        assert min(seconds) < LIST_SECONDS, (path, seconds)


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


def sessions(scene: Scene) -> int:
    """How many sessions the target has seen, by Postgres' own count, which each session writes at its end."""
    (count,) = scene.target.execute("select sessions from pg_stat_database where datname = current_database()")[0]
    return int(count)


def test_nothing_is_read_while_no_page_is_open(scene: Scene, consoles: Consoles) -> None:
    """Five viewers of a page share one reader, which ends with the last of them."""
    client = consoles()
    begun = sessions(scene)
    viewers = [Viewer(client, "/live/lanes/orders/in-doubt") for _ in range(VIEWERS)]
    eventually(lambda: all(one.events > 1 for one in viewers), why="every viewer to get the page twice")
    readings = max(one.events for one in viewers)
    assert sessions(scene) - begun <= readings + 6  # those of the test's own questions among them
    for one in viewers:
        one.close()

    def has_ended() -> bool:
        before = sessions(scene)
        threading.Event().wait(4)  # longer than between two readings
        return sessions(scene) - before <= 1  # the question before

    eventually(has_ended, why="the reader to end")


@pytest.mark.alone
def test_the_console_costs_next_to_nothing(scene: Scene, consoles: Consoles) -> None:
    """A process of its own, without a viewer and with five, who look at a lane of a real topic."""
    client, process = consoles.process()
    looked = psutil.Process(process.pid)

    def share(seconds: float) -> float:
        """Of a core."""
        before = sum(looked.cpu_times()[:2])
        threading.Event().wait(seconds)
        return (sum(looked.cpu_times()[:2]) - before) / seconds

    client.get("/lanes/orders/now")
    threading.Event().wait(2)
    assert share(10) <= IDLE_SHARE
    viewers = [Viewer(client, "/live/lanes/orders/now") for _ in range(VIEWERS)]
    eventually(lambda: all(one.events for one in viewers), why="every viewer to get the page")
    threading.Event().wait(2)
    viewed = share(10)
    assert all(one.events > 1 for one in viewers)
    assert viewed <= VIEWED_SHARE
    for one in viewers:
        one.close()


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
    ],
    ids=["actions", "host", "proxy", "token"],
)
def test_what_is_not_safe_is_refused(scene: Scene, words: tuple[str, ...], why: str) -> None:
    (scene.doubt.folder / "short").write_text("short")
    ended = scene.surelane("console", *words)
    assert (ended.status, why in " ".join(ended.err.replace("│", " ").split())) == (ExitStatus.USAGE, True), ended.err


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
    assert "changes_of_counter" in client.get("/lanes/orders.seen/queries").text
    scene.target.execute("update surelane.quarantine set lane = 'orders.seen'")
    refused = client.act(f"/lanes/orders.seen/quarantine/{scene.ids()[0]}", do="release", reason=REASON)
    assert (refused.status, "does not take a message up again" in refused.text) == (409, True)
