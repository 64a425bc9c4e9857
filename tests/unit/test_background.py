"""Work in other threads: one after the other, with its errors, and a thread that ends."""

import threading

import pytest

from app.background import BackgroundThread, begun
from tests.waiting import eventually


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_its_result_and_its_error() -> None:
    assert begun(lambda: 1).result(10) == 1
    with pytest.raises(ZeroDivisionError):
        begun(lambda: 1 // 0).result(10)


def test_one_after_the_other() -> None:
    thread, may_end, done = BackgroundThread("test of order"), threading.Event(), list[int]()
    first = thread.begun(lambda: may_end.wait(10) and done.append(1))
    failing = thread.begun(lambda: 1 // 0)
    last = thread.begun(lambda: done.append(3))
    assert not last.done()
    may_end.set()
    last.result(10)
    assert (done, first.done()) == ([1, 3], True)
    with pytest.raises(ZeroDivisionError):
        failing.result(10)
    thread.close()


def test_the_thread_ends() -> None:
    thread = BackgroundThread("test of the end")
    assert "test of the end" not in names()
    for _ in range(3):
        assert thread.begun(lambda: 2).result(10) == 2
    assert names().count("test of the end") == 1
    thread.close()
    eventually(lambda: "test of the end" not in names(), why="its end")
    assert thread.begun(lambda: 3).result(10) == 3
    thread.close()
    thread.close()
    eventually(lambda: "test of the end" not in names(), why="its end")
