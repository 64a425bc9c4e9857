"""Connections to what operators read and answer: prepared transactions, the quarantine, the guard's records."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine

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
def in_doubt(
    settings: Settings, copy: Path | None = None, *, engine: Engine | None = None
) -> Iterator[tuple[Connection, Observer]]:
    """A connection to the target in autocommit mode, and an observer. `copy`: of the checkpoint; `engine`: one that is
    there already."""
    target = settings.target
    several = settings.source.is_by_partition
    observer = Observer(target.db_schema, settings.lane, source_of(settings.checkpoint, copy), several=several)
    used = engine or make_engine(target.url, target.owner_role, "surelane indoubt")
    by_itself = used.execution_options(isolation_level="AUTOCOMMIT")
    with translated("prepared transactions"), by_itself.connect() as connection:
        yield connection, observer


@contextmanager
def quarantine(settings: Settings, *, engine: Engine | None = None) -> Iterator[tuple[Connection, Operator]]:
    """A short transaction on the target, and an operator. `engine`: one that is there already."""
    target = settings.target
    used = engine or make_engine(target.url, target.owner_role, "surelane quarantine")
    operator = Operator(target.db_schema, settings.lane, several=settings.source.is_by_partition)
    with translated("the quarantine"), used.begin() as connection:
        yield connection, operator


def guard_records(settings: Settings, *, engine: Engine | None = None) -> Document:
    """The guard's records, read from the guard's database alone; both of its tables in one snapshot. `engine`: one that
    is there already."""
    used = engine or guard_engine(settings, "surelane guard")
    in_one = used.execution_options(isolation_level="REPEATABLE READ")
    with translated("the guard's tables"), in_one.connect() as connection:
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
