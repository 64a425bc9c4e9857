"""Pairs of configurations that do not fit: `check` and `run --from-savepoint` refuse each before the first write.

The lane is down and has left a prepared transaction, which a start would settle. Changes are combined at random; what
each means is written down here, apart from the rules of `app.savepoint.compatibility`.
"""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from app.errors import ExitStatus
from app.savepoint.folder import SavepointFolder
from tests.fix_doubt import Doubt
from tests.fix_target import Target

Raw = dict[str, Any]
#: what an operator may accept, and what not
LOSES, NEVER = "loses", "incompatible"
#: examples of a run, and with --full-matrix
SAMPLE, ALL = 50, 1500
_COLUMNS = ({"exclude": ["note"]}, {"rename": {"hits": "count"}}, {"exclude": ["note", "more"]})
_KEYS = (["id"], ["code"], ["id", "code"])
_SQL = ({"where": "id > 1"}, {"where": "id > 2"}, {"select": "*, 1 as one"})
_TABLES = ("public.counter", "public.orders", "public.items")


class Started(Exception):
    """A run that was not refused came as far as its first process."""


@dataclass(frozen=True)
class Change:
    """What becomes of a configuration, and of each item that it does not fit in."""

    raw: Raw
    blocks: Mapping[str, str]


@st.composite
def olds(draw: st.DrawFn, base: Raw) -> Raw:
    """A configuration of the lane, with rules of any kind."""
    raw = copy.deepcopy(base)
    raw["source"]["topics"] = draw(st.lists(st.sampled_from(["made-up", "b", "c"]), min_size=1, unique=True))
    target = raw["target"]
    target["tables"] = {"public.*": "public.*", **_some(draw, {"shop.a": "public.a", "shop.b": "public.b"})}
    target["columns"] = {name: draw(st.sampled_from(_COLUMNS)) for name in _some(draw, dict.fromkeys(_TABLES))}
    target["keys"] = {name: draw(st.sampled_from(_KEYS)) for name in _some(draw, dict.fromkeys(_TABLES))}
    raw["sql"] = {name: draw(st.sampled_from(_SQL)) for name in _some(draw, dict.fromkeys(_TABLES))}
    if draw(st.booleans()):
        raw["transform"] = {"function": "rules.shop:clean"}
    return raw


def _some(draw: st.DrawFn, of: dict[str, Any]) -> dict[str, Any]:
    return {name: of[name] for name in of if draw(st.booleans())}


def topic_removed(draw: st.DrawFn, raw: Raw) -> Change:
    topics = raw["source"]["topics"]
    gone = draw(st.lists(st.sampled_from(topics), min_size=1, unique=True))
    raw["source"]["topics"] = [one for one in topics if one not in gone] or ["another"]
    return Change(raw, {})  # see `topics`


def topics(old: Raw, new: Raw) -> dict[str, str]:
    """What a list of them does not fit in: some may be left out, but not all."""
    names = old["source"]["topics"]
    gone = [name for name in names if name not in new["source"].get("topics", names)]
    return {f"topics:{name}": LOSES if len(gone) < len(names) else NEVER for name in gone}


def topic_pattern(draw: st.DrawFn, raw: Raw) -> Change:
    del raw["source"]["topics"]
    raw["source"]["topic_pattern"] = draw(st.sampled_from(["made-up", "made-.*", ".*"]))
    return Change(raw, {"topics": NEVER})


def order(_: st.DrawFn, raw: Raw) -> Change:
    """Which needs a single topic."""
    raw["source"] |= {"order": "partition", "topics": raw["source"]["topics"][:1]}
    return Change(raw, {"order": NEVER})


def schema(draw: st.DrawFn, raw: Raw) -> Change:
    raw["target"]["schema"] = draw(st.sampled_from(["elsewhere", "Surelane"]))
    return Change(raw, {"schema": NEVER})


def message_format(_: st.DrawFn, raw: Raw) -> Change:
    """There is one format: the savepoint gets another, see `test_refused`."""
    return Change(raw, {"format": NEVER})


def route(draw: st.DrawFn, raw: Raw) -> Change:
    tables = raw["target"]["tables"]
    source = draw(st.sampled_from(sorted(tables)))
    if len(tables) > 1 and draw(st.booleans()):
        del tables[source]
    else:
        tables[source] = "other.*" if "*" in source else "public.other"
    return Change(raw, {f"routes:{source}": LOSES})


def transform(draw: st.DrawFn, raw: Raw) -> Change:
    if "transform" in raw and draw(st.booleans()):
        del raw["transform"]
    else:
        raw["transform"] = {"function": "rules.shop:other"}
    return Change(raw, {"transform": LOSES})


def entry(item: str, values: tuple[Any, ...], of: Callable[[Raw], dict[str, Any]]) -> Callable[..., Change]:
    """One that comes, goes, or is another."""

    def change(draw: st.DrawFn, raw: Raw) -> Change:
        entries, name = of(raw), draw(st.sampled_from(_TABLES))
        if name in entries and draw(st.booleans()):
            del entries[name]
        else:
            entries[name] = draw(st.sampled_from([one for one in values if one != entries.get(name)]))
        return Change(raw, {f"{item}:{name}": LOSES})

    return change


CHANGES = [
    topic_removed,
    topic_pattern,
    order,
    schema,
    message_format,
    route,
    transform,
    entry("columns", _COLUMNS, lambda raw: raw["target"]["columns"]),
    entry("keys", _KEYS, lambda raw: raw["target"]["keys"]),
    entry("sql", _SQL, lambda raw: raw["sql"]),
]


def harmless(draw: st.DrawFn, raw: Raw) -> None:
    """What a lane goes on with, beside it."""
    if draw(st.booleans()):
        raw["target"]["unknown_table"] = draw(st.sampled_from(["ignore", "stop"]))
    if draw(st.booleans()):
        raw["target"]["tables"]["more.a"] = "public.more"
    if draw(st.booleans()):
        raw["epoch"] = {"max_messages": draw(st.integers(1, 10))}
    if not {"topic_pattern", "order"} & raw["source"].keys() and draw(st.booleans()):
        raw["source"]["topics"].append("added")
    if draw(st.booleans()):
        raw["commit"] = "ledger"


def pairs(base: Raw, allowable: bool | None) -> st.SearchStrategy[tuple[Raw, Change, frozenset[str]]]:
    """Old, new, and what is allowed: not enough; with `allowable` all that is lost, and nothing else is changed."""

    @st.composite
    def made(draw: st.DrawFn) -> tuple[Raw, Change, frozenset[str]]:
        old = draw(olds(base))
        among = [one for one in CHANGES if one not in (topic_pattern, order, schema, message_format)]
        chosen = draw(st.lists(st.sampled_from(among if allowable else CHANGES), min_size=1, max_size=3, unique=True))
        if topic_pattern in chosen:  # the others are about a list
            chosen = [one for one in chosen if one not in (topic_removed, order)]
        found = Change(copy.deepcopy(old), {})
        for change in chosen:
            more = change(draw, found.raw)
            found = Change(more.raw, {**found.blocks, **more.blocks})
        harmless(draw, found.raw)
        found = Change(found.raw, {**found.blocks, **topics(old, found.raw)})
        lost = sorted(name for name, what in found.blocks.items() if what == LOSES)
        some = frozenset(draw(st.lists(st.sampled_from(lost), unique=True)) if lost else [])
        if allowable:
            assume(NEVER not in found.blocks.values())  # of the topics, one stays
            some = frozenset(lost)
        elif some == found.blocks.keys():
            some -= {draw(st.sampled_from(sorted(some)))}
        # to allow what cannot be allowed, or is not there, changes nothing
        odd = draw(st.lists(st.sampled_from([*(set(found.blocks) - set(lost)), "routes:no.such"]), unique=True))
        return old, found, some | set(odd)

    return made()


@dataclass
class Site:
    """The lane that is down, its folder, and the verbs."""

    doubt: Doubt
    folder: SavepointFolder

    @property
    def base(self) -> Raw:
        raw = yaml.safe_load((self.doubt.folder / "surelane.yaml").read_text())
        return {**raw, "savepoints": {"directory": self.folder.root}}

    def configure(self, raw: Raw) -> None:
        (self.doubt.folder / "surelane.yaml").write_text(yaml.safe_dump(raw))

    def save(self, old: Raw, **items: str) -> None:
        """The savepoint `one` of the lane with this configuration; `items` are others than it has."""
        self.configure(old)
        if "one" in self.folder.names():
            self.folder.dispose("one")
        ended = self.doubt.surelane("savepoint", "create", "one")
        assert ended.status == 0, ended.err
        if items:
            found = self.folder.get("one")
            self.folder.dispose("one")
            self.folder.write(replace(found, items={**found.items, **items}))

    def call(self, *words: str, allowed: frozenset[str]) -> Any:
        return self.doubt.surelane(*words, *(part for one in sorted(allowed) for part in ("--allow-non-restored", one)))


def everything(target: Target, *folders: Path) -> dict[str, Any]:
    """All rows of all tables of the target, all its objects, what is prepared, all files; and how many transactions of
    the server have written."""
    with target.engine.connect() as connection:

        def rows(statement: str) -> list[Any]:
            return sorted(map(tuple, connection.exec_driver_sql(statement)))

        tables = rows(
            "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'"
        )
        return {
            "rows": {name: rows(f"select t::text from {name} t") for (name,) in tables},
            "relations": rows("select oid, relname, xmin::text from pg_class"),
            "schemas": rows("select oid, nspname, xmin::text from pg_namespace"),
            "prepared": rows("select gid from pg_prepared_xacts"),
            "transactions": rows("select pg_snapshot_xmax(pg_current_snapshot())::text"),
            "files": {str(one): one.read_bytes() for top in folders for one in top.rglob("*") if one.is_file()},
        }


@pytest.fixture
def down(doubt: Doubt, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Nothing else writes to the server: what is counted would be a verb's."""
    doubt.prepare(decided=True)

    def start(*_: object) -> NoReturn:
        raise Started

    monkeypatch.setattr("app.cli.run.Supervisor", start)
    server = doubt.target.server
    server.execute("alter system set autovacuum = off")
    server.execute("select pg_reload_conf()")
    return Site(doubt, SavepointFolder(doubt.folder / "savepoints"))


@pytest.fixture
def quick(request: pytest.FixtureRequest) -> settings:
    many = ALL if request.config.getoption("--full-matrix", default=False) else SAMPLE
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(deadline=None, suppress_health_check=checks, max_examples=many)


@pytest.fixture(autouse=True)
def _vacuumed_again(doubt: Doubt) -> Any:
    yield
    doubt.target.server.execute("alter system reset autovacuum")
    doubt.target.server.execute("select pg_reload_conf()")


def test_refused(down: Site, quick: settings) -> None:
    """Alone and combined, with none and with a part of what may be allowed."""
    seen: set[str] = set()

    @quick
    @given(pair=pairs(down.base, allowable=False))
    def check(pair: tuple[Raw, Change, frozenset[str]]) -> None:
        old, new, allowed = pair
        down.save(old, **({"format": "another"} if "format" in new.blocks else {}))
        down.configure(new.raw)
        left = {name for name, what in new.blocks.items() if what == NEVER or name not in allowed}
        before = everything(down.doubt.target, down.doubt.folder)
        checked = down.call("savepoint", "check", "one", "--json", allowed=allowed)
        ran = down.call("run", "--from-savepoint", "one", allowed=allowed)
        assert everything(down.doubt.target, down.doubt.folder) == before
        assert checked.status == ExitStatus.DIFFERENT, checked.err
        results = {one["item"]: one["compatibility"] for one in json.loads(checked.out)["items"]}
        found = {name: what for name, what in results.items() if what in (LOSES, NEVER)}
        assert found == {name: new.blocks[name] for name in left}
        assert ran.status == ExitStatus.REFUSED, ran.err
        assert "the configuration does not go on from savepoint one" in ran.err
        assert [name for name in left if name not in ran.err] == []
        seen.update(name.partition(":")[0] for name in new.blocks)

    check()
    assert seen == {"topics", "order", "schema", "format", "routes", "transform", "columns", "keys", "sql"}


def test_not_refused(down: Site, quick: settings) -> None:
    """The same losses, with all of them allowed: the run goes on to its first process."""

    @settings(quick, max_examples=quick.max_examples // 5)
    @given(pair=pairs(down.base, allowable=True))
    def check(pair: tuple[Raw, Change, frozenset[str]]) -> None:
        old, new, allowed = pair
        down.save(old)
        down.configure(new.raw)
        checked = down.call("savepoint", "check", "one", "--json", allowed=allowed)
        assert checked.status == 0, checked.out
        assert "Started" in down.call("run", "--from-savepoint", "one", allowed=allowed).err

    check()


def test_a_lane_of_another_name(down: Site) -> None:
    """One savepoint, two lanes: it is of one of them, though the configuration is the same else."""
    down.save(down.base)
    down.configure({**down.base, "lane": "second"})
    before = everything(down.doubt.target, down.doubt.folder)
    checked = down.call("savepoint", "check", "one", "--json", allowed=frozenset({"lane"}))
    ran = down.call("run", "--from-savepoint", "one", allowed=frozenset({"lane"}))
    assert everything(down.doubt.target, down.doubt.folder) == before
    assert checked.status == ExitStatus.DIFFERENT
    assert {one["item"] for one in json.loads(checked.out)["items"] if one["compatibility"] == NEVER} == {"lane"}
    assert ran.status == ExitStatus.REFUSED
    assert "it is of lane orders, the configuration of second" in ran.err


def test_what_is_compared_notices_a_write(down: Site) -> None:
    before = everything(down.doubt.target, down.doubt.folder)
    assert everything(down.doubt.target, down.doubt.folder) == before
    down.doubt.target.execute("create table public.other (id int); drop table public.other")
    assert everything(down.doubt.target, down.doubt.folder) != before
