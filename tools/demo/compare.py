"""Compares source and target table by table: the servers count and hash their rows, and return only the results."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Text, cast, column, func, literal, literal_column, select, table
from sqlalchemy.dialects.postgresql import aggregate_order_by

from tools.demo.tables import TABLES, DemoTable

#: at most so many differing rows are reported
NAMED_ROWS = 3
_WHOLE_ROW = cast(literal_column("t"), Text)


@dataclass(frozen=True, kw_only=True)
class TableContent:
    """Row count and hash of a table."""

    rows: int
    #: over all rows as text, in the order of the primary key
    md5: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of one table."""

    table: str
    source: TableContent
    target: TableContent
    #: primary keys of at most NAMED_ROWS differing rows
    differing: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return self.source == self.target


def compare(source: Engine, target: Engine) -> tuple[Comparison, ...]:
    """Compare all tables of the demo."""
    with source.connect() as left, target.connect() as right:
        return tuple(_compare(left, right, one) for one in TABLES)


def _compare(left: Connection, right: Connection, one: DemoTable) -> Comparison:
    source, target = _content(left, one), _content(right, one)
    differing = () if source == target else _differing(left, right, one)
    return Comparison(table=one.name, source=source, target=target, differing=differing)


def _content(connection: Connection, one: DemoTable) -> TableContent:
    rows = table(one.name, *(column(name) for name in one.key)).alias("t")
    whole = func.string_agg(_WHOLE_ROW, aggregate_order_by(literal("\n"), *rows.c))
    count, md5 = connection.execute(select(func.count(), func.md5(func.coalesce(whole, ""))).select_from(rows)).one()
    return TableContent(rows=count, md5=md5)


def _differing(left: Connection, right: Connection, one: DemoTable) -> tuple[str, ...]:
    """Primary keys that one side lacks, or has with other values."""
    at_source, at_target = _hashes(left, one), _hashes(right, one)
    keys = sorted(key for key, _ in at_source ^ at_target)
    return tuple(dict.fromkeys(keys))[:NAMED_ROWS]


def _hashes(connection: Connection, one: DemoTable) -> set[tuple[str, str]]:
    rows = table(one.name, *(column(name) for name in one.key)).alias("t")
    key = func.concat_ws(", ", *rows.c)
    return {(row[0], row[1]) for row in connection.execute(select(key, func.md5(_WHOLE_ROW)).select_from(rows))}
