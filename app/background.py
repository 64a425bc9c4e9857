"""Work in another thread, for which the end of the process does not wait, also where a server does not answer."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def begun(work: Callable[[], Result]) -> Future[Result]:
    """Start `work` in a thread of its own."""
    done: Future[Result] = Future()
    Thread(target=_do, args=(work, done), daemon=True).start()
    return done


class BackgroundThread:
    """Does one work after the other. The thread begins with the first, and ends with `close`, behind the last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._works: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def begun(self, work: Callable[[], Result]) -> Future[Result]:
        """Start `work` as soon as those before it are done."""
        done: Future[Result] = Future()
        self._works.put((work, done))
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return done

    def close(self) -> None:
        """Does not wait; `begun` may be called again."""
        if self._thread is not None:
            self._works.put(None)
            self._thread = None

    def _run(self) -> None:
        while (next_ := self._works.get()) is not None:
            _do(*next_)


def _do(work: Callable[[], Result], done: Future[Result]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # the result raises it
        done.set_exception(error)
    else:
        done.set_result(result)
