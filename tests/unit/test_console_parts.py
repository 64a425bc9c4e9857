"""What the console is made of: files served from the package, templates without scripts, and its small pieces."""

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.requests import HTTPConnection

from app.cli.config_view import config_document
from app.cli.indoubt_view import MAX_LINES
from app.config.settings import Settings, SnapshotDriver
from app.console import feeds
from app.console.document_types import DOCUMENTS
from app.console.epoch_log import EpochLog, LaneLog, LoggedEpoch
from app.console.gate import HEADERS
from app.console.log_file import LogFile
from app.console.logins import LoginRules, Logins, is_own_form, is_own_origin
from app.console.open_api import open_api
from app.console.pages import Pages, bars
from app.console.parameters import MAX_NUMBERS, AddressInvalid, Parameters, ranges_of
from app.console.recovery_places import RecoveryPlaces
from app.console.screens import SCREENS
from app.console.served_lanes import ServedLanes
from app.console.timeline import ahead_ms, timeline
from app.errors import ConfigInvalid, Refused

CONSOLE = Path(__file__).resolve().parents[2] / "app/console"
STATIC, TEMPLATES = CONSOLE / "static", sorted((CONSOLE / "templates").glob("*.html"))
VERSIONS = json.loads((STATIC / "versions.json").read_text())
OWN = {"console.css", "console.js", "icon.svg", "versions.json", "LICENSES.txt"}
SECRET = "a-secret-of-this-test"


@pytest.mark.parametrize("name", VERSIONS)
def test_a_library_of_the_browser_is_the_pinned_one(name: str) -> None:
    assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == VERSIONS[name]["sha256"]
    assert VERSIONS[name]["license"] in ("MIT", "0BSD")


def test_every_served_file_is_our_own_or_pinned() -> None:
    assert {path.name for path in STATIC.iterdir()} == OWN | set(VERSIONS)
    licenses = (STATIC / "LICENSES.txt").read_text()
    assert [name for name in VERSIONS if name not in licenses] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_script_style_or_address_of_its_own(path: Path) -> None:
    """The policy of content would refuse them."""
    text = path.read_text()
    scripts = re.findall(r"<script\b([^>]*)>(.*?)</script>", text, re.DOTALL)
    assert all(
        re.fullmatch(r' src="/static/[\w.-]+" defer', attributes) and not inside for attributes, inside in scripts
    )
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:|https?://|\|\s*safe\b", text, re.IGNORECASE) == []


def test_own_scripts_and_styles_name_no_other_server() -> None:
    for name in ("console.css", "console.js"):
        assert re.findall(r"https?:|//[\w.]+/|@import|url\(|eval\(|innerHTML", (STATIC / name).read_text()) == []


def test_the_policy_of_content_allows_this_server_alone() -> None:
    policy = dict(part.strip().split(" ", 1) for part in HEADERS["content-security-policy"].split(";"))
    assert policy.pop("default-src") == policy.pop("frame-ancestors") == policy.pop("base-uri") == "'none'"
    assert set(policy.values()) == {"'self'"}
    assert {"script-src", "style-src", "connect-src", "form-action"} <= policy.keys()


def test_every_screen_has_its_template_and_an_address_of_its_own() -> None:
    names = {path.name for path in TEMPLATES}
    assert {screen.template for screen in SCREENS} <= names
    assert len({screen.path for screen in SCREENS}) == len({screen.name for screen in SCREENS}) == len(SCREENS)
    Pages()


def test_what_a_page_leaves_out_is_counted() -> None:
    """Sessions that wait for a prepared transaction, its locks, and its tables."""
    waiting = {"pid": 1, "user": "u", "application": "a", "seconds": 1.0, "behind": False, "mode": "M", "place": "p"}
    prepared = {
        "verdict": "commit",
        "why": "w",
        "next": "n",
        "prepared_at": "2026-01-01T00:00:00Z",
        "age_seconds": 1.0,
        "owner": "o",
        "evidence": None,
        "tables": [f"t{number}" for number in range(MAX_LINES + 2)],
        "blocks": [{**waiting, "query": "q"}] * (MAX_LINES + 3),
        "locks": [{"mode": "M", "place": "p"}] * (MAX_LINES + 4),
    }
    text = Pages().live("transaction.html", {"document": {"prepared": prepared, "answers": [], "fate": None}})
    assert re.findall(r"and (\d+) more", text) == ["2", "3", "4"]


def test_the_openapi_document_has_every_screen() -> None:
    document = open_api("1")
    assert document["openapi"].startswith("3.1")
    assert len(document["paths"]) == len(SCREENS) + 1
    for path, operations in document["paths"].items():
        parameters = operations["get"].get("parameters", [])
        assert set(re.findall(r"\{(\w+)\}", path)) == {one["name"] for one in parameters if one["in"] == "path"}
        schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert all(
            "description" in one and one.keys() & {"type", "anyOf", "$ref"} for one in schema["properties"].values()
        )
    keys = {one.name: set(one.keys) for one in SCREENS}
    assert {name: set(get_type_hints(kind)) for name, kind in DOCUMENTS.items()} == keys
    assert set(document["components"]["securitySchemes"]) == {"token", "session"}
    Draft202012Validator.check_schema({"$defs": document["components"]["schemas"]})


@given(st.sets(st.integers(1, 5_000), max_size=200))
def test_numbers_as_ranges_and_back(numbers: set[int]) -> None:
    ascending = sorted(numbers)
    text = ranges_of(ascending)
    if ascending:
        assert list(Parameters({}, [("ids", text)]).numbers("ids")) == ascending
    else:
        assert text == ""


@pytest.mark.parametrize("text", ["x", "1-", "-1", f"1-{MAX_NUMBERS + 2}", "1-99999999999999999999", "٣"])
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(AddressInvalid):
        Parameters({}, [("ids", text)]).numbers("ids")


@given(st.text())
def test_an_event_keeps_its_lines(content: str) -> None:
    """As a browser reads it: lines that begin with `data: `, and an empty one at the end."""
    lines = feeds.event(content).decode().split("\n")
    assert lines[0] == "event: content"
    assert lines[-2:] == ["", ""]
    assert all(line.startswith("data: ") for line in lines[1:-2])
    read = "\n".join(line.removeprefix("data: ") for line in lines[1:-2])
    assert read == content.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()


def request(client: str = "127.0.0.1", **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "headers": raw, "client": (client, 1), "scheme": "http", "path": "/", "query_string": b""}
    return HTTPConnection({**scope, "server": ("127.0.0.1", 9180)})


def test_an_origin_is_own_where_it_is_the_host() -> None:
    host = "127.0.0.1:9180"
    assert is_own_origin(request(host=host, origin=f"http://{host}"))
    assert is_own_origin(request(host=host, origin=f"http://{host}", sec_fetch_site="same-origin"))
    assert not is_own_origin(request(host=host))
    assert not is_own_origin(request(host=host, origin="null"))
    assert not is_own_origin(request(host=host, origin="http://elsewhere.example"))
    assert not is_own_origin(request(host=host, origin="http://127.0.0.1:9181"))
    assert not is_own_origin(request(host=host, origin=f"http://{host}", sec_fetch_site="cross-site"))


def test_a_header_is_believed_from_its_proxy_alone() -> None:
    logins = Logins(LoginRules(user_header="X-Person", proxies=("10.0.0.7",)))
    assert logins.named(request("10.0.0.7", x_person="alice")) == "alice"
    assert logins.named(request("10.0.0.8", x_person="alice")) is None
    assert Logins(LoginRules(token=SECRET)).named(request("10.0.0.7", x_person="alice")) is None
    session = logins.open("alice")
    again = {"cookie": f"surelane_console={session.id}"}
    assert logins.session(request("10.0.0.7", x_person="alice", **again)) == session
    assert logins.session(request("10.0.0.7", x_person="mallory", **again)) is None
    assert is_own_form(session, session.csrf)
    assert not is_own_form(session, "")


def test_the_configuration_is_shown_without_a_secret() -> None:
    raw = {
        "lane": "orders",
        "source": {
            "bootstrap_servers": "broker:9092",
            "topics": ["t"],
        },
        "target": {"url": f"postgresql://surelane:{SECRET}@host/shop"},
        "guard": {
            "url": f"postgresql://guard:{SECRET}@host/shop",
        },
        "spark": {"conf": {"spark.authenticate.secret": SECRET}},
    }
    shown = config_document(Settings.of(raw), None)["values"]
    assert SECRET not in json.dumps(shown)
    values = {one["key"]: one["value"] for one in shown}
    assert values["source.topics"] == "t"
    assert values["target.url"].startswith("postgresql")
    assert values["spark.conf.spark.authenticate.secret"] == "(hidden)"


def epoch_line(number: int, lane: str = "orders", **more: object) -> str:
    line = {"event": "epoch", "lane": lane, "generation": 3, "epoch": number, "ms": {"stage": 5.0, "apply": 15.0}}
    return json.dumps({**line, "timestamp": "2026-01-01T00:00:01Z", **more}) + "\n"


def event_line(event: str, **more: object) -> str:
    return json.dumps({"event": event, "lane": "orders", "level": "warning", "timestamp": "T", **more}) + "\n"


def epochs_of(log: EpochLog, *numbers: int) -> list[int]:
    return sorted(number for _, number in log.read("orders", "orders", {(3, number) for number in numbers}).epochs)


def test_each_default_of_the_configuration_is_marked() -> None:
    """Also within a section of which something is given, and in a map of sections."""
    raw = {
        "lane": "orders",
        "source": {"bootstrap_servers": "broker:9092", "topics": ["t"]},
        "target": {"url": "postgresql://host/shop"},
        "queries": {"seen": {"changes": ["public.a"], "sql": "select 1", "table": "public.seen", "max_messages": 60}},
    }
    is_default = {one["key"]: one["default"] for one in config_document(Settings.of(raw), None)["values"]}
    assert (is_default["source.order"], is_default["target.unknown_table"], is_default["commit"]) == (True, True, True)
    assert (is_default["source.topics"], is_default["target.url"], is_default["lane"]) == (False, False, False)
    assert (is_default["queries.seen.max_messages"], is_default["queries.seen.files"]) == (False, True)


def test_steps_and_events_of_a_log(tmp_path: Path) -> None:
    file = tmp_path / "log"
    foreign = '{"event": "epoch", "lane": "orders", "generation": 3, "epoch": "x"}\n{"event": 7}\n{"ev\n[]\n\xff\n'
    lines = [
        foreign,
        epoch_line(7),
        epoch_line(8, lane="other"),
        event_line("worker died", because="password=x"),
        event_line("something else"),
    ]
    file.write_text("".join(lines))
    log = EpochLog([file, tmp_path / "none"])
    found = log.read("orders", "orders", {(3, 7), (3, 8)})
    assert log.where == [str(file)]
    assert {key: one.steps for key, one in found.epochs.items()} == {(3, 7): {"stage": 5.0, "apply": 15.0}}
    (event,) = [one.document() for one in found.events]
    assert event["event"] == "worker died"
    assert "password=***" in event["details"]
    assert [(one["x"], one["width"]) for one in bars(timeline(found.epochs[3, 7]))] == [(0, 250), (250, 750)]
    assert [one.event for one in log.read("orders.0", "orders", ()).events] == ["worker died"]
    assert log.read("orders.seen", "orders.seen", {(3, 7)}) == LaneLog()


def test_only_new_lines_of_a_log_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over rotations of either kind, truncations, and a line that is not whole yet."""
    file = tmp_path / "log"
    file.write_text(epoch_line(1))
    log, read = EpochLog([file]), list[int]()
    counted = LogFile.new_lines
    monkeypatch.setattr(LogFile, "new_lines", lambda one: [line for line in counted(one) if not read.append(len(line))])
    assert epochs_of(log, 1, 2) == [1]
    with file.open("a") as more:
        more.write(epoch_line(2) + epoch_line(3)[:-9])
        more.flush()
        assert epochs_of(log, 1, 2, 3) == [1, 2]
        more.write(epoch_line(3)[-9:])
    assert epochs_of(log, 2, 3) == [2, 3]
    assert len(read) == 3
    with file.open("a") as more:
        more.write(epoch_line(4))
    file.rename(tmp_path / "log.1")
    file.write_text(epoch_line(5))
    assert epochs_of(log, 1, 2, 3, 4, 5) == [1, 2, 3, 4, 5]
    assert len(read) == 5
    file.write_text("".join(map(epoch_line, (6, 7))))  # longer than what was read of it
    assert epochs_of(log, 5, 6, 7) == [5, 6, 7]
    file.write_text("")
    assert epochs_of(log, 8) == []
    file.write_text(epoch_line(8))
    assert epochs_of(log, 8) == [8]
    file.unlink()
    assert epochs_of(log, 8) == [8]


def test_the_newest_lines_of_a_log_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.console.epoch_log.MAX_EPOCHS", 3)
    monkeypatch.setattr("app.console.log_file.TAIL_BYTES", 500)
    file = tmp_path / "log"
    file.write_text("".join(map(epoch_line, range(100))))
    log = EpochLog([file])
    assert epochs_of(log, *range(100)) == [97, 98, 99]
    with file.open("a") as more:
        more.write("".join(map(epoch_line, range(100, 102))))
    assert epochs_of(log, *range(102)) == [99, 100, 101]


def test_what_a_log_says_of_an_epoch_besides_its_steps(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text(
        event_line("not applied as staged", epoch=4, because="SQLSTATE 23505")
        + epoch_line(4)
        + event_line("not applied as staged", epoch=5, because="lost with its process")
        + event_line("worker died")
        + event_line("settling", gid="surelane:orders:3:4", decision="COMMIT", because="it was decided")
        + epoch_line(5)
    )
    found = EpochLog([file]).read("orders", "orders", {(3, 4), (3, 5)})
    assert found.fallbacks == {(3, 4): "SQLSTATE 23505"}
    assert found.settled == {(3, 4): "COMMIT: it was decided"}


def test_the_timeline_of_an_epoch() -> None:
    """The stage is split, also where it began before the epoch; what is left before COMMIT is the checkpoint."""
    steps = {"settle": 1.0, "guard": 2.0, "stage": 30.0, "apply": 10.0, "pre-commit": 5.0, "commit": 2.0}
    staging = {"fetch": 20.0, "decode": 5.0, "arrange": 1.0, "server": 3.0}
    made = LoggedEpoch(
        visible_at="2026-01-01T00:00:00.090Z", began_at="2026-01-01T00:00:00.000+00:00", steps=steps, staging=staging
    )
    assert timeline(made) == {
        "settle": 1.0,
        "guard": 2.0,
        "fetch": 20.0,
        "decode": 5.0,
        "arrange": 1.0,
        "copy": 3.0,
        "stage": 1.0,
        "apply": 10.0,
        "pre-commit": 5.0,
        "checkpoint": 40.0,
        "commit": 2.0,
    }
    assert ahead_ms(made) == 0
    assert ahead_ms(replace(made, staging=staging | {"fetch": 60.0})) == 39.0
    one_phase = replace(made, steps={"decode": 3.0, "pre-commit": 5.0}, staging={})
    assert timeline(one_phase) == {"read": 3.0, "pre-commit": 5.0}


SERVER = f"postgresql://maker:{SECRET}@db.example:5433/postgres"


def test_a_recovery_goes_to_a_new_name_of_a_place_that_was_given() -> None:
    places = RecoveryPlaces.of([SERVER, "/srv/restored", "rds"])
    dump, folder, rds = SnapshotDriver.DUMP, SnapshotDriver.BASEBACKUP, SnapshotDriver.RDS
    assert places.place(dump, "shop-2") == SERVER.replace("/postgres", "/shop-2").replace(
        "postgresql:", "postgresql+psycopg2:"
    )
    assert places.place(folder, "shop-2") == "/srv/restored/shop-2"
    assert places.place(rds, "shop-2") == "shop-2"
    assert SECRET not in f"{places.shown(dump)}{places.shown(folder)}{places.shown(rds)}"
    for driver in SnapshotDriver:
        assert places.name_of(driver, places.place(driver, "shop-2")) == "shop-2"
        for name in ("../x", "a/b", "", ".hidden", "x" * 64, "a b", "x?host=elsewhere", "x\n"):
            with pytest.raises(Refused, match="letters"):
                places.place(driver, name)
        with pytest.raises(Refused, match="starts no recovery"):
            RecoveryPlaces.of([]).place(driver, "shop-2")
    assert places.name_of(dump, "postgresql://maker@elsewhere:5433/shop-2") is None
    assert places.name_of(folder, "/srv/other/shop-2") is None


@pytest.mark.parametrize(
    "texts", [[SERVER, SERVER], ["/a", "/b"], [f"mysql://u:{SECRET}@h/d"], [f"postgresql://:{SECRET}@h"]]
)
def test_places_that_are_wrong_are_refused_without_the_password(texts: list[str]) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        RecoveryPlaces.of(texts)
    assert SECRET not in str(refused.value)


def configured(folder: Path, name: str, topic: str) -> Path:
    file = folder / f"{name}.yaml"
    source = {"bootstrap_servers": "127.0.0.1:1", "topics": [topic]}
    text = {"lane": name, "source": source, "target": {"url": "postgresql://x@127.0.0.1:1/x"}}
    file.write_text(yaml.safe_dump(text))
    return file


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_every_configuration_of_a_folder_is_read(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        source = {"bootstrap_servers": "127.0.0.1:1", "topics": ["t"]}
        raw = {"lane": name, "source": source, "target": {"url": "postgresql://x@127.0.0.1:1/x"}}
        (tmp_path / f"{name}.{suffix if name == 'a' else 'yaml'}").write_text(yaml.safe_dump(raw))
    assert [one.name for one in ServedLanes((), tmp_path, ())] == ["a", "b"]


def test_a_configuration_that_changes_is_read_again(tmp_path: Path) -> None:
    """A lane whose configuration is the same keeps its connections; one with faults stays as it was."""
    first, other = configured(tmp_path, "orders", "one"), configured(tmp_path, "customers", "c")
    lanes = ServedLanes([], tmp_path, [])
    before = {one.name: one for one in lanes}
    lanes.refresh()
    assert {one.name: one for one in lanes} == before
    configured(tmp_path, "orders", "another")
    lanes.refresh()
    orders = lanes.get("orders")
    assert orders is not None
    assert orders.settings.source.topics == ("another",)
    assert lanes.get("customers") is before["customers"]
    first.write_text("lane: orders\n")
    lanes.refresh()
    assert lanes.get("orders") is orders
    assert [file for file, _ in lanes.broken] == [first]
    other.unlink()
    configured(tmp_path, "orders", "mended")
    lanes.refresh()
    assert ([one.name for one in lanes], lanes.broken) == (["orders"], ())


def test_a_lane_does_not_load_the_console() -> None:
    """Neither its modules nor its libraries."""
    code = "import sys, app.cli.main, app.cli.run; print(*sorted(name for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.startswith(("app.console", "starlette", "uvicorn", "jinja2"))] == []
