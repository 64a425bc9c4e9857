"""Keeps the lanes of the original target stopped while a restored one takes its place.

It holds their locks while the original answers. A lane that starts on it all the same ends this session, as it ends a
dead writer's; `check` notices that. An original that does not answer is not needed.
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
from app.recover.stopped_lanes import ENDING_SECONDS

_NAME = "surelane recover"


class OriginalTarget:
    """The locks of the original's lanes; made by `held`."""

    def __init__(self, settings: Settings, lanes: Sequence[str]) -> None:
        self._target = settings.target
        self._lanes: tuple[str, ...] = tuple(lanes)
        self._connection: Connection | None = None
        #: why the original does not answer
        self.trouble: str | None = None

    def check(self) -> None:
        """Take the locks, if they are not held; raises Refused while a lane runs on the original."""
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
        """Like `check`, for polling: an original that did not answer is not tried again."""
        if self._connection is not None:
            self.check()

    def forget(self) -> None:
        """Hold no locks any more: the restored target has the original's address."""
        self._lanes = ()
        self.close()

    def close(self) -> None:
        """Release the locks."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _answers(self) -> bool:
        """Whether the session that holds the locks is alive."""
        if self._connection is None:
            return False
        try:
            lock_holder(self._connection, self._lanes[0])
        except DBAPIError:
            self.close()  # the server went away, or a lane was started: a new session finds out which
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
    """Hold the locks of these lanes, if there are any; raises Refused while a lane runs on the original."""
    original = OriginalTarget(settings, lanes)
    try:
        original.check()
        yield original
    finally:
        original.close()
