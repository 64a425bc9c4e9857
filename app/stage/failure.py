"""The answer to the driver when a request for rows or messages fails."""

from collections.abc import Callable
from typing import TypeVar

from app.errors import JobFailed, OutOfMemory, SurelaneError
from app.stage.receipt import Failed

A = TypeVar("A")


def or_failed(number: int, work: Callable[[], A]) -> A | Failed:
    """Do the work. An exception becomes the answer `Failed` to the request with this number."""
    try:
        return work()
    except SurelaneError as error:
        return Failed(number, type(error).__name__, error.message, error.hint)
    except MemoryError as error:
        return Failed(number, OutOfMemory.__name__, str(error), None)
    except Exception as error:  # noqa: BLE001  # a message may cause any exception
        return Failed(number, JobFailed.__name__, f"could not be decoded: {type(error).__name__}: {error}", None)
