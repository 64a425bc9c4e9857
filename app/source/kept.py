"""What the archive keeps, read by the tasks that stage."""

import itertools
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

#: seconds between two looks whether it is still wanted
_LOOK_SECONDS = 0.1
#: tasks that are asked for a span, one after the death of the other
_TRIES = 5


class KeptMessages:
    """See `app.archive.participant.Messages`. Used by one thread, but for `close`."""

    def __init__(self, pool: Pool, lane: str, level: int) -> None:
        """`level`: of zstd."""
        self._pool, self._lane, self._level = pool, lane, level
        self._closed = Event()

    def read(self, span: Span) -> Sequence[Block]:
        """See Messages. Raises Unreachable where task after task dies over it."""
        for tried in itertools.count(1):
            attempt = self._pool.keep(self._lane, ranges_of(span, KnownTerms()), self._level)
            try:
                answer = answer_of(self._pool, attempt, self._still, _LOOK_SECONDS)
            except TaskDied as died:
                if tried >= _TRIES:
                    raise Unreachable(died.message, hint="find out what ends Spark's tasks") from died
                log.info("a task has died; it is asked of another one", lane=self._lane, because=str(died.death))
                continue
            assert isinstance(answer, Kept), "it was asked for"
            return answer.blocks
        raise AssertionError("it counts without an end")

    def close(self) -> None:
        """See Messages."""
        self._closed.set()

    def _still(self) -> None:
        if self._closed.is_set():
            raise Unreachable("archive: nobody wants the messages any more", hint="nothing: the lane is closing")
