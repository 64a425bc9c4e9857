"""Rollups against Postgres alone: after each transaction the groups are those of the rows, whatever changed them."""

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import Connection

from app.config.on_skip import OnSkip
from app.config.settings import CommitMode, Settings
from app.errors import ExitStatus, TargetMismatch
from app.quarantine.operator import Operator
from app.rollup import keeping
from tests import messages as m
from tests.commands import Ended
from tests.fix_bare_lane import MakeBareLane
from tests.fix_lane import MODES
from tests.fix_target import OWNER, SCHEMA, Target
from tests.messages import Debezium, Message, Table
from tools.devstack.roles import LOGIN

SHOP = (
    "create table public.sales (id bigint primary key, shop text, customer int not null, at timestamptz,"
    " amount numeric, pieces int)"
)
GRANT = f"grant select, insert, update, delete, truncate, trigger on public.sales to {OWNER}"
ROLLUPS: dict[str, Any] = {
    "by_hour": {
        "of": "public.sales",
        "table": "reports.by_hour",
        "by": ["shop", "customer"],
        "bucket": {"column": "at", "width": "1 hours"},
        "aggregates": {
            "sales": "count",
            "priced": "count(amount)",
            "total": "sum(amount)",
            "average": "avg(amount)",
            "least": "min(amount)",
            "most": "max(pieces)",
            "pieces": "sum(pieces)",
        },
    },
    "by_shop": {
        "of": "public.sales",
        "table": "reports.by_shop",
        "by": ["shop"],
        "aggregates": {"sales": "count", "first": "min(at)", "last": "max(at)"},
    },
}
#: what the tables have to show
BATCHES = {
    "by_hour": "select shop, customer, date_bin('1 hour', at, '2000-01-01Z') as bucket, count(*), count(amount),"
    " sum(amount), avg(amount), min(amount), max(pieces), sum(pieces)::numeric from sales group by 1, 2, 3",
    "by_shop": "select shop, count(*), min(at), max(at) from sales group by 1",
}
SHOWN = {
    "by_hour": "shop, customer, bucket, sales, priced, total, average, least, most, pieces",
    "by_shop": "shop, sales, first, last",
}


#: the table, as the source has it
SALES = Table(
    "sales",
    {
        "id": m.BIGINT,
        "shop": m.TEXT,
        "customer": m.INT,
        "at": m.TIMESTAMPTZ,
        "amount": m.numeric(12, 2),
        "pieces": m.INT,
    },
)
d = Debezium()


@pytest.fixture
def raw(target: Target) -> dict[str, Any]:
    """The configuration of a lane with rollups, over a table of another owner."""
    target.create_schema("reports")
    target.execute(SHOP)
    target.execute(f"grant create on schema reports to {OWNER}")
    target.execute(GRANT)
    return {
        "lane": "shop",
        "source": {"bootstrap_servers": "none:1", "topics": ["none"]},
        "target": target.section,
        "rollups": ROLLUPS,
    }


@pytest.fixture
def settings(raw: dict[str, Any]) -> Settings:
    return Settings.of(raw)


def equal(target: Target, connection: Connection | None = None) -> None:
    """Each rollup is what the rows give."""

    def rows(sql: str) -> list[str]:
        if connection is not None:
            return sorted(str(tuple(row)) for row in connection.exec_driver_sql(sql).all())
        return sorted(str(tuple(row)) for row in target.execute(sql))

    for name, batch in BATCHES.items():
        # averages have as many digits as Postgres gives them
        wanted = f"select {SHOWN[name]} from (select * from ({batch}) b) as t({SHOWN[name]})"
        cast = SHOWN[name].replace("average", "round(average, 10)").replace("total", "trim_scale(total)")
        assert rows(f"select {cast} from reports.{name}") == rows(f"select {cast} from ({wanted}) w")


def _statement(chance: random.Random, number: int) -> str:
    def row(key: int) -> str:
        shop = chance.choice(["null", "'a'", "'b'", "'c''d'"])
        at = chance.choice(["null", f"'2024-01-01Z'::timestamptz + interval '{chance.randrange(300)} minutes'"])
        at = chance.choice([at, at, at, "'infinity'", "'-infinity'"])
        amount = chance.choice(["null", f"{chance.randrange(1000)}.{chance.randrange(100):02}", "0", "-5", "'NaN'"])
        amount = chance.choice([amount, amount, amount, "'Infinity'", "'-Infinity'"])
        pieces = chance.choice(["null", str(chance.randrange(10))])
        return f"({key}, {shop}, {chance.randrange(3)}, {at}, {amount}, {pieces})"

    few = f"id % {chance.randrange(2, 9)} = {chance.randrange(2)}"
    match chance.randrange(8):
        case 0 | 1:
            rows = ", ".join(row(number * 100 + key) for key in range(chance.randrange(1, 12)))
            others = "customer = excluded.customer, amount = excluded.amount, at = excluded.at"
            return f"insert into sales values {rows} on conflict (id) do update set {others}"
        case 2:
            return f"update sales set amount = amount + 1, customer = {chance.randrange(3)} where {few}"
        case 3:
            return f"update sales set shop = 'b', at = at + interval '37 minutes', pieces = null where {few}"
        case 4:
            return f"delete from sales where {few}"
        case 5:
            return f"update sales set id = id + 1000 + (select max(abs(id)) from sales) where {few}"
        case 6:
            rows = ", ".join(row(key) for key in chance.sample(range(number * 100 + 100), 30))
            names = "id, shop, customer, at, amount, pieces"
            new = f"select {names.replace('amount', 'amount::numeric')} from (values {rows}) as v({names})"
            return (
                f"merge into sales s using ({new}) as n on s.id = n.id when matched and n.customer = 0 then delete"
                " when matched then update set shop = n.shop, customer = n.customer, at = n.at, amount = n.amount,"
                " pieces = n.pieces"
                " when not matched then insert values (n.id, n.shop, n.customer, n.at, n.amount, n.pieces)"
            )
        case _:
            return "truncate sales" if chance.random() < 0.2 else f"delete from sales where customer = 1 and {few}"


@pytest.mark.parametrize("seed", range(3))
def test_generated_changes(seed: int, settings: Settings, target: Target) -> None:
    chance = random.Random(seed)
    with target.as_lane.connect() as connection:
        keeping.keep(connection, settings)
    for number in range(60):
        with target.engine.begin() as connection:
            for _ in range(chance.randrange(1, 4)):
                connection.exec_driver_sql(_statement(chance, number).replace("%", "%%"))
                if chance.random() < 0.1:
                    with connection.begin_nested() as undone:
                        connection.exec_driver_sql("delete from sales")
                        undone.rollback()
            equal(target, connection)
    with target.as_lane.connect() as connection, connection.begin():
        for one in keeping.definitions(connection, settings):
            assert keeping.differences(connection, one, 10) == []


def test_damage_is_found_and_mended(settings: Settings, target: Target) -> None:
    target.execute("insert into sales select i, 'a', i % 3, '2024-01-01Z', i, i from generate_series(1, 50) i")
    with target.as_lane.connect() as connection:
        keeping.keep(connection, settings)
        equal(target)
        target.execute("update reports.by_hour set surelane_sum_total = 1 where customer = 2")
        target.execute("delete from reports.by_hour where customer = 0")
        with connection.begin():
            one, other = keeping.definitions(connection, settings)
            assert len(keeping.differences(connection, one, 10)) == 2
            assert keeping.differences(connection, other, 10) == []
        with connection.begin():
            keeping.rebuild(connection, one)
        equal(target)
        target.execute("delete from sales where id < 20")
        equal(target)


@pytest.fixture
def rollup(
    raw: dict[str, Any], surelane: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """`surelane rollup`, with the configuration as `raw` is then."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Ended:
        (tmp_path / "surelane.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))
        return surelane("rollup", *words)

    return call


def test_verbs(rollup: Callable[..., Ended], raw: dict[str, Any], settings: Settings, target: Target) -> None:
    """From the first start to a rollup that the configuration does not name any more."""
    target.execute("insert into sales select i, 'a', i % 3, '2024-01-01Z', i, i from generate_series(1, 50) i")
    assert {one["state"] for one in rollup("list", "--json").json["rollups"]} == {"missing"}
    assert rollup("verify").status == ExitStatus.TARGET, "its table is not there"
    with target.as_lane.connect() as connection:
        keeping.keep(connection, settings)
    named = {"name": "by_hour", "of": "public.sales", "table": "reports.by_hour", "state": "kept"}
    assert rollup("list", "--json").json == {
        "rollups": [named, {**named, "name": "by_shop", "table": "reports.by_shop"}],
        "not_configured": [],
    }
    sound = rollup("verify")
    assert (sound.status, sound.out.splitlines()) == (ExitStatus.OK, ["by_hour: equal", "by_shop: equal"])

    target.execute("update reports.by_hour set surelane_sum_total = 1 where customer = 2")
    target.execute("delete from reports.by_hour where customer = 0")
    damaged = rollup("verify", "--json")
    assert damaged.status == ExitStatus.DIFFERENT
    hours, shops = damaged.json["rollups"]
    assert (hours["rollup"], shops["groups"]) == ("by_hour", [])
    assert sorted(one["fresh"]["customer"] for one in hours["groups"]) == [0, 2]
    limited = rollup("verify", "by_hour", "--limit", "1", "--json")
    assert (limited.status, len(limited.json["rollups"][0]["groups"])) == (ExitStatus.DIFFERENT, 1)
    assert rollup("verify", "by_shop").status == ExitStatus.OK
    assert "by_hour: 2 groups differ" in rollup("verify").out
    assert rollup("rebuild", "by_hour", "--json").json == {"rebuilt": ["by_hour"]}
    equal(target)
    assert rollup("verify").status == ExitStatus.OK

    for verb in ("verify", "rebuild"):
        unknown = rollup(verb, "by_day")
        assert unknown.status == ExitStatus.REFUSED
        assert "there is no rollup by_day" in unknown.err
        assert "by_hour, by_shop" in unknown.err

    assert rollup("drop", "--json").json == {"dropped": []}
    raw["rollups"] = {"by_hour": ROLLUPS["by_hour"]}
    ((mark,),) = target.execute(
        "select obj_description(oid) from pg_proc where proname ~ '^rollup_' and prosrc ~ 'by_shop'"
    )
    assert [one["comment"] for one in rollup("list", "--json").json["not_configured"]] == [mark]
    assert rollup("drop", "--json").json == {"dropped": [mark]}
    target.execute("insert into sales values (51, 'new', 1, null, 1, 1)")
    assert target.execute("select from reports.by_shop where shop = 'new'") == []
    assert rollup("verify").status == ExitStatus.OK


@pytest.mark.parametrize("mode", MODES)
def test_release_and_replay(mode: CommitMode, raw: dict[str, Any], target: Target, bare_lane: MakeBareLane) -> None:
    """What is released, and an epoch that Spark replays, count once."""
    target.execute("alter table sales add constraint small check (amount < 1000)")
    lane = bare_lane(mode=mode, on_skip=OnSkip.PARK)
    with target.as_lane.connect() as connection:
        keeping.keep(connection, Settings.of({**raw, "lane": lane.name}))
    lane.apply([_sale(1, "10"), _sale(2, "20", shop="b"), _sale(3, "30", shop=None)])
    lane.apply([_sale(1, "1001"), _sale(2, "5", shop="c")])
    lane.apply([_sale(1, "40", shop="c"), _gone(3)])  # the first one is parked
    equal(target)
    assert target.execute("select shop, total from reports.by_hour order by 1") == [("a", 10), ("c", 5)]

    target.execute("alter table sales drop constraint small")
    with target.engine.begin() as connection:
        numbers = [number for (number,) in connection.exec_driver_sql("select id from surelane.quarantine")]
        Operator(SCHEMA, lane.name, several=False).request_release(connection, numbers, "me@here", None, forced=False)
    lane.release()
    released = target.execute("select state from surelane.quarantine")
    assert [row.state for row in released] == ["released", "released"]
    equal(target)
    assert target.execute("select shop, total from reports.by_hour") == [("c", 45)]

    record = lane.apply([_sale(1, "50"), _sale(4, "60"), _gone(2)])
    for _ in range(2):
        lane.reopen_without_report()
        lane.replay()
        lane.lane.committer.commit()
        equal(target)
        assert target.execute("select sales, total, most from reports.by_hour") == [(2, 110, 1)]
    assert target.ledger(lane.name) != record, "applied again, or counted as duplicates"


def _sale(number: int, amount: str, shop: str | None = "a") -> Message:
    at = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    row = {"id": number, "shop": shop, "customer": 1, "at": at, "amount": Decimal(amount), "pieces": 1}
    return d.update(SALES, row)


def _gone(number: int) -> Message:
    return d.delete(SALES, {"id": number, "shop": None, "customer": 1, "at": None, "amount": None, "pieces": None})


def test_another_definition_and_one_that_is_gone(settings: Settings, target: Target) -> None:
    with target.as_lane.connect() as connection:
        keeping.keep(connection, settings)
        marks = target.execute("select oid from pg_proc where proname ~ '^rollup_'")
        keeping.keep(connection, settings)
        assert target.execute("select oid from pg_proc where proname ~ '^rollup_'") == marks, "nothing was made anew"
        changed = dict(ROLLUPS["by_shop"], aggregates={"sales": "count"})
        other = settings.model_copy(update={"rollups": {}})
        raw = {"by_shop": type(settings.rollups["by_shop"]).model_validate(changed)}
        new = settings.model_copy(update={"rollups": raw})
        with connection.begin():
            assert [one.state for one in keeping.states(connection, new)] == ["other definition"]
            assert len(keeping.not_configured(connection, new)) == 1
        keeping.keep(connection, new)
        with connection.begin():
            assert [one.state for one in keeping.states(connection, new)] == ["kept"]
            for function, _ in keeping.not_configured(connection, other):
                keeping.drop(connection, function, "surelane")
            assert keeping.not_configured(connection, other) == []
    target.execute("insert into sales values (1, 'a', 1, null, null, null)")
    assert target.execute("select from reports.by_shop") == []


def test_a_login_of_replicas(settings: Settings, target: Target) -> None:
    """Ordinary triggers do not fire in its sessions; those of a rollup do, where its role owns the table."""
    target.server.execute(f'alter role {LOGIN} in database "{target.database}" set session_replication_role = replica')
    with target.as_lane.connect() as connection, pytest.raises(TargetMismatch, match="must be owner"):
        keeping.keep(connection, settings)
    target.give("public.sales")
    with target.as_lane.connect() as connection:
        keeping.keep(connection, settings)
        with connection.begin():
            assert {one.state for one in keeping.states(connection, settings)} == {"kept"}
            connection.exec_driver_sql("insert into sales values (1, 'a', 1, '2024-01-01Z', 2, 3)")
    assert target.execute("select sales from reports.by_shop") == [(1,)]
    equal(target)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"of": "public.absent"}, "no table public.absent"),
        ({"by": ["absent"]}, "no column absent"),
        ({"aggregates": {"x": "sum(shop)"}}, "not exact"),
        ({"bucket": {"column": "shop", "width": "1 hours"}}, "no timestamp"),
    ],
)
def test_what_does_not_fit(change: dict[str, Any], words: str, settings: Settings, target: Target) -> None:
    raw = type(settings.rollups["by_shop"]).model_validate({**ROLLUPS["by_shop"], **change})
    wrong = settings.model_copy(update={"rollups": {"by_shop": raw}})
    with target.as_lane.connect() as connection, pytest.raises(TargetMismatch, match=words):
        keeping.keep(connection, wrong)


def test_a_table_that_is_no_rollup_stays(settings: Settings, target: Target) -> None:
    target.execute("create table reports.by_shop (id int)")
    target.give("reports.by_shop")
    target.execute("insert into reports.by_shop values (7)")
    with target.as_lane.connect() as connection, pytest.raises(TargetMismatch, match="no rollup: it lacks"):
        keeping.keep(connection, settings)
    assert target.execute("select id from reports.by_shop") == [(7,)]


def test_partitions(settings: Settings, target: Target) -> None:
    """Of a partitioned table; what is written to one by its own name is found."""
    target.execute(f"drop table sales; {SHOP} partition by hash (id); {GRANT}")
    for number in range(2):
        target.execute(
            f"create table sales_{number} partition of sales for values with (modulus 2, remainder {number})"
        )
    with target.as_lane.connect() as connection:
        keeping.keep(connection, settings)
        target.execute("insert into sales select i, 'a', i % 3, '2024-01-01Z', i, i from generate_series(1, 50) i")
        target.execute("update sales set id = id + 100, shop = 'b' where id % 3 = 0; delete from sales where id < 10")
        equal(target)
        target.execute("delete from sales_0")
        with connection.begin():
            by_hour, by_shop = keeping.definitions(connection, settings)
            assert keeping.differences(connection, by_hour, 10)
            keeping.rebuild(connection, by_hour)
            keeping.rebuild(connection, by_shop)
    equal(target)
