"""What the console is made of: files served from the package, templates without scripts, and its small pieces."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from app.config.settings import Settings, SnapshotDriver
from app.console import feeds
from app.console.configuration_reading import configuration_of
from app.console.epoch_log import EpochLog
from app.console.gate import HEADERS
from app.console.logins import LoginRules, Logins, is_own_form, is_own_origin
from app.console.open_api import open_api
from app.console.pages import Pages, bars
from app.console.parameters import MAX_NUMBERS, AddressInvalid, Parameters, ranges_of
from app.console.recovery_places import RecoveryPlaces
from app.console.screens import SCREENS
from app.console.served_lanes import ServedLanes
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


def test_the_openapi_document_has_every_screen() -> None:
    document = open_api("1")
    assert document["openapi"].startswith("3.1")
    assert len(document["paths"]) == len(SCREENS) + 1
    for path, operations in document["paths"].items():
        parameters = operations["get"].get("parameters", [])
        assert set(re.findall(r"\{(\w+)\}", path)) == {one["name"] for one in parameters if one["in"] == "path"}
        assert operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]["properties"]


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
    shown = configuration_of(Settings.of(raw))
    assert SECRET not in json.dumps(shown)
    values = {one["key"]: one["value"] for one in shown}
    assert values["source.topics"] == "t"
    assert values["target.url"].startswith("postgresql")
    assert values["spark.conf.spark.authenticate.secret"] == "(hidden)"


def test_steps_and_events_of_a_log(tmp_path: Path) -> None:
    file = tmp_path / "log"
    lines = [
        "not JSON",
        {"event": "epoch", "lane": "orders", "generation": 3, "epoch": 7, "ms": {"stage": 5.0, "merge": 15.0}},
        {"event": "epoch", "lane": "other", "generation": 3, "epoch": 8, "ms": {"stage": 5.0}},
        {"event": "worker died", "lane": "orders", "level": "warning", "timestamp": "T", "because": "password=x"},
        {"event": "something else", "lane": "orders"},
    ]
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    log = EpochLog([file, tmp_path / "none"])
    found = log.read("orders", {(3, 7), (3, 8)})
    assert log.where == [str(file)]
    assert found.steps == {(3, 7): {"stage": 5.0, "merge": 15.0}}
    assert [one["event"] for one in found.others] == ["worker died"]
    assert "password=***" in found.others[0]["details"]
    assert [(one["x"], one["width"]) for one in bars(found.steps[3, 7])] == [(0, 250), (250, 750)]
    assert list(found.visible_at) == [(3, 7)]


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
