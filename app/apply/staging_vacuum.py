"""Gives back the space of staging tables, beside the next epoch: VACUUM blocks no epoch."""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from sqlalchemy import Engine

from app import background
from app.apply import staging
from app.apply.staging import Staging
from app.db.sql import run
from app.db.sqlstate import translated
from app.epoch.staging_copy import truncation

_DOING = "giving back the space of staging tables"


class Reclaiming:
    """VACUUM for one lane. Called between epochs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: the VACUUM that was started; its result: tables that are still large
        self._begun: Future[list[str]] | None = None

    def run(self, stagings: Sequence[Staging]) -> None:
        """Start VACUUM of these tables in a thread; TRUNCATE those that the last one left large.

        Raises the error of the last thread.
        """
        begun, self._begun = self._begun, None
        if begun is not None and (large := begun.result()):
            with translated(_DOING), self._engine.begin() as connection:
                run(connection, truncation(large))
        if stagings:
            for table in stagings:
                table.dirty = 0
            self._begun = background.begun(partial(self._vacuum, [table.name for table in stagings]))

    def _vacuum(self, names: list[str]) -> list[str]:
        with translated(_DOING), self._engine.connect() as connection:
            return staging.reclaim(connection.execution_options(isolation_level="AUTOCOMMIT"), names)
