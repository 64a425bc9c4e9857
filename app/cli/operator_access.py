"""Connections to what operators read and answer: prepared transactions, the quarantine, the guard's records."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from app.cli.guard_view import guard_document
from app.cli.rendering import Document
from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import Refused
from app.poison.guard_database import guard_engine
from app.poison.guard_overview import overview
from app.quarantine.operator import Operator
from app.recover.in_doubt_evidence import source_of
from app.recover.in_doubt_overview import Observer


@contextmanager
def in_doubt(settings: Settings, copy: Path | None = None) -> Iterator[tuple[Connection, Observer]]:
    """A connection to the target in autocommit mode, and an observer. `copy`: of the checkpoint."""
    target = settings.target
    several = settings.source.is_by_partition
    observer = Observer(target.db_schema, settings.lane, source_of(settings.checkpoint, copy), several=several)
    engine = make_engine(target.url, target.owner_role, "surelane indoubt").execution_options(
        isolation_level="AUTOCOMMIT"
    )
    with translated("prepared transactions"), engine.connect() as connection:
        yield connection, observer


@contextmanager
def quarantine(settings: Settings) -> Iterator[tuple[Connection, Operator]]:
    """A short transaction on the target, and an operator."""
    target = settings.target
    engine = make_engine(target.url, target.owner_role, "surelane quarantine")
    operator = Operator(target.db_schema, settings.lane, several=settings.source.is_by_partition)
    with translated("the quarantine"), engine.begin() as connection:
        yield connection, operator


def guard_records(settings: Settings) -> Document:
    """The guard's records, read from the guard's database alone; both of its tables in one snapshot."""
    engine = guard_engine(settings, "surelane guard").execution_options(isolation_level="REPEATABLE READ")
    with translated("the guard's tables"), engine.connect() as connection:
        several = settings.source.is_by_partition
        lanes = overview(connection, settings.target.db_schema, settings.lane, several=several)
    return guard_document(lanes, settings.guard)


def check_releasable(settings: Settings) -> None:
    """Raises Refused for a query, whose state is beyond its skipped messages."""
    if settings.query is not None:
        raise Refused(
            f"lane {settings.lane}: a query does not take a message up again: its state is beyond it",
            hint="mend the query or the message, then surelane state rebuild "
            f"{settings.lane.partition('.')[2]}; or discard the entry",
        )
