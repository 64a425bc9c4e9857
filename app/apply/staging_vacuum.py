"""Giving back the space of staging tables, beside the epoch that comes next: VACUUM is in nobody's way."""

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Thread

from sqlalchemy import Engine

from app.apply import staging
from app.apply.staging import Staging
from app.db.sqlstate import translated

_DOING = "giving back the space of staging tables"


class Reclaiming:
    """Of one lane. To be asked between epochs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: tables that are still large
        self._begun: Future[list[str]] | None = None

    def run(self, stagings: Sequence[Staging]) -> None:
        """Begin with these tables, by a thread; empty those at once that VACUUM could not the last time.

        Raises what the thread has met the last time.
        """
        begun, self._begun = self._begun, None
        if begun is not None and (large := begun.result()):
            with translated(_DOING), self._engine.begin() as connection:
                staging.empty(connection, large)
        if stagings:
            for table in stagings:
                table.dirty = 0
            self._begun = Future()
            names = [table.name for table in stagings]
            # no pool: its threads are waited for at the end of the process, also one whose server does not answer
            Thread(target=self._vacuum, args=(names, self._begun), daemon=True).start()

    def _vacuum(self, names: list[str], done: Future[list[str]]) -> None:
        try:
            with translated(_DOING), self._engine.connect() as connection:
                own = connection.execution_options(isolation_level="AUTOCOMMIT")
                large = staging.reclaim(own, names)
        except BaseException as error:  # noqa: BLE001  # raised by whoever asks for the result
            done.set_exception(error)
        else:
            done.set_result(large)
