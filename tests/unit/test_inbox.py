"""What the driver sends to a stage process, on a real connection, while its threads are busy."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import cast

import msgspec
import pytest

from app.epoch.epoch_batch import EpochBatch
from app.model.activity import Activity
from app.model.row_layout import SEPARATOR, RowKind
from app.stage.inbox import Granted, Inbox
from app.stage.receipt import Answer, Declined, Doing, Kept, Receipt
from app.stage.request import Cancel, Decode, Grant, Keep, Message, Request
from app.stage.stager import ArrangedSpan
from tests.decoded import table_of

SECONDS = 10.0
CHANGE = {
    "topic": "t",
    "partition": 0,
    "offset": 0,
    "layout": SEPARATOR.join([RowKind.UPSERT, "", "public", "orders", "id", "v"]),
    "key": '{"id":1}',
    "line": "1\ta\n",
    "ts_ms": 1000,
    "sequence": None,
}


@dataclass
class Driver:
    """The other end."""

    connection: Connection
    inbox: Inbox

    def send(self, *messages: Message) -> None:
        """In this order."""
        for message in messages:
            self.connection.send_bytes(msgspec.msgpack.encode(message))

    def answer(self) -> Answer:
        """The next one."""
        assert self.connection.poll(SECONDS), "no answer"
        return msgspec.msgpack.decode(self.connection.recv_bytes(), type=Answer)

    def next_id(self) -> int:
        """Of the request that is next to work on."""
        step = self.inbox.spans.next_step()
        assert isinstance(step, Request | Decode)
        return step.id

    def put_aside(self, number: int) -> ArrangedSpan:
        """A span that waits for its tables."""
        self.send(span(number))
        request = self.inbox.spans.next_step()
        assert isinstance(request, Request)
        changes = EpochBatch.arrange(table_of([CHANGE]))
        receipt = Receipt(number, 1, (), 0, (), (), b"", b"", (), 1, {})
        arranged = ArrangedSpan(request, changes, changes, dict(changes.firsts), receipt)
        wanted = arranged.wanted()
        assert wanted is not None
        self.inbox.spans.put_aside(arranged, wanted)
        assert self.answer() == wanted
        return arranged


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


def test_nothing_waits_for_a_span_that_waits_for_its_tables(driver: Driver) -> None:
    """Its turn may come after theirs."""
    arranged = driver.put_aside(1)
    driver.send(span(2), Keep(3, "orders", (), 3), Decode(4, "orders", ()))
    keep = driver.inbox.keeps.next()
    assert keep is not None
    driver.inbox.keeps.doing(Activity.FETCH)
    driver.inbox.keeps.answer(Kept(keep.id, ()))
    assert [driver.answer(), driver.answer()] == [Doing(3, Activity.FETCH), Kept(3, ())]
    assert driver.next_id() == 2
    driver.send(Grant(1, {}), Keep(5, "orders", (), 3))
    assert driver.inbox.keeps.next() is not None  # which was sent last
    assert driver.inbox.spans.next_step() == Granted(arranged, {})  # before what was asked for after it
    driver.inbox.spans.doing(Activity.SERVER)
    assert driver.answer() == Doing(1, Activity.SERVER)
    driver.inbox.spans.answer(arranged.receipt)
    assert driver.answer() == arranged.receipt
    assert driver.next_id() == 4


def test_a_grant_is_waited_for(driver: Driver) -> None:
    arranged = driver.put_aside(1)
    steps = SimpleQueue[object]()
    threading.Thread(target=lambda: steps.put(driver.inbox.spans.next_step()), daemon=True).start()
    driver.send(Grant(1, {"layout": None}))
    assert steps.get(timeout=SECONDS) == Granted(arranged, {"layout": None})


def test_a_span_that_is_cancelled_waits_no_longer(driver: Driver) -> None:
    """What was lent for it goes back when its process has done with it."""
    driver.put_aside(1)
    driver.send(Cancel(1), Decode(2, "orders", ()))
    assert driver.next_id() == 2
    assert driver.answer() == Declined(1, "cancelled")
    assert not driver.inbox.spans.is_cancelled()


def test_a_request_that_is_cancelled_before_its_turn_is_answered(driver: Driver) -> None:
    driver.send(span(1), Cancel(1), span(2), Keep(3, "orders", (), 3))
    assert driver.inbox.keeps.next() is not None  # which was sent last
    assert driver.next_id() == 2
    assert driver.answer() == Declined(1, "cancelled")


def test_when_the_driver_goes_every_wait_ends(driver: Driver) -> None:
    driver.put_aside(1)
    driver.connection.close()
    assert driver.inbox.spans.next_step() is None
    assert driver.inbox.spans.is_cancelled()
    assert driver.inbox.keeps.next() is None


def span(number: int) -> Request:
    """One of no messages."""
    return Request(number, "orders", (), {})
