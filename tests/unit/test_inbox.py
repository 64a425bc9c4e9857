"""What the driver sends to a stage process, on a real connection, while its threads are busy."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import cast

import msgspec
import pytest

from app.model.activity import Activity
from app.stage.inbox import Inbox
from app.stage.receipt import Answer, Declined, Doing, Kept, Wanted
from app.stage.request import Cancel, Decode, Grant, Keep, Message, Tables

SECONDS = 10.0


@dataclass
class Driver:
    """The other end."""

    connection: Connection
    inbox: Inbox
    given: "SimpleQueue[Tables | None]" = field(default_factory=SimpleQueue)

    def send(self, *messages: Message) -> None:
        """In this order."""
        for message in messages:
            self.connection.send_bytes(msgspec.msgpack.encode(message))

    def answer(self) -> Answer:
        """The next one."""
        assert self.connection.poll(SECONDS), "no answer"
        return msgspec.msgpack.decode(self.connection.recv_bytes(), type=Answer)

    def span_that_asks(self, number: int) -> None:
        """A thread works on this request, and wants tables."""
        self.send(Decode(number, "orders", ()))
        request = self.inbox.spans.next()
        assert request is not None
        wanted = Wanted(request.id, ())
        threading.Thread(target=lambda: self.given.put(self.inbox.ask(wanted)), daemon=True).start()
        assert self.answer() == wanted


@pytest.fixture
def driver() -> Iterator[Driver]:
    ours, theirs = cast("tuple[Connection, Connection]", Pipe())
    inbox = Inbox(theirs)
    receiving = threading.Thread(target=inbox.receive, daemon=True)
    receiving.start()
    with ours, theirs:
        yield Driver(ours, inbox)
        ours.close()
        receiving.join(SECONDS)
        assert not receiving.is_alive()


def test_the_archive_does_not_wait_for_a_span_that_waits_for_its_tables(driver: Driver) -> None:
    driver.span_that_asks(1)
    driver.send(Keep(2, "orders", (), 3))
    keep = driver.inbox.keeps.next()
    assert keep is not None
    driver.inbox.keeps.doing(Activity.FETCH)
    driver.inbox.keeps.answer(Kept(keep.id, ()))
    assert [driver.answer(), driver.answer()] == [Doing(2, Activity.FETCH), Kept(2, ())]
    driver.send(Grant(1, {}))
    assert driver.given.get(timeout=SECONDS) == {}


def test_a_span_that_is_cancelled_waits_no_longer(driver: Driver) -> None:
    driver.span_that_asks(1)
    driver.send(Cancel(1))
    assert driver.given.get(timeout=SECONDS) is None
    assert driver.inbox.spans.is_cancelled()


def test_a_request_that_is_cancelled_before_its_turn_is_answered(driver: Driver) -> None:
    """What was lent for it goes back when its process has done with it."""
    driver.send(Decode(1, "orders", ()), Cancel(1), Decode(2, "orders", ()), Keep(3, "orders", (), 3))
    assert driver.inbox.keeps.next() is not None  # which was sent last
    request = driver.inbox.spans.next()
    assert request is not None
    assert request.id == 2
    assert driver.answer() == Declined(1, "cancelled")


def test_when_the_driver_goes_every_wait_ends(driver: Driver) -> None:
    driver.span_that_asks(1)
    driver.connection.close()
    assert driver.given.get(timeout=SECONDS) is None
    assert driver.inbox.spans.is_cancelled()
    assert driver.inbox.keeps.next() is None
