"""Receives the driver's requests to a stage process at once, also while its threads work."""

import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

import msgspec

from app.model.activity import Activity
from app.stage.receipt import Answer, Declined, Doing, Final, Wanted
from app.stage.request import Cancel, Decode, Grant, Keep, Message, Request, Tables

#: seconds to wait for tables: a span staged ahead that its lane does not take must not block others
GRANT_SECONDS = 60.0
_DECODER = msgspec.msgpack.Decoder(Message)
R = TypeVar("R", bound=Request | Decode | Keep)


class Requests(Generic[R]):
    """The driver's requests to one thread of this process, in order."""

    def __init__(self, inbox: "Inbox") -> None:
        self._inbox = inbox
        self._waiting: deque[R] = deque()
        self._current = 0
        #: the activity reported last for the current request
        self._reported: Activity | None = None

    def add(self, request: R) -> None:
        """Only the inbox calls this, and holds its lock."""
        self._waiting.append(request)

    def next(self) -> R | None:
        """The next request that is not cancelled; None: the driver is gone."""
        while self._inbox.wait_for(lambda: bool(self._waiting)):
            request = self._waiting.popleft()
            self._current, self._reported = request.id, None
            if not self.is_cancelled():
                return request
            self.answer(Declined(request.id, "cancelled"))
        return None

    def answer(self, answer: Final) -> None:
        """Send the last answer to the current request."""
        self._inbox.close(answer.id)
        self._inbox.send(answer)

    def doing(self, activity: Activity) -> None:
        """Report an activity before it begins: the driver knows of it even if it kills this process."""
        if activity != self._reported:
            self._reported = activity
            self._inbox.send(Doing(self._current, activity))

    def is_cancelled(self) -> bool:
        """Whether the current request is cancelled, or the driver is gone."""
        return self._inbox.is_cancelled(self._current)


class Inbox:
    """Hands the driver's messages to the threads that work on them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.spans, self.keeps = Requests[Request | Decode](self), Requests[Keep](self)
        self._sending, self._changed = threading.Lock(), threading.Condition()
        #: by id of each unanswered request: whether it is cancelled
        self._open: dict[int, bool] = {}
        self._grants: dict[int, Tables] = {}
        self._is_over = False

    def receive(self) -> None:
        """Receive messages until the driver is gone."""
        try:
            while True:
                message = _DECODER.decode(self._connection.recv_bytes())
                with self._changed:
                    self._take(message)
                    self._changed.notify_all()
        except (EOFError, OSError):
            pass
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def wait_for(self, is_there: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait for the condition; false when the time is over or the driver is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or is_there(), seconds)
            return not self._is_over and is_there()

    def send(self, answer: Answer) -> None:
        """Raises OSError where the driver is gone."""
        with self._sending:
            self._connection.send_bytes(msgspec.msgpack.encode(answer))

    def ask(self, wanted: Wanted) -> Tables | None:
        """Request tables and wait for them; None: the span is cancelled, or none came within GRANT_SECONDS."""
        self.send(wanted)
        self.wait_for(lambda: wanted.id in self._grants or self._open[wanted.id], GRANT_SECONDS)
        with self._changed:
            return self._grants.pop(wanted.id, None)

    def is_cancelled(self, number: int) -> bool:
        """Whether the request is cancelled or answered, or the driver is gone."""
        with self._changed:
            return self._is_over or self._open.get(number, True)

    def close(self, number: int) -> None:
        """Forget a request that is answered."""
        with self._changed:
            del self._open[number]
            self._grants.pop(number, None)

    def _take(self, message: Message) -> None:
        match message:
            case Keep():
                self._open[message.id] = False
                self.keeps.add(message)
            case Request() | Decode():
                self._open[message.id] = False
                self.spans.add(message)
            case Grant(id=number, tables=tables) if number in self._open:
                self._grants[number] = tables
            case Cancel(id=number) if number in self._open:
                self._open[number] = True
            case _:  # for a request that was answered meanwhile
                return
