"""The connection of shadow's commands to the target."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from app.config.settings import Settings
from app.db.engine import make_engine


@contextmanager
def connected(settings: Settings) -> Iterator[Connection]:
    engine = make_engine(settings.target.url, settings.target.owner_role, "surelane shadow")
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
