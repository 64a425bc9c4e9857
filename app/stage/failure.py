"""What is answered to the driver where a request for rows or messages fails."""

from collections.abc import Callable
from typing import TypeVar

from app.errors import JobFailed, OutOfMemory, SurelaneError
from app.stage.receipt import Failed

A = TypeVar("A")


def or_failed(number: int, work: Callable[[], A]) -> A | Failed:
    """What the work returns, or what it has raised as the answer to this request."""
    try:
        return work()
    except SurelaneError as error:
        return Failed(number, type(error).__name__, error.message, error.hint)
    except MemoryError as error:
        return Failed(number, OutOfMemory.__name__, str(error), None)
    except Exception as error:  # noqa: BLE001  # one of the messages may be the cause of whatever goes wrong
        return Failed(number, JobFailed.__name__, f"could not be decoded: {type(error).__name__}: {error}", None)
