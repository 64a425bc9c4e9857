"""Statements that are sent together with the next one, and transactions of one round trip more than their statements,
on a real Postgres."""

from collections.abc import Iterator

import psycopg2
import pyarrow as pa
import pytest
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.joined import TransactionBlock, flush, later, subtransaction
from app.db.sql import run
from app.db.sqlstate import sqlstate
from app.epoch import staging_copy
from app.model.copy_values import field_of
from tests.fix_target import Target


@pytest.fixture
def connection(target: Target) -> Iterator[Connection]:
    target.execute("create table public.t (id int primary key, v text)")
    with target.as_lane.connect() as connection:
        yield connection


@pytest.fixture
def block(connection: Connection) -> TransactionBlock:
    return TransactionBlock(connection)


def ids(target: Target) -> list[int]:
    """Those that another session sees."""
    return [row.id for row in target.execute("select id from public.t order by id")]


def status(connection: Connection) -> int:
    """Of the session's transaction."""
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, psycopg2.extensions.connection)
    return driver.get_transaction_status()


def test_what_waits_is_sent_with_the_next_statement(
    target: Target, connection: Connection, block: TransactionBlock
) -> None:
    block.begin()
    later(connection, text("insert into public.t values (:id, :v)").bindparams(id=1, v="50 % of 'it'; select"))
    later(connection, "insert into public.t values (2, '100 %')")
    assert status(connection) == TRANSACTION_STATUS_IDLE
    assert run(connection, "select count(*) from public.t").scalar_one() == 2
    assert ids(target) == []
    block.end("commit")
    assert ids(target) == [1, 2]
    values = [row.v for row in target.execute("select v from public.t order by id")]
    assert values == ["50 % of 'it'; select", "100 %"]


def test_the_row_count_is_that_of_the_last_statement(connection: Connection, block: TransactionBlock) -> None:
    block.begin()
    later(connection, "insert into public.t select generate_series(1, 9)")
    assert run(connection, "delete from public.t where id > 6").rowcount == 3
    block.undo()


def test_an_error_of_what_waits_is_that_of_the_next_statement(
    target: Target, connection: Connection, block: TransactionBlock
) -> None:
    block.begin()
    later(connection, "insert into public.t values (1), (1)")
    with pytest.raises(IntegrityError) as refused:
        run(connection, "select 1")
    assert sqlstate(refused.value) == "23505"
    block.undo()
    assert (status(connection), ids(target)) == (TRANSACTION_STATUS_IDLE, [])


def test_nothing_of_a_transaction_that_is_undone_is_left(
    target: Target, connection: Connection, block: TransactionBlock
) -> None:
    block.begin()
    run(connection, "insert into public.t values (1)")
    later(connection, "insert into public.t values (2)")
    block.undo()
    block.begin()
    run(connection, "insert into public.t values (3)")
    block.end("commit")
    assert ids(target) == [3]


def test_a_commit_of_the_driver_does_not_lose_what_waits(connection: Connection) -> None:
    with pytest.raises(AssertionError), connection.begin():
        later(connection, "insert into public.t values (1)")


def test_a_prepared_transaction(target: Target, connection: Connection, block: TransactionBlock) -> None:
    name = f"surelane:{target.lane}:1:1"
    block.begin()
    later(connection, "insert into public.t values (1)")
    block.end(f"prepare transaction '{name}'")
    assert ids(target) == []
    block.alone(f"commit prepared '{name}'")
    assert ids(target) == [1]


@pytest.mark.parametrize("ending", ["commit", "prepare transaction 'surelane:failed:1:1'"])
def test_a_transaction_that_has_failed_does_not_end_well(
    ending: str, target: Target, connection: Connection, block: TransactionBlock
) -> None:
    """Postgres answers with ROLLBACK and no error."""
    block.begin()
    run(connection, "insert into public.t values (1)")
    with pytest.raises(IntegrityError):
        run(connection, "insert into public.t values (1)")
    with pytest.raises(psycopg2.InternalError):
        block.end(ending)
    assert (status(connection), ids(target)) == (TRANSACTION_STATUS_IDLE, [])


def test_a_lost_connection(target: Target, connection: Connection, block: TransactionBlock) -> None:
    block.begin()
    run(connection, "insert into public.t values (1)")
    target.cut_connections()
    with pytest.raises(DBAPIError):
        block.end("commit")
    block.undo()
    assert ids(target) == []


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_subtransaction(has_begun: bool, target: Target, connection: Connection, block: TransactionBlock) -> None:
    """`has_begun`: the transaction's first statement was sent before."""
    block.begin()
    if has_begun:
        run(connection, "insert into public.t values (1)")

    def refused() -> None:
        with subtransaction(connection):
            run(connection, "insert into public.t values (2)")
            run(connection, "insert into public.t values (2)")

    def given_up() -> None:
        with subtransaction(connection):
            later(connection, "insert into public.t values (3)")
            raise LookupError

    with pytest.raises(IntegrityError):
        refused()
    with pytest.raises(LookupError):
        given_up()
    with subtransaction(connection):
        run(connection, "insert into public.t values (4)")
    with connection.begin_nested():
        run(connection, "insert into public.t values (5)")
    block.end("commit")
    assert ids(target) == [*([1] if has_begun else []), 4, 5]


def test_a_copy(target: Target, connection: Connection, block: TransactionBlock) -> None:
    block.begin()
    run(connection, "insert into public.t values (1)")
    staging_copy.clear(connection, ["public.t"])
    lines = staging_copy.CopyLines(pa.array(["7\ta\n", "8\tb\n"]))
    assert staging_copy.copy_lines(connection, "public.t", ["id", "v"], lines) == 2
    block.end("commit")
    assert ids(target) == [7, 8]


VALUES = [
    (None, None),
    ("", "\\N"),
    ("'", "''; select 1 -- $$ %s %% ?"),
    ("\\", "\\\\ \\n \\t \\. \\x41"),
    ("a\tb\nc\rd", "\b\f\v\x1f\x7f"),
    ("ä 🦀 \u2028", '{"a": "b\\n"}'),
]


def test_inserted_lines_are_what_copied_lines_are(target: Target, connection: Connection) -> None:
    """Of small epochs and of large ones, whatever the values."""
    lines = pa.array([f"{number}\t{field_of(a)}\t{field_of(b)}\n" for number, (a, b) in enumerate(VALUES)])
    for name in ("copied", "inserted"):
        target.execute(f"create table public.{name} (id int, a text, b varchar(100))")
    columns = ("id", "a", "b")
    with connection.begin():
        inserted = run(connection, staging_copy.insertion("public.inserted", columns, lines))
        assert inserted.rowcount == len(VALUES)
        assert staging_copy.copy_lines(connection, "public.copied", columns, staging_copy.CopyLines(lines)) == len(
            VALUES
        )
    found = [target.execute(f"select a, b from public.{name} order by id") for name in ("copied", "inserted")]
    assert [[tuple(row) for row in rows] for rows in found] == [VALUES, VALUES]


def test_what_waits_is_sent_without_a_next_statement(target: Target, connection: Connection) -> None:
    with connection.begin():
        flush(connection)
        later(connection, "insert into public.t values (1)")
        later(connection, "insert into public.t values (2)")
        flush(connection)
    assert ids(target) == [1, 2]


def test_an_error_before_the_end_undoes_all(target: Target, connection: Connection, block: TransactionBlock) -> None:
    """Of a statement that was sent with the end: the session has no transaction any more, and takes the next one."""
    block.begin()
    later(connection, "insert into public.t values (1)")
    later(connection, "insert into public.t values (1)")
    with pytest.raises(IntegrityError):
        block.end("prepare transaction 'none'")
    assert (status(connection), ids(target)) == (TRANSACTION_STATUS_IDLE, [])
    block.begin()
    later(connection, "insert into public.t values (2)")
    block.end("commit")
    assert ids(target) == [2]
