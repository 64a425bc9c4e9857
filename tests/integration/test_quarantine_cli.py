"""The quarantine from the command line: what is shown, asked for and refused, whatever the lane is doing meanwhile."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.quarantine_view import entry_text, list_text
from app.cli.rendering import show
from app.errors import ExitStatus
from app.quarantine.operator import LOCK_TIMEOUT_SECONDS
from app.quarantine.quarantine import Entry, EntryState, Quarantine
from tests.commands import Ended
from tests.fix_target import SCHEMA, Target
from tests.kept import TOPIC, entry, parked


@dataclass(frozen=True)
class Shelf:
    """A lane's quarantine and the command that handles it; Kafka is not there, and not needed."""

    target: Target
    folder: Path
    surelane: Callable[..., Ended]
    lane: str

    def __call__(self, *arguments: str) -> Ended:
        return self.surelane("quarantine", *arguments)

    def configure(self, **more: Any) -> None:
        sections = {
            "lane": self.lane,
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC]},
            "target": self.target.section,
        }
        (self.folder / "surelane.yaml").write_text(yaml.safe_dump(sections | more))

    def keep(self, *entries: Entry, lane: str | None = None) -> list[int]:
        """Ids of all open entries."""
        quarantine = Quarantine(SCHEMA, lane or self.lane)
        with self.target.as_lane.begin() as connection:
            quarantine.add(connection, 1, 5, entries)
            return [one.id for one in quarantine.held(connection)]

    def states(self) -> list[str]:
        return [row.state for row in self.target.execute("select state from surelane.quarantine order by id")]


@pytest.fixture
def shelf(target: Target, surelane: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.chdir(tmp_path)
    made = Shelf(target, tmp_path, surelane, "orders")
    made.configure()
    return made


def test_nothing_there(shelf: Shelf) -> None:
    assert shelf("list").out == "no such entries\n"
    assert shelf("list", "--json").json == {"total": 0, "entries": []}
    for call in (("show", "1"), ("release", "1"), ("discard", "1", "--reason", "x")):
        ended = shelf(*call)
        assert ended.status == ExitStatus.REFUSED
        assert "no entry 1" in ended.err
    assert shelf("release", "--all").status == 0


def test_a_target_that_is_not_migrated(shelf: Shelf) -> None:
    shelf.target.unmigrate()
    ended = shelf("list")
    assert ended.status == ExitStatus.TARGET
    assert "surelane migrate" in ended.err


def test_a_target_that_is_away(shelf: Shelf) -> None:
    shelf.configure(target={"url": "postgresql://me:hunter2@127.0.0.1:1/shop"})
    ended = shelf("list")
    assert ended.status == ExitStatus.ENVIRONMENT
    assert "hunter2" not in ended.err


def test_list(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    shelf.keep(entry(1), parked(2), entry(3, schema=None, table=None, key=None, error="not JSON", sqlstate=None))
    head, newest, _, oldest, total = shelf("list").out.splitlines()
    assert head.split()[:2] == ["id", "state"]
    for words in ("quarantined", f"{TOPIC}[0]@1 ", "public.orders", '{"id": 7}', "22001 value too long"):
        assert words in oldest
    assert "BadMessage not JSON" in newest
    assert total == "3 of 3"
    found = shelf("list", "--json", "--limit", "2").json
    assert found["total"] == 3
    show(found, list_text, as_json=False)
    assert capsys.readouterr().out == shelf("list", "--limit", "2").out
    newest, before = found["entries"]
    assert (newest["offset"], newest["table"], newest["key"], newest["error"]) == (3, None, None, "not JSON")
    assert (before["state"], before["attempts"], before["verdict"]) == ("parked", 0, None)
    assert before["key"] == {"size": 8, "text": '{"id":7}', "base64": None}
    assert "value" not in before


FILTERS: dict[tuple[str, ...], list[int]] = {
    (): [3, 2, 1],
    ("--state", "parked"): [2],
    ("--state", "parked", "--state", "quarantined", "--table", "public.*"): [2, 1],
    ("--topic", "other"): [],
    ("--since", "30m"): [3, 2, 1],
    ("--since", "2020-01-01"): [3, 2, 1],
    ("--since", "2999-01-01T00:00:00+02:00"): [],
    ("--reason", "too long"): [1],
    ("--sqlstate", "22"): [1],
    ("--limit", "1"): [3],
}


def test_filters(shelf: Shelf) -> None:
    shelf.keep(entry(1), parked(2), entry(3, schema=None, table=None, error="not JSON", sqlstate=None))
    found = {filters: shelf("list", "--json", *filters).json["entries"] for filters in FILTERS}
    assert {filters: [one["offset"] for one in entries] for filters, entries in found.items()} == FILTERS


def test_since_is_a_border(shelf: Shelf) -> None:
    shelf.keep(entry(1), entry(2))
    shelf.target.execute(
        "update surelane.quarantine set quarantined_at = quarantined_at - interval '2 hours' where \"offset\" = 1"
    )
    for since, offsets in (("1h", [2]), ("3h", [2, 1]), ("1d", [2, 1]), ("90m", [2])):
        assert [one["offset"] for one in shelf("list", "--json", "--since", since).json["entries"]] == offsets


WRONG = (
    ("list", "--since", "yesterday"),
    ("list", "--since", "999999d"),
    ("list", "--state", "lost"),
    ("list", "--limit", "0"),
    ("show",),
    ("show", "0"),
    ("show", "1", "--raw", "header"),
    ("release",),
    ("release", "1", "--all"),
    ("release", "1", "--table", "public.orders"),
    ("release", "1", "--force"),
    ("discard", "1"),
    ("discard", "1", "--reason", " "),
    ("discard", "--reason", "x"),
)


def test_usage(shelf: Shelf) -> None:
    shelf.keep(entry(1))
    assert {call: shelf(*call).status for call in WRONG} == dict.fromkeys(WRONG, ExitStatus.USAGE)
    assert shelf.states() == ["quarantined"]


def test_show(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    (number,) = shelf.keep(
        entry(
            1,
            value=b'{"op":"c","after":{"b":1.10,"a":12345678901234567890}}',
            headers=(("trace", b"abc"), ("trace", None), ("bin", b"\xff")),
            error="value too long\nDETAIL:  \x1b[2J",
        )
    )
    out = shelf("show", str(number)).out
    for words in ('{"op": "c", "after": {"b": 1.10, "a": 12345678901234567890}}', "trace: abc", "trace: null", "ff"):
        assert words in out
    assert "\x1b[2J" not in out
    assert "kept, quarantined, by surelane" in out
    found = shelf("show", str(number), "--json").json
    assert json.loads(found["value"]["text"])["op"] == "c"
    assert [name for name, _ in found["headers"]] == ["trace", "trace", "bin"]
    assert [value and value["base64"] for _, value in found["headers"]] == [None, None, "/w=="]
    assert found["history"][0]["what"] == "kept"
    assert found["release"] is None
    show(found, entry_text, as_json=False)
    assert capsys.readouterr().out == out


BYTES = {
    "binary": b"\xff\0\r\n\x1b[2J" * 3,
    "NUL in text": b"a\0b",
    "invalid UTF-8 in JSON": b'{"a":"\xff"}',
    "empty": b"",
    "deep": b"[" * 50_000,
    "large": b"\xfe" * 3_000_000,
}


@pytest.mark.parametrize("name", BYTES)
def test_any_bytes_are_shown_safely_and_written_exactly(shelf: Shelf, name: str) -> None:
    data = BYTES[name]
    (number,) = shelf.keep(entry(1, value=data, key=data, timestamp_ms=2**62))
    out = shelf("show", str(number)).out
    assert all(one.isprintable() or one == "\n" for one in out)
    assert len(out) < 250_000
    found = shelf("show", str(number), "--json").json["value"]
    assert found["size"] == len(data)
    assert (found["text"] is None) != (found["base64"] is None)
    for part in ("key", "value"):
        written = shelf("show", str(number), "--raw", part)
        assert (written.status, written.out.encode(errors="surrogateescape")) == (0, data)


def test_no_value_to_write(shelf: Shelf) -> None:
    (number,) = shelf.keep(entry(1, value=None))
    assert "value \nnull" in shelf("show", str(number)).out
    assert shelf("show", str(number), "--json").json["value"] is None
    assert shelf("show", str(number), "--raw", "value").status == ExitStatus.REFUSED


SECRET = "ann@example.org"
OF_CUSTOMER: dict[str, Any] = {
    "table": "customers",
    "value": f'{{"before":{{"email":"{SECRET}"}},"after":{{"id":7,"email":"{SECRET}"}}}}'.encode(),
    "error": f'bad "{SECRET}"; DETAIL:  Failing row contains (7, {SECRET}). (SQLSTATE 23514)',
}


def test_redaction(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    shelf.configure(guard={"redact": ["public.customers.email"]})
    (number,) = shelf.keep(entry(1, key=b'{"email":"ann@example.org"}', **OF_CUSTOMER))
    for call in (("list",), ("list", "--json"), ("show", str(number)), ("show", str(number), "--json")):
        ended = shelf(*call)
        assert ended.status == 0
        assert SECRET not in ended.out
        assert "ann@" not in ended.out
    found = shelf("show", str(number), "--json").json
    assert json.loads(found["value"]["text"]) == {"before": {"email": "***"}, "after": {"id": 7, "email": "***"}}
    assert found["error"] == 'bad "***" (SQLSTATE 23514)'
    show(found, entry_text, as_json=False)
    assert capsys.readouterr().out == shelf("show", str(number)).out
    assert SECRET in shelf("show", str(number), "--raw", "value").out, "whole, for a release"


def test_redaction_of_other_tables_hides_nothing(shelf: Shelf) -> None:
    shelf.configure(guard={"redact": "public.orders.note,*.ssn"})
    (number,) = shelf.keep(entry(1, schema="public", **OF_CUSTOMER))
    # `*.ssn` may be a column of any table: what is added to an error could hold it, the row's other columns stay
    out = shelf("show", str(number)).out
    assert SECRET in out
    assert "Failing row" not in out


@pytest.mark.parametrize("value", [f'{{"email":"{SECRET}"'.encode(), f'"{SECRET}"'.encode(), b"\xffann@example.org"])
def test_what_cannot_be_decoded_is_withheld(shelf: Shelf, value: bytes) -> None:
    shelf.configure(guard={"redact": ["public.customers.email"]})
    (number,) = shelf.keep(entry(1, schema=None, table=None, value=value, error="not JSON"))
    out = shelf("show", str(number)).out
    assert "ann@" not in out
    assert "--raw" in out
    found = shelf("show", str(number), "--json").json["value"]
    assert (found["text"], found["base64"]) == (None, None)


def test_release_is_recorded(shelf: Shelf) -> None:
    numbers = shelf.keep(entry(1), parked(2))
    ended = shelf("release", *map(str, numbers), "--reason", "column widened")
    assert ended.status == 0
    assert "the lane takes it up" in ended.out
    assert shelf.states() == ["quarantined", "parked"], "only the lane releases"
    found = shelf("show", str(numbers[0]), "--json").json
    assert found["release"]["reason"] == "column widened"
    assert "@" in found["release"]["requested_by"]
    assert (found["release"]["forced"], found["release"]["refused"]) == (False, None)
    assert "release requested" in shelf("show", str(numbers[0])).out
    quarantine = Quarantine(SCHEMA, shelf.lane)
    with shelf.target.engine.begin() as connection:
        assert [one.held.id for one in quarantine.requested(connection)] == numbers
        quarantine.refuse(connection, numbers[0], "a newer change of its key was applied")
        quarantine.released(connection, numbers[1])
    assert "a newer change of its key was applied" in shelf("show", str(numbers[0])).out
    assert shelf.states() == ["quarantined", "released"]


@pytest.mark.parametrize("state", [EntryState.RELEASED, EntryState.DISCARDED, EntryState.SUPERSEDED])
@pytest.mark.parametrize("verb", ["release", "discard"])
def test_what_is_closed_is_refused_and_nothing_is_changed(shelf: Shelf, state: EntryState, verb: str) -> None:
    numbers = shelf.keep(entry(1), entry(2))
    shelf.target.execute(
        "update surelane.quarantine set release_requested_at = now(), state = :state where id = :id",
        state=state.value,
        id=numbers[1],
    )
    ended = shelf(verb, *map(str, numbers), "--reason", "x")
    assert ended.status == ExitStatus.REFUSED
    assert f"entry {numbers[1]} is {state}" in ended.err
    assert "quarantine list" in ended.err
    (untouched,) = shelf.target.execute("select * from surelane.quarantine where id = :id", id=numbers[0])
    assert (untouched.state, untouched.release_requested_at) == ("quarantined", None)


def test_force_releases_what_was_superseded_and_nothing_else(shelf: Shelf) -> None:
    numbers = shelf.keep(entry(1), entry(2))
    shelf.target.execute("update surelane.quarantine set state = 'superseded' where id = :id", id=numbers[0])
    assert shelf("discard", str(numbers[1]), "--reason", "x").status == 0
    force = ("--force", "--reason", "the newer row is wrong")
    assert shelf("release", str(numbers[1]), *force).status == ExitStatus.REFUSED
    assert shelf("release", str(numbers[0]), *force).status == 0
    assert shelf("show", str(numbers[0]), "--json").json["release"]["forced"] is True


def test_all_of_a_table(shelf: Shelf) -> None:
    shelf.keep(entry(1), parked(2), entry(3, table="items"))
    assert "2 entries" in shelf("release", "--all", "--table", "public.orders").out
    requested = 'select "offset" from surelane.quarantine where release_requested_at is not null order by 1'
    assert shelf.target.execute(requested) == [(1,), (2,)]
    assert "3 entries" in shelf("discard", "--all", "--yes", "--reason", "x").out
    assert shelf.states() == ["discarded"] * 3


@pytest.mark.parametrize(
    ("answer", "status"), [("y\n", ExitStatus.OK), ("n\n", ExitStatus.REFUSED), ("", ExitStatus.REFUSED)]
)
def test_discarding_all_is_confirmed(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, tmp_path: Path
) -> None:
    shelf.keep(entry(1), entry(2))
    typed = tmp_path / "typed"
    typed.write_text(answer)
    with typed.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        ended = shelf("discard", "--all", "--reason", "x")
    assert ended.status == status
    assert "discard 2 entries?" in ended.err
    assert shelf.states() == ["quarantined" if status else "discarded"] * 2


def test_discard_says_who_and_why(shelf: Shelf) -> None:
    (number,) = shelf.keep(entry(1))
    assert shelf("discard", str(number), "--reason", "test data").status == 0
    last = shelf("show", str(number), "--json").json["history"][-1]
    assert (last["from_state"], last["to_state"], last["reason"]) == ("quarantined", "discarded", "test data")
    assert "@" in last["who"]
    assert "quarantined -> discarded" in shelf("show", str(number)).out


def test_while_an_epoch_is_prepared(shelf: Shelf) -> None:
    """Its new entries are not there yet, those it changes are held by it; neither makes anybody wait for long."""
    numbers = shelf.keep(entry(1), entry(2))
    quarantine, gid = Quarantine(SCHEMA, shelf.lane), f"surelane:{shelf.lane}:1:6"
    with shelf.target.engine.connect() as connection, connection.begin():
        quarantine.add(connection, 1, 6, [entry(3)])
        quarantine.supersede(connection, numbers[:1])
        connection.exec_driver_sql(f"prepare transaction '{gid}'")

    assert shelf("list", "--json").json["total"] == 2
    assert shelf("show", str(numbers[0])).status == 0
    begin = time.monotonic()
    for call in (("release", str(numbers[0])), ("discard", *map(str, numbers), "--reason", "x")):
        ended = shelf(*call)
        assert ended.status == ExitStatus.REFUSED
        assert "not committed yet" in ended.err
    assert time.monotonic() - begin < 2 * LOCK_TIMEOUT_SECONDS + 5
    assert shelf("release", str(numbers[1])).status == 0, "the others are free"
    assert shelf("discard", str(numbers[1]), "--reason", "x").status == 0

    shelf.target.server.execute(f"commit prepared '{gid}'", database=shelf.target.database)
    assert shelf.states() == ["superseded", "discarded", "quarantined"]
    assert shelf("release", str(numbers[0])).status == ExitStatus.REFUSED


def test_what_the_lane_is_releasing_cannot_be_discarded(shelf: Shelf) -> None:
    (number,) = shelf.keep(entry(1))
    assert shelf("release", str(number)).status == 0
    with shelf.target.engine.connect() as connection, connection.begin():
        Quarantine(SCHEMA, shelf.lane).requested(connection)
        assert shelf("discard", str(number), "--reason", "x").status == ExitStatus.REFUSED
    assert shelf("discard", str(number), "--reason", "x").status == 0


def test_the_lanes_of_several_partitions(shelf: Shelf) -> None:
    shelf.configure(source={"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC], "order": "partition"})
    shelf.keep(entry(1), lane="orders.0")
    (number,) = shelf.keep(entry(2), lane="orders.1")
    shelf.keep(entry(3), lane="orders2.1")
    found = shelf("list", "--json").json["entries"]
    assert [(one["lane"], one["offset"]) for one in found] == [("orders.1", 2), ("orders.0", 1)]
    assert shelf("discard", str(number), "--reason", "x").status == 0
