"""Reads messages for the archive, in the tasks that stage."""

from collections.abc import Sequence
from threading import Event

import structlog

from app.archive.file import Block
from app.errors import Unreachable
from app.model.offsets import Span
from app.source.waiting import answer_of
from app.stage.lost import TaskDied
from app.stage.pool import Pool
from app.stage.receipt import Kept
from app.stage.request import KnownTerms, ranges_of

log = structlog.get_logger()

#: seconds between two checks whether it was closed
_LOOK_SECONDS = 0.1
#: tries to read a span, each after the death of a task
_TRIES = 5


class KeptMessages:
    """An `app.archive.archive_participant.Messages`. Used by one thread; any thread may call `close`."""

    def __init__(self, pool: Pool, lane: str, level: int) -> None:
        """`level`: zstd's compression level."""
        self._pool, self._lane, self._level = pool, lane, level
        self._closed = Event()

    def read(self, span: Span) -> Sequence[Block]:
        """The span's messages. Raises Unreachable where task after task dies over them, and once it is closed."""
        tries = _TRIES
        while True:
            attempt = self._pool.keep(self._lane, ranges_of(span, KnownTerms()), self._level)
            try:
                answer = answer_of(self._pool, attempt, self._still, _LOOK_SECONDS)
            except TaskDied as died:
                tries -= 1
                if not tries:
                    raise Unreachable(died.message, hint="find out what ends Spark's tasks") from died
                log.info("a task has died; it is asked of another one", lane=self._lane, because=str(died.death))
                continue
            assert isinstance(answer, Kept), "it was asked for"
            return answer.blocks

    def close(self) -> None:
        self._closed.set()

    def _still(self) -> None:
        if self._closed.is_set():
            raise Unreachable("archive: the lane no longer reads the messages", hint="nothing: the lane is closing")
