"""The crash: SIGKILL at the worst moment, and the lane's state at that moment."""

import time
from dataclasses import dataclass

from sqlalchemy import Engine

from app.db.prepared import prepared
from app.model.offsets import Offsets
from tools.demo.lane import DemoLane
from tools.demo.topic import Topic
from tools.demo.watch import TargetWatch, offset

#: The worst moment is between PREPARE TRANSACTION and COMMIT PREPARED. It lasts some milliseconds in each epoch; after
#: this time the lane is killed at any moment.
WAIT_SECONDS = 5.0
LOOK_SECONDS = 0.002


@dataclass(frozen=True, kw_only=True)
class Crash:
    """State observed after the SIGKILL and before the lane restarts."""

    at: float  #: monotonic seconds
    wall: float  #: seconds since 1970, as in the log
    generation: int
    #: newest epoch that Spark had planned, its end offset, and whether its entry in commits/ exists
    planned: int
    planned_end: int
    decided: bool
    #: gids of the prepared transactions
    in_doubt: tuple[str, ...]
    #: end offset of the last visible epoch, and the number of messages in the topic after it
    position: int
    lag: int


def crash(lane: DemoLane, target: Engine, watch: TargetWatch, topic: Topic) -> Crash:
    """Kill the lane's process group, if possible while a transaction is prepared."""
    lane.must_live()
    _await_prepared(target)
    at, wall = time.monotonic(), time.time()
    lane.kill()
    end, last = topic.end(), watch.epochs[-1]
    planned = max(int(entry.name) for entry in (lane.checkpoint / "offsets").iterdir() if entry.name.isdigit())
    return Crash(
        at=at,
        wall=wall,
        generation=last.generation,
        planned=planned,
        planned_end=_end(lane, planned),
        decided=(lane.checkpoint / "commits" / str(planned)).exists(),
        in_doubt=in_doubt(target),
        position=last.end,
        lag=end - last.end,
    )


def in_doubt(target: Engine) -> tuple[str, ...]:
    """Gids of the prepared transactions."""
    with target.connect() as connection:
        return tuple(one.gid for one in prepared(connection))


def _await_prepared(target: Engine) -> None:
    end = time.monotonic() + WAIT_SECONDS
    with target.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while not prepared(connection) and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)


def _end(lane: DemoLane, epoch: int) -> int:
    """End offset of a planned epoch, from the last line of Spark's offsets file."""
    text = (lane.checkpoint / "offsets" / str(epoch)).read_text()
    return offset(Offsets.from_json(text.splitlines()[-1]))
