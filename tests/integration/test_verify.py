"""Two real databases compared from the command line: what is the same, what is found, and how little of it travels."""

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from app.apply.target_tables import load_table
from app.cli.rendering import show
from app.cli.verify_view import verify_text
from app.errors import ExitStatus, TargetMismatch
from app.metrics.lane_metrics import LaneMetrics
from app.verify.compare import Comparer
from app.verify.pair import Pair
from app.verify.side import DatabaseSide, snapshot
from app.verify.verification_records import Verifications
from app.worker.monitor import show_verified
from tests.commands import Ended
from tests.fix_recover import killed
from tests.fix_target import Target
from tests.waiting import eventually
from tools.devstack.roles import READER

ITEM = "create table public.item (id bigint primary key, name text, price numeric(12,2))"
FILL = "insert into public.item select n, 'item ' || n, n / 100.0 from generate_series(1, {rows}) n"


@dataclass
class Verifying:
    """The lane's target and the other database; the command is called by `()`."""

    target: Target
    other: Target
    folder: Path
    surelane: Callable[..., Ended]

    def __call__(self, *arguments: str) -> Ended:
        return self.surelane("verify", "--against", self.other.url_as(READER), *arguments)

    def json(self, *arguments: str) -> dict[str, Any]:
        """What `--json` prints, which agrees with the exit status."""
        ended = self("--json", *arguments)
        found = ended.json
        assert ended.status == (ExitStatus.OK if found["equal"] else ExitStatus.DIFFERENT)
        return found

    def table(self, *arguments: str) -> dict[str, Any]:
        """The only one that was compared."""
        (found,) = self.json(*arguments)["tables"]
        return found

    def configure(self, target: dict[str, Any] | None = None, **more: Any) -> None:
        sections = {
            "lane": "orders",
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["shop"]},
            "target": {**self.target.section, **(target or {})},
        }
        (self.folder / "surelane.yaml").write_text(yaml.safe_dump(sections | more, sort_keys=False))

    def both(self, *statements: str) -> None:
        for statement in statements:
            self.target.execute(statement)
            self.other.execute(statement)


@pytest.fixture
def verify(
    target: Target,
    elsewhere: Target,
    surelane: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Verifying:
    monkeypatch.chdir(tmp_path)
    made = Verifying(target, elsewhere, tmp_path, surelane)
    made.configure()
    return made


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows that travelled, by query."""
    counts: list[int] = []
    fetch = DatabaseSide.rows

    def counting(self: DatabaseSide, *arguments: Any) -> Any:
        found = fetch(self, *arguments)
        counts.append(len(found))
        return found

    monkeypatch.setattr(DatabaseSide, "rows", counting)
    return counts


def found(table: dict[str, Any]) -> list[tuple[str, ...]]:
    """(kind, key...) of each difference."""
    return sorted((one["kind"], *one["key"].values()) for one in table["differences"])


def test_equal(verify: Verifying, fetched: list[int]) -> None:
    verify.both(ITEM, FILL.format(rows=500), "create table public.empty (id int primary key)")
    assert verify.json() == {
        "lane": "orders",
        "against": f"127.0.0.1:{verify.other.engine.url.port}/{verify.other.database}",
        "equal": True,
        "rows": 500,
        "differing": 0,
        "tables": [
            {
                "table": f"public.{name}",
                "other": f"public.{name}",
                "key": ["id"],
                "not_compared": [],
                "rows": {"target": rows, "other": rows},
                "equal": True,
                "missing": 0,
                "surplus": 0,
                "differing": 0,
                "differences": [],
            }
            for name, rows in (("empty", 0), ("item", 500))
        ],
        "skipped": [],
    }
    ended = verify()
    assert ended.status == ExitStatus.OK
    assert ended.out.splitlines()[-1].endswith("equal")
    assert fetched == []


def test_three_of_many(verify: Verifying, fetched: list[int]) -> None:
    """Rows that differ are found among many; only small ranges of rows travel."""
    verify.both(ITEM, FILL.format(rows=100_000))
    verify.target.execute("delete from public.item where id = 77777")
    verify.target.execute("insert into public.item values (200000, 'more', 1)")
    verify.target.execute("update public.item set name = null, price = 1.5 where id = 4")
    table = verify.table()
    assert (table["missing"], table["surplus"], table["differing"]) == (1, 1, 1)
    assert table["rows"] == {"target": 100_000, "other": 100_000}
    assert found(table) == [("differing", "4"), ("missing", "77777"), ("surplus", "200000")]
    (one,) = (one for one in table["differences"] if one["kind"] == "differing")
    assert one["columns"] == {
        "name": {"target": None, "other": "item 4"},
        "price": {"target": "1.50", "other": "0.04"},
    }
    assert 0 < sum(fetched) <= 3 * 2 * 200


@pytest.mark.parametrize("side", ["target", "other"])
@pytest.mark.parametrize(
    ("ids", "kept"), [((1, 10_000, 10_001, 20_000, 20_001, 25_000), 24_994), (range(1, 25_001), 0)]
)
def test_borders(verify: Verifying, side: str, ids: Any, kept: int) -> None:
    """The first and last rows of ranges, and all of them."""
    verify.both(ITEM, FILL.format(rows=25_000))
    lacking: Target = getattr(verify, side)
    lacking.execute("delete from public.item where id = any(:ids)", ids=list(ids))
    table = verify.table("--show", "30000")
    kind = "missing" if side == "target" else "surplus"
    assert {name: table[name] for name in ("missing", "surplus", "differing") if table[name]} == {kind: len(ids)}
    assert table["rows"][side] == kept
    assert {int(one["key"]["id"]) for one in table["differences"]} <= set(ids)
    assert len(table["differences"]) == min(len(ids), 10_000)


@pytest.mark.parametrize("rows", [150, 3_000])
def test_composite_and_mixed_case(verify: Verifying, rows: int) -> None:
    """Keys of several columns, text in an order of its own at each server, names that need quotes."""
    columns = '"Tenant" int, "weird ""name%" text collate "{}", n uuid, "Value" text'
    key = 'primary key ("Tenant", "weird ""name%", n)'
    name = '"Mixed ""Case"'
    for side, collation in ((verify.target, "C"), (verify.other, "en-x-icu")):
        side.execute(f"create table public.{name} ({columns.format(collation)}, {key})".replace(":", "\\:"))
    texts = "(array['a', 'B', 'b', 'A', 'ä', 'Z', '', 'a b', 'ab', '''q'])[1 + n % 10]"
    verify.both(
        f"insert into public.{name} select 1 + (n = 7)\\:\\:int, {texts} || n / 10, md5(n\\:\\:text)\\:\\:uuid,"
        f" repeat('x', n % 5) from generate_series(1, {rows}) n"
    )
    assert verify.json()["equal"]
    verify.target.execute(f"""update public.{name} set "Value" = 'y' where "weird ""name%" = 'Z1'""")
    verify.other.execute(f"""delete from public.{name} where "Tenant" = 2""")
    verify.target.execute(f"""delete from public.{name} where "weird ""name%" in ('ä2', '''q3')""")
    table = verify.table()
    assert table["table"] == 'public.Mixed "Case'
    kinds = [(kind, tenant, text) for kind, tenant, text, _ in found(table)]
    expected = [("differing", "1", "Z1"), ("missing", "1", "'q3"), ("missing", "1", "ä2"), ("surplus", "2", "Z0")]
    assert sorted(k[:1] for k in kinds) == sorted(k[:1] for k in expected)
    assert {text for kind, _, text in kinds if kind == "missing"} == {"'q3", "ä2"}


def test_a_key_of_one_value_mostly(verify: Verifying) -> None:
    """A first column that cuts nothing."""
    verify.both(
        "create table public.t (a int, b int, primary key (a, b))",
        "insert into public.t select case when n > 2990 then n else 5 end, n from generate_series(1, 3000) n",
    )
    verify.target.execute("delete from public.t where b in (1, 1500, 2990, 2991, 3000)")
    assert verify.table()["missing"] == 5


TYPES = {
    "f4": ("real", "0.12345678"),
    "f8": ("double precision", "0.1234567890123456"),
    "n": ("numeric", "'NaN'"),
    "ts": ("timestamp", "'2026-03-29 02:30:00.123456'"),
    "tz": ("timestamptz", "'2026-03-29 02:30:00.5+02'"),
    "iv": ("interval", "'1 mon -3 days 04:05:06.7'"),
    "d": ("date", "'0044-03-15 BC'"),
    "by": ("bytea", "'\\x00ff27'"),
    "js": ("json", """'{"b": 1,  "a": [1.0, null]}'"""),
    "jb": ("jsonb", """'{"b": 1, "a": [1.0, null]}'"""),
    "ar": ("text[]", """array['a', null, 'NULL', '"q"', '']"""),
    "fa": ("float8[]", "array[0.1, 'Infinity']"),
    "r": ("tstzrange", "'[2026-01-01 00:00+00,)'"),
    "m": ("money", "'12.34'"),
    "c": ("char(5)", "'a'"),
    "nothing": ("text", "null"),
    "blank": ("text", "''"),
}


def test_values_are_equal_as_text(verify: Verifying) -> None:
    """Whatever the databases' own settings are."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    values = ", ".join(value for _, value in TYPES.values())
    with verify.target.engine.begin() as one, verify.other.engine.begin() as other:
        for connection in (one, other):
            connection.exec_driver_sql(f"create table public.every (id int primary key, {columns})")
            connection.exec_driver_sql(f"insert into public.every values (1, {values}), (2, {values})")
        for setting in ("timezone = 'Asia/Tokyo'", "extra_float_digits = -5", "bytea_output = 'escape'"):
            other.exec_driver_sql(f'alter database "{verify.other.database}" set {setting}')
        other.exec_driver_sql(f'alter database "{verify.other.database}" set intervalstyle = iso_8601')
        other.exec_driver_sql(f'alter database "{verify.other.database}" set datestyle = german')
    assert verify.json()["equal"]
    verify.target.execute("update public.every set nothing = '', blank = null, f8 = 0.1234567890123457 where id = 2")
    (one,) = verify.table()["differences"]
    assert one["columns"] == {
        "f8": {"target": "0.1234567890123457", "other": "0.1234567890123456"},
        "nothing": {"target": "", "other": None},
        "blank": {"target": None, "other": ""},
    }


def test_routes_renames_and_excludes(verify: Verifying, capsys: pytest.CaptureFixture[str]) -> None:
    verify.configure(
        {
            "tables": {"sales.*": "public.s_*", "public.*": "public.*"},
            "columns": {"sales.person": {"exclude": ["ssn"], "rename": {"Name": "full_name", "nr": "id"}}},
            "keys": {"public.s_log": ["at", "n"]},
        }
    )
    verify.other.create_schema("sales")
    verify.other.execute('create table sales.person (nr int, "Name" text, ssn text, old int)')
    verify.target.execute(
        "create table public.s_person (full_name text, extra int default 7, id int primary key,"
        " twice int generated always as (id * 2) stored, ssn text)"
    )
    verify.other.execute("create table sales.log (at date, n int, said text)")
    verify.target.execute("create table public.s_log (at date not null, n int not null, said text, unique (n, at))")
    verify.other.execute("insert into sales.person values (1, 'Ann', 'x', 1), (2, 'Bo', 'y', 2)")
    verify.target.execute("insert into public.s_person values ('Ann', 1, 1), ('Bob', 2, 2)")
    verify.both("create table public.keyless (id int)")
    verify.target.execute("create table public.alone (id int primary key)")
    verify.other.execute("create table public.unknown (id int primary key)")
    got = verify.json()
    log, person = got["tables"]
    assert log["equal"]
    assert (person["other"], person["not_compared"]) == ("sales.person", ["extra", "twice", "ssn", "old"])
    (one,) = person["differences"]
    assert (one["key"], one["columns"]) == ({"id": "2"}, {"full_name": {"target": "Bob", "other": "Bo"}})
    assert {one["table"]: one["why"] for one in got["skipped"]} == {
        "public.alone": "not in the other database",
        "public.keyless": "no primary key, and none in target.keys",
        "public.unknown": "not in the target",
    }
    show(got, verify_text, as_json=False)
    assert capsys.readouterr().out == verify().out


def test_same_names(verify: Verifying) -> None:
    """A replay has the target's tables and columns, whatever the routes make of a source's."""
    verify.configure(
        {"tables": {"shop.*": "public.t_*"}, "columns": {"shop.a": {"rename": {"x": "y"}}}},
        guard={"redact": ["*.x"]},
    )
    verify.both("create table public.t_a (id int primary key, y text)", "create table public.other (id int)")
    verify.target.execute("insert into public.t_a values (1, 'secret')")
    verify.other.execute("insert into public.t_a values (1, 'hidden')")
    (one,) = verify.table("--same-names")["differences"]
    assert one["columns"] == {"y": {"target": "***", "other": "***"}}
    assert verify().status == ExitStatus.REFUSED


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_redaction(verify: Verifying, options: tuple[str, ...]) -> None:
    verify.configure(guard={"redact": ["public.person.ssn", "public.person.name"]})
    verify.both("create table public.person (ssn text primary key, name text, age int)")
    verify.target.execute("insert into public.person values ('SSN-1', 'Ann', 5), ('SSN-2', 'Bo', 6)")
    verify.other.execute("insert into public.person values ('SSN-1', 'Anna', 50)")
    ended = verify(*options)
    assert ended.status == ExitStatus.DIFFERENT
    assert not {word for word in ("SSN", "Ann", "Bo") if word in ended.out + ended.err}
    assert "***" in ended.out
    assert "50" in ended.out


def test_what_people_see(verify: Verifying) -> None:
    verify.both(ITEM, FILL.format(rows=3))
    verify.target.execute("update public.item set name = 'a' || chr(27) || '[31m' where id < 3")
    ended = verify("--show", "1")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["table", "rows", "other", "rows", "missing", "surplus", "differing", "result"]
    assert lines[1].split() == ["public.item", "3", "3", "0", "0", "2", "DIFFERENT"]
    assert lines[3:6] == [
        "public.item, against public.item",
        r"  differing id='1'  name: 'a\x1b[31m', other 'item 1'",
        "  ... and 1 more",
    ]
    assert lines[-1].endswith("2 keys differ")
    assert ended.status == ExitStatus.DIFFERENT


def test_choosing_tables(verify: Verifying) -> None:
    verify.both(*(f"create table public.{name} (id int primary key)" for name in ("a", "b1", "b2", "c")))

    def compared(*options: str) -> list[str]:
        return [one["table"] for one in verify.json(*options)["tables"]]

    assert compared("--tables", "public.b*", "--tables", "*.c") == ["public.b1", "public.b2", "public.c"]
    assert compared("--after", "public.b1") == ["public.b2", "public.c"]
    assert verify("--tables", "public.nothing").status == ExitStatus.REFUSED
    assert verify("--tables", "nothing").status == ExitStatus.USAGE
    assert verify("--after", "b1").status == ExitStatus.USAGE


def test_waiting_until_it_agrees(verify: Verifying) -> None:
    """A row that comes while waiting is no difference any more."""
    verify.both(ITEM, FILL.format(rows=1_000))
    verify.target.execute("delete from public.item where id in (5, 6)")
    late = threading.Timer(2.0, lambda: verify.target.execute("insert into public.item values (5, 'item 5', 0.05)"))
    late.start()
    try:
        table = verify.table("--wait", "4")
    finally:
        late.join()
    assert found(table) == [("missing", "6")]
    verify.target.execute("insert into public.item values (6, 'item 6', 0.06)")
    assert verify.table("--wait", "60")["equal"]


def test_against_a_schema(verify: Verifying, surelane: Callable[..., Ended]) -> None:
    """Of the target's own database, or of the other one; columns are the target's."""
    verify.configure({"tables": {"shop.*": "public.*"}, "columns": {"shop.a": {"rename": {"x": "y"}}}})
    verify.target.create_schema("shadow")
    verify.other.create_schema("shadow")
    verify.both("create table shadow.a (id int primary key, y text)")
    verify.target.execute("create table public.a (id int primary key, y text)")
    verify.target.execute("create table public.b (id int primary key)")
    verify.target.execute("insert into public.a values (1, 'one'), (2, 'two')")
    verify.target.execute("insert into shadow.a values (1, 'one'), (2, 'other')")
    verify.other.execute("insert into shadow.a values (1, 'one'), (2, 'two')")
    here = surelane("verify", "--against-schema", "shadow", "--json")
    (table,) = here.json["tables"]
    assert (table["table"], table["other"], found(table)) == ("public.a", "shadow.a", [("differing", "2")])
    assert table["differences"][0]["columns"] == {"y": {"target": "two", "other": "other"}}
    assert here.json["against"].endswith(f"/{verify.target.database} schema shadow")
    assert here.json["skipped"] == [{"table": "public.b", "why": "not in the other database"}]
    assert verify.json("--against-schema", "shadow")["equal"]
    nothing = surelane("verify", "--against-schema", "nothing")
    assert (nothing.status, "schema nothing" in nothing.err) == (ExitStatus.REFUSED, True)
    assert surelane("verify").status == ExitStatus.USAGE


def test_killed_and_gone_on(verify: Verifying, surelane: Callable[..., Ended], fetched: list[int]) -> None:
    """Behind the tables that it was through with: they are not compared again, and count as they were."""
    verify.both(*(f"create table public.{name} (id int primary key, v text)" for name in "abc"))
    verify.target.execute("insert into public.a values (1, 'x')")
    verify.other.execute("insert into public.a values (1, 'y'), (2, null)")
    against = ("verify", "--against", verify.other.url_as(READER))
    killed("verify-table@2", *against)
    verify.target.execute("delete from public.a")
    verify.target.execute("insert into public.c values (5, 'c')")
    got = verify.json("--resume")
    differing = {one["table"]: found(one) for one in got["tables"]}
    assert differing == {
        "public.a": [("differing", "1"), ("missing", "2")],
        "public.b": [],
        "public.c": [("surplus", "5")],
    }
    assert [one["table"] for one in got["tables"] if "compared_at" in one] == ["public.a", "public.b"]
    assert sorted(fetched) == [0, 1]  # of c, at both sides
    assert got["tables"][0]["differences"][0]["columns"] == {"v": {"target": "x", "other": "y"}}
    assert verify.target.execute("select from surelane.verification_part") == []
    assert found(verify.json("--resume")["tables"][0]) == [("missing", "1"), ("missing", "2")]
    killed("verify-table", *against)
    report = verify("--resume", "--wait", "1")
    assert "public.a: compared at" in report.out
    killed("verify-table", *against)
    verify.other.execute("delete from public.a")
    assert found(verify.json("--tables", "public.a", "--resume")["tables"][0]) == []  # another comparison
    assert found(verify.json()["tables"][0]) == []  # begun anew


def test_the_tables_have_changed_since_it_was_killed(verify: Verifying) -> None:
    """What was compared then is not what is to be compared now."""
    verify.both(ITEM, FILL.format(rows=3))
    killed("verify-table", "verify", "--against", verify.other.url_as(READER))
    verify.both("alter table public.item add more int")
    verify.target.execute("update public.item set more = 1 where id = 2")
    table = verify.table("--resume")
    assert (found(table), "compared_at" in table) == ([("differing", "2")], False)


def test_an_older_schema(verify: Verifying) -> None:
    """Said as such, not as a table that is missing."""
    verify.both(ITEM)
    verify.target.execute("update surelane.surelane_version set version_num = '0009'")
    ended = verify()
    assert (ended.status, "at revision 0009" in ended.err, "surelane migrate" in ended.err) == (
        ExitStatus.TARGET,
        True,
        True,
    )


def test_both_sides_move(verify: Verifying) -> None:
    """Writing goes on at the other side, and comes to the target a moment later, as by a lane. One row never comes."""
    verify.both(ITEM, FILL.format(rows=500))
    verify.target.execute("update public.item set name = 'lost' where id = 77")
    stop, numbers = threading.Event(), random.Random(5)
    written = 0

    def write() -> None:
        nonlocal written
        waiting: list[tuple[int, int]] = []
        while not stop.is_set():
            one = (numbers.choice([n for n in range(1, 501) if n != 77]), numbers.randrange(1_000_000))
            verify.other.execute(
                "update public.item set price = :price / 100.0 where id = :id", id=one[0], price=one[1]
            )
            waiting.append(one)
            if len(waiting) > 5:
                number, price = waiting.pop(0)
                verify.target.execute(
                    "update public.item set price = :price / 100.0 where id = :id", id=number, price=price
                )
            written += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(lambda: written > 50)
        assert verify.table()["differing"] > 1
        before = written
        table = verify.table("--wait", "8")
        assert found(table) == [("differing", "77")]
        verify.target.execute("update public.item set name = 'item 77' where id = 77")
        assert verify.table("--wait", "60")["equal"]
        assert written > before
    finally:
        stop.set()
        writer.join()


def test_the_record(verify: Verifying) -> None:
    verify.both(ITEM, FILL.format(rows=10))
    verify()
    verify.target.execute("update public.item set price = 0 where id = 1")
    verify()
    (row,) = verify.target.execute("select * from surelane.verification")
    assert (row.lane, row.tables, row.rows, row.differing) == ("orders", 1, 10, 1)
    assert row.against.endswith(f"/{verify.other.database}")


def test_the_metrics(verify: Verifying) -> None:
    """A running lane tells what the last one came to, and nothing before the first."""
    verify.both(ITEM, FILL.format(rows=2))
    verify.target.execute("delete from public.item")
    registry, records = CollectorRegistry(), Verifications("surelane")
    metrics = LaneMetrics("orders", registry)

    def shown(name: str) -> float | None:
        with verify.target.engine.connect() as connection:
            show_verified(connection, records, "orders", metrics)
        return registry.get_sample_value(f"surelane_verify_last_{name}", {"lane": "orders"})

    assert shown("timestamp_seconds") is None
    before = time.time()
    verify()
    assert before - 60 < (shown("timestamp_seconds") or 0) < time.time() + 60
    assert shown("differences") == 2


def test_failures(verify: Verifying, surelane: Callable[..., Ended]) -> None:
    verify.both(ITEM)
    ended = surelane("verify", "--against", "postgresql://me:secret@127.0.0.1:1/shop")
    assert ended.status == ExitStatus.ENVIRONMENT
    assert "the other database" in ended.err
    assert "secret" not in ended.err
    wrong = surelane("verify", "--against", "mysql://me:secret@127.0.0.1/shop")
    assert (wrong.status, "secret" in wrong.err) == (ExitStatus.USAGE, False)
    verify.target.execute("drop table surelane.verification")
    missing = verify()
    assert (missing.status, "surelane migrate" in missing.err) == (ExitStatus.TARGET, True)


def test_nothing_is_written_elsewhere(verify: Verifying) -> None:
    """The other database may be a standby, and its role one that only reads."""
    verify.both(ITEM, FILL.format(rows=3))
    verify.other.execute(f'alter database "{verify.other.database}" set default_transaction_read_only = on')
    assert json.loads(verify("--json").out)["equal"]


def test_null_and_double_keys_of_the_other_side(verify: Verifying) -> None:
    """Only the target has to keep the columns of `target.keys` unique and not NULL."""
    verify.configure({"keys": {"public.log": ["at", "n"]}})
    verify.target.execute("create table public.log (at text not null, n int not null, said text, unique (n, at))")
    verify.other.execute("create table public.log (at text, n int, said text)")
    verify.both("insert into public.log select 'a' || n % 3, n, 'x' from generate_series(1, 1000) n")
    assert verify.table()["equal"]
    verify.other.execute("insert into public.log values (null, 5, 'y'), ('a0', null, 'y'), ('a1', 1, 'x')")
    table = verify.table()
    assert (table["missing"], table["surplus"], table["differing"]) == (3, 0, 0)
    assert {(one["key"]["at"], one["key"]["n"]) for one in table["differences"]} == {
        (None, "5"),
        ("a0", None),
        ("a1", "1"),
    }


def test_partitioned_tables(verify: Verifying) -> None:
    """One at the target is compared as a whole; several tables that go to one are no partner of it."""
    verify.configure({"tables": {"public.part_*": "public.joined", "public.*": "public.*"}})
    verify.both(
        "create table public.whole (id int primary key) partition by range (id)",
        "create table public.whole_1 partition of public.whole for values from (0) to (10)",
        "create table public.whole_2 partition of public.whole for values from (10) to (20)",
        "insert into public.whole select generate_series(1, 19)",
    )
    verify.target.execute("create table public.joined (id int primary key)")
    verify.other.execute("create table public.part_1 (id int primary key)")
    verify.other.execute("create table public.part_2 (id int primary key)")
    got = verify.json()
    assert [(one["table"], one["rows"]["target"]) for one in got["tables"]] == [("public.whole", 19)]
    (joined,) = (one for one in got["skipped"] if one["table"] == "public.joined")
    assert joined["why"] == "2 tables of the other database go there: public.part_1, public.part_2"
    assert [one["table"] for one in got["skipped"] if one != joined] == []


def test_a_failure_does_not_wait_for_the_other_side(verify: Verifying) -> None:
    verify.both(ITEM)
    with snapshot(verify.target.engine, "the target") as target, snapshot(verify.other.engine, "the other") as other:
        table = load_table(target.connection, "public", "item")
        assert table is not None
        pair = Pair(target=table, other=replace(table, name="lost"), columns=(("id", "id"),), key=("id",))
        sleeping = replace(pair.halves[0], table="public.item, pg_sleep(60) s")
        object.__setattr__(pair, "halves", (sleeping, pair.halves[1]))
        began = time.monotonic()
        with pytest.raises(TargetMismatch, match="lost"):
            Comparer(target, other).compare(pair)
        assert time.monotonic() - began < 30
