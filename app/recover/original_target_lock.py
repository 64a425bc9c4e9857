"""The original target while another one takes its place: its lanes have to stay stopped.

Their locks are held for as long as it answers. A lane that is started on it all the same ends our session, as it would
a dead writer's; `check` notices. A target that is gone cannot be asked, and is not needed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.locks import lock_holder, wait_for_lock
from app.db.sqlstate import translated
from app.errors import Refused, SurelaneError

_NAME = "surelane recover"
#: seconds that the session of a call that has just ended, or was killed, may take to give its lock back
ENDING_SECONDS = 5.0


class OriginalTarget:
    """Made by `held`."""

    def __init__(self, settings: Settings, lanes: Sequence[str]) -> None:
        self._target = settings.target
        self._lanes: tuple[str, ...] = tuple(lanes)
        self._connection: Connection | None = None
        #: why it cannot be asked
        self.trouble: str | None = None

    def check(self) -> None:
        """Raises Refused when a lane runs there."""
        if not self._lanes or self._answers():
            return
        try:
            self._connect()
            self.trouble = None
        except Refused:
            raise
        except SurelaneError as error:
            self.close()
            self.trouble = error.message

    def look(self) -> None:
        """The same, often: one that did not answer is not asked again."""
        if self._connection is not None:
            self.check()

    def forget(self) -> None:
        """What answers at its place now is the restored one."""
        self._lanes = ()
        self.close()

    def close(self) -> None:
        """Give the locks back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _answers(self) -> bool:
        """Whether the session that holds the locks is there."""
        if self._connection is None:
            return False
        try:
            lock_holder(self._connection, self._lanes[0])
        except DBAPIError:
            self.close()  # the server went away, or somebody took the lane over: a new session tells which
            return False
        return True

    def _connect(self) -> None:
        engine = make_engine(self._target.url, self._target.owner_role, _NAME)
        with translated("asking the original target"):
            self._connection = engine.execution_options(isolation_level="AUTOCOMMIT").connect()
            for lane in self._lanes:
                if (holder := wait_for_lock(self._connection, lane, ENDING_SECONDS)) is not None:
                    raise Refused(
                        f"lane {lane} runs on the original target (backend {holder} holds its lock)",
                        hint="stop it first, then call this again",
                    )


@contextmanager
def held(settings: Settings, lanes: Sequence[str]) -> Iterator[OriginalTarget]:
    """Raises Refused while a lane runs there; no lanes: there is nothing to hold."""
    original = OriginalTarget(settings, lanes)
    try:
        original.check()
        yield original
    finally:
        original.close()
