"""Rollups against Postgres alone: after each transaction the groups are those of the rows, whatever changed them."""

import random
from typing import Any

import pytest
from sqlalchemy import Connection

from app.config.settings import Settings
from app.errors import TargetMismatch
from app.rollup import keeping
from tests.fix_target import OWNER, Target
from tools.devstack.roles import LOGIN

SHOP = (
    "create table public.sales (id bigint primary key, shop text, customer int not null, at timestamptz,"
    " amount numeric, pieces int)"
)
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


@pytest.fixture
def settings(target: Target) -> Settings:
    """Of a lane with rollups, over a table of another owner."""
    target.create_schema("reports")
    target.execute(SHOP)
    target.execute(f"grant create on schema reports to {OWNER}")
    target.execute(f"grant select, insert, update, delete, truncate, trigger on public.sales to {OWNER}")
    return Settings.of(
        {
            "lane": "shop",
            "source": {"bootstrap_servers": "none:1", "topics": ["none"]},
            "target": target.section,
            "rollups": ROLLUPS,
        }
    )


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
