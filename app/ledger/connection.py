"""The connection of an operator's verb to the target."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.ledger.revision import check_revision


@contextmanager
def connected(settings: Settings, application: str, doing: str) -> Iterator[Connection]:
    """Connect to the target. Raises TargetMismatch where its ledger is not at this version's revision; the target's
    errors name `doing`."""
    engine = make_engine(settings.target.url, settings.target.owner_role, application)
    try:
        with translated(doing), engine.connect() as connection:
            with connection.begin():
                check_revision(connection, settings.target.db_schema)
            yield connection
    finally:
        engine.dispose()
