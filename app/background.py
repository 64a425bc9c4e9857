"""Work in a thread of its own, for which the end of the process does not wait."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def begun(work: Callable[[], Result]) -> Future[Result]:
    """Start `work`. There is no pool: the process' end waits for its threads, also where a server does not answer."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # the result raises it
            done.set_exception(error)
        else:
            done.set_result(result)

    Thread(target=run, daemon=True).start()
    return done
