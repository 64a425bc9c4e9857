"""Giving back the space of staging tables, beside the epoch that comes next: VACUUM is in nobody's way."""

from collections.abc import Sequence
from threading import Thread

from sqlalchemy import Engine

from app.apply import staging
from app.apply.staging import Staging
from app.db.failures import translated
from app.errors import SurelaneError

_DOING = "giving back the space of staging tables"


class Reclaiming:
    """Of one lane. To be asked between epochs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread: Thread | None = None
        #: what came of it the last time: tables that are still large, or what went wrong
        self._large: list[str] = []
        self._error: SurelaneError | None = None

    def run(self, stagings: Sequence[Staging]) -> None:
        """Begin with these tables, by a thread; empty those at once that VACUUM could not the last time.

        Raises what the thread has met the last time.
        """
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        (large, self._large), (error, self._error) = (self._large, []), (self._error, None)
        if error is not None:
            raise error
        if large:
            with translated(_DOING), self._engine.begin() as connection:
                staging.empty(connection, large)
        if stagings:
            for table in stagings:
                table.dirty = 0
            self._thread = Thread(target=self._vacuum, args=([table.name for table in stagings],), daemon=True)
            self._thread.start()

    def _vacuum(self, names: list[str]) -> None:
        try:
            with translated(_DOING), self._engine.connect() as connection:
                own = connection.execution_options(isolation_level="AUTOCOMMIT")
                self._large = staging.reclaim(own, names)
        except SurelaneError as error:
            self._error = error
