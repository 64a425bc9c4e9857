"""Reads messages for the archive, in the tasks that stage."""

from collections.abc import Sequence
from threading import Event

import structlog

from app.archive.file import Block
from app.dispatch.lost import TaskDied
from app.dispatch.pool import Pool
from app.errors import Unreachable
from app.model.offsets import Span
from app.source.waiting import answer_of
from app.stage.receipt import Kept
from app.stage.request import KnownTerms, ranges_of

log = structlog.get_logger()

#: seconds between two checks whether to stop
_LOOK_SECONDS = 0.1
#: tries to read a span, each after the death of a task
_TRIES = 5


def messages_to_keep(pool: Pool, lane: str, level: int, span: Span, stop: Event) -> Sequence[Block]:
    """The span's messages, compressed by zstd at `level`. Raises Unreachable where task after task dies over them, and
    soon after `stop` is set."""

    def still() -> None:
        if stop.is_set():
            raise Unreachable("archive: the lane no longer reads the messages", hint="nothing: the lane is closing")

    tries = _TRIES
    while True:
        attempt = pool.keep(lane, ranges_of(span, KnownTerms()), level)
        try:
            answer = answer_of(pool, attempt, still, _LOOK_SECONDS)
        except TaskDied as died:
            tries -= 1
            if not tries:
                raise Unreachable(died.message, hint="find out what ends Spark's tasks") from died
            log.info("a task has died; another one reads the messages", lane=lane, because=str(died.death))
            continue
        assert isinstance(answer, Kept), "blocks were requested"
        return answer.blocks
