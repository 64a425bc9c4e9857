"""A source at a steady rate: sends each change when it is due, with the send time as its commit time."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg2
from numpy.typing import NDArray

from tools.testbed.tables import Expected
from tools.testbed.topic import PROMPT, filling
from tools.testbed.workload import Change, Kind, Shape, Workload, key_of, statement, value_of

#: least seconds of a sleep: changes that become due meanwhile are sent together
_TICK_SECONDS = 0.002
#: the default workload
SHAPE = Kind.UNIFORM.shape
#: takes a change, its ordinal and its time in seconds since 1970
Send = Callable[[Change, int, float], None]


@dataclass(frozen=True, kw_only=True)
class Paced:
    """The sent messages; the index is the message's ordinal, which equals its offset if the topic was empty."""

    #: source commit time of each message, seconds since 1970
    sent_at: NDArray[np.float64]
    #: the right content by table name
    expected: Mapping[str, Expected]


@contextmanager
def paced(to: str, topic: str, rate: int, count: int, **options: Any) -> Iterator[Future[Paced]]:
    """`pace` in a process of its own, so that the measurement does not slow it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        yield process.submit(pace, to, topic, rate, count, **options)


def pace(to: str, topic: str, rate: int, count: int, shape: Shape = SHAPE, *, is_database: bool = False) -> Paced:
    """Send `count` changes, `rate` a second. `to`: bootstrap address of Kafka, or the URL of a database, which commits
    what is due at a time together."""
    workload = Workload(shape, count)
    sent_at = np.zeros(count, np.float64)
    with _into_database(to) if is_database else _into_topic(to, topic) as (send, due):
        begin = time.time()
        for ordinal, change in enumerate(workload):
            ahead = begin + ordinal / rate - time.time()
            if ahead > 0:
                due()
                time.sleep(max(ahead, _TICK_SECONDS))
            sent_at[ordinal] = now = time.time()
            send(change, ordinal, now)
        due()
    return Paced(sent_at=sent_at, expected=workload.expected())


@contextmanager
def _into_topic(bootstrap: str, topic: str) -> Iterator[tuple[Send, Callable[[], None]]]:
    with filling(bootstrap, topic, PROMPT) as produce:

        def send(change: Change, ordinal: int, now: float) -> None:
            produce(value_of(change, ordinal, int(now * 1_000_000)), key_of(change))

        yield send, lambda: None


@contextmanager
def _into_database(url: str) -> Iterator[tuple[Send, Callable[[], None]]]:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    waiting: list[bytes] = []
    with connection.cursor() as cursor:

        def send(change: Change, _: int, __: float) -> None:
            waiting.append(statement(cursor, change))

        def due() -> None:
            if waiting:
                cursor.execute(b"; ".join(waiting))  # statements of one call are one transaction
                waiting.clear()

        yield send, due
    connection.close()
