"""Receives the driver's requests to a stage process at once, also while its threads work."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

import msgspec

from app.model.activity import Activity
from app.stage.receipt import Answer, Declined, Doing, Final, Wanted
from app.stage.request import Cancel, Decode, Grant, Keep, Message, Request, Tables
from app.stage.stager import ArrangedSpan

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
            if self._begins(request.id):
                return request
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

    def _begins(self, number: int) -> bool:
        """Make the request the current one; a cancelled one is answered instead."""
        self._current, self._reported = number, None
        if self.is_cancelled():
            self.answer(Declined(number, "cancelled"))
            return False
        return True


@dataclass(frozen=True)
class Granted:
    """A span that was put aside, and the tables it asked for."""

    arranged: ArrangedSpan
    tables: Tables


class Spans(Requests[Request | Decode]):
    """Requests for spans. A span that waits for tables is put aside meanwhile: others, perhaps those whose turn it is,
    do not wait for it."""

    def __init__(self, inbox: "Inbox") -> None:
        super().__init__(inbox)
        self._aside: dict[int, ArrangedSpan] = {}

    def put_aside(self, arranged: ArrangedSpan, wanted: Wanted) -> None:
        """Ask for the span's missing tables; `next_step` returns it again when they are granted."""
        self._aside[wanted.id] = arranged
        self._inbox.send(wanted)

    def next_step(self) -> Request | Decode | Granted | None:
        """A span put aside that has its tables, else the next request; None: the driver is gone."""
        while self._inbox.wait_for(lambda: self._can_go_on() is not None or bool(self._waiting)):
            number = self._can_go_on()
            if number is None:
                request = self._waiting.popleft()
                if self._begins(request.id):
                    return request
            else:
                arranged = self._aside.pop(number)
                if self._begins(number):
                    return Granted(arranged, self._inbox.granted(number))
        return None

    def _can_go_on(self) -> int | None:
        """A span put aside whose tables are granted, or that is cancelled."""
        return next((number for number in self._aside if self._inbox.is_decided(number)), None)


class Inbox:
    """Hands the driver's messages to the threads that work on them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.spans, self.keeps = Spans(self), Requests[Keep](self)
        self._sending = threading.Lock()
        #: reentrant: conditions that are waited for use methods of this class
        self._changed = threading.Condition(threading.RLock())
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

    def wait_for(self, is_there: Callable[[], bool]) -> bool:
        """Wait for the condition; false when the driver is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or is_there())
            return not self._is_over

    def send(self, answer: Answer) -> None:
        """Raises OSError where the driver is gone."""
        with self._sending:
            self._connection.send_bytes(msgspec.msgpack.encode(answer))

    def is_decided(self, number: int) -> bool:
        """Whether a request that asked for tables has them, or is cancelled."""
        with self._changed:
            return number in self._grants or self._open[number]

    def granted(self, number: int) -> Tables:
        """The tables granted to a request."""
        with self._changed:
            return self._grants.pop(number)

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
